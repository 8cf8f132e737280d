"""Which records: the targets, worst first, and what would have told who falls.

Cheap indicators of a record, none of which needs an attack:

influence    how far theta moves if the record takes the place of the mean record
leverage     x^T (X^T X + ridge)^-1 x in the features
outlierness  distance to the nearest other record
loss         under the model that was trained on it

Each is held against how well an attack did (Spearman's rank correlation), so that one
knows whether a ranking of all records by it is worth anything.
"""

import contextlib
import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats

from informed import metrics
from informed.audit import membership
from informed.audit.subject import WEIGHTS
from informed.audit.trained import Models
from informed.metrics import judging
from informed.play import Trial
from shadow.data import Examples

# Ridge of the leverage, as a share of the mean variance.
_RIDGE = 1e-2
# Other records that leverage is computed from, at most.
_ROWS = 2000
# Targets that a page shows, at most.
SHOWN = 12
# Targets without which no correlation is given.
_FEWEST = 5
INDICATORS = {
    "influence": "how far the weights move if the record replaces the mean record",
    "leverage": "leverage in the features",
    "outlierness": "distance to the nearest other record",
    "loss": "loss under the model that was trained on it",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranking:
    """The targets and the indicators.

    Attributes:
      rows: one a target, worst first; JSON-able.
      order: positions of the targets, worst first.
      indicators: name -> about, correlation with the error, p-value, targets.
      by: name of the attack that the order and the correlations are of.
    """

    rows: list[dict[str, Any]]
    order: list[int]
    indicators: dict[str, dict[str, Any]]
    by: str


def pictures(
    order: list[int],
    targets: Examples,
    trials: list[Trial],
    baselines: list[judging.Baseline],
) -> dict[str, Any]:
    """Records and guesses: training data, for `Report.pictures` alone.

    Args:
      order: positions of the targets of which `SHOWN` are shown, evenly from worst to
        best.
      Others: as for `rank`.
    """
    places = np.linspace(0, len(order) - 1, min(SHOWN, len(order)))
    guesses = {t.name: t.images for t in trials if t.images is not None}
    oracle = next(b for b in baselines if b.name == "nearest public record")
    return {
        "shown": [order[i] for i in np.unique(places.round().astype(int))],
        "targets": targets,
        "guesses": {n: g for n, g in guesses.items() if np.isfinite(g).any()},
        "nearest": oracle.images,
    }


def ranked(
    models: Models, trials: list[Trial], *, seconds_a_model: float, limit: float
) -> tuple[list[judging.Baseline], Ranking]:
    """Guesses without the release, and the targets of an audit; see `rank`.

    Args:
      seconds_a_model, limit: as for `indicators`.
    """
    subject, targets = models.subject, models.targets
    pool, ids = subject.known_to_all(), subject.split.test_indices
    groups = None if subject.table is None else subject.table.groups
    baselines = judging.baselines(targets, pool, groups=groups)
    found = indicators(models, seconds_a_model=seconds_a_model, limit=limit)
    return baselines, rank(targets, pool, ids, trials, baselines, found)


def rank(
    truth: Examples,
    pool: Examples,
    ids: np.ndarray,
    trials: list[Trial],
    baselines: list[judging.Baseline],
    found: dict[str, np.ndarray],
) -> Ranking:
    """Rank the targets by the least error of any attack on one unknown record.

    Args:
      truth: the targets, in the order in which they were attacked.
      pool: all that is known to everyone.
      ids: their places in the data.
      trials, baselines: what attacks, and guesses without a release, made of them.
      found: indicators by name; see `indicators`.
    """
    trials = [t for t in trials if t.images is not None]
    by_attack = {t.name: judging.errors(t, truth) for t in trials}
    alone = [t for t in trials if t.reads_one]
    best, read = np.full(len(truth), np.inf), np.zeros(len(truth), bool)
    for trial in alone:
        own = by_attack[trial.name]
        best[: len(own)] = np.minimum(best[: len(own)], own)
        read[: len(own)] |= judging.read(trial, truth, pool, baselines)
    least = judging.thresholds(baselines)
    order = np.argsort(best, kind="stable")
    rows = []
    for i in order.tolist():
        attacks = {
            name: _number(errors[i]) if i < len(errors) else None
            for name, errors in by_attack.items()
        }
        # Those that certify, and finished this target.
        judged = [t for t in alone if t.certified is not None and _of(t.finished, i)]
        certain = [t.name for t in judged if _of(t.certified, i)]
        rows.append(
            {
                "record": int(ids[i]),
                "label": int(truth.labels[i]),
                "best_mse": _number(best[i]),
                "without_release_mse": float(least[i]),
                "read": bool(read[i]),
                "certified": bool(certain) if judged else None,
                "certified_by": certain,
                "mse": attacks,
                **{name: float(values[i]) for name, values in found.items()},
            }
        )
    names = [t.name for t in trials if not t.names]
    name = max(names, key=lambda each: _graded(by_attack[each]), default="")
    return Ranking(
        rows=rows,
        order=[int(i) for i in order],
        indicators=_predictive(found, by_attack.get(name, np.empty(0))),
        by=name,
    )


def _of(values: np.ndarray | None, target: int) -> bool:
    """Of a target; False: the attack didn't come to it."""
    return values is not None and target < len(values) and bool(values[target])


def indicators(
    models: Models, *, seconds_a_model: float = 0.0, limit: float = float("inf")
) -> dict[str, np.ndarray]:
    """Name -> (targets,); those that can be had.

    Args:
      limit: seconds; what takes longer by `seconds_a_model` is left out.
    """
    subject, targets = models.subject, models.targets
    pool = subject.known_to_all()
    found = geometry(targets, pool, len(subject.fixed))
    affordable = seconds_a_model * len(np.unique(targets.labels)) <= limit / 4
    told = not models.secret and subject.deterministic and subject.comparable
    if told and affordable:
        # The user's own function may not take the mean record of a label.
        with contextlib.suppress(Exception):
            found["influence"] = influence(models)
    if subject.answering:
        scores = membership.scores(models, np.asarray(models.released))
        found["loss"] = -np.diagonal(scores)
    return found


def geometry(targets: Examples, pool: Examples, count: int) -> dict[str, np.ndarray]:
    """Indicators that need no model.

    Args:
      pool: records that everybody knows.
      count: size of a training set.
    """
    flat = pool.images.reshape(len(pool), -1).astype(np.float64)
    own = targets.images.reshape(len(targets), -1).astype(np.float64)
    mean = flat.mean(axis=0)
    rows = np.random.default_rng(0).permutation(len(flat))[:_ROWS]
    return {
        "leverage": leverage(flat[rows] - mean, own - mean) / count,
        "outlierness": metrics.nearest_neighbours(targets.images, pool.images).mse,
    }


def leverage(
    pool: Float[np.ndarray, "rows features"], own: Float[np.ndarray, "some features"]
) -> Float[np.ndarray, " some"]:
    """x^T (C + ridge)^-1 x, C the covariance of the pool; both centred.

    By way of the inner products of rows: pictures have more features than fit squared.
    """
    scaled = pool / np.sqrt(max(len(pool) - 1, 1))
    ridge = _RIDGE * np.sum(scaled**2) / pool.shape[1] + 1e-12
    along = own @ scaled.T
    products = scaled @ scaled.T + ridge * np.eye(len(pool))
    explained = np.sum(along * np.linalg.solve(products, along.T).T, axis=1)
    return (np.sum(own**2, axis=1) - explained) / ridge


def influence(models: Models) -> np.ndarray:
    """How far weights are from those after training on the mean record of the label."""
    subject, targets = models.subject, models.targets
    labels = np.unique(targets.labels)
    pool = subject.known_to_all()
    means = pool.means(labels)
    runs = subject.runs(models.knowledge().training_key, len(labels))
    at_means = runs(means[:, None], labels[:, None], np.zeros(len(labels), int))
    own = subject.only(WEIGHTS)(models.released)
    return np.linalg.norm(
        own - at_means[np.searchsorted(labels, targets.labels)], axis=1
    )


def _graded(errors: np.ndarray) -> float:
    """How well an attack's errors tell records apart: not if nearly all are the same.

    Exact inversions all have the same rank; the learned attacks grade.
    """
    if len(errors) < _FEWEST or not np.isfinite(errors).all():
        return -1.0
    return len(np.unique(np.maximum(errors, judging.EXACT))) / len(errors)


def _predictive(
    found: dict[str, np.ndarray], errors: np.ndarray
) -> dict[str, dict[str, Any]]:
    """How well each indicator ranks: high values for small errors give +1."""
    result = {}
    for name, about in INDICATORS.items():
        values = found.get(name)
        correlation = p_value = None
        count = min(len(errors), 0 if values is None else len(values))
        if values is not None and count >= _FEWEST:
            some, graded = values[:count], np.maximum(errors[:count], judging.EXACT)
            if np.ptp(some) > 0 and np.ptp(graded) > 0:
                spearman = stats.spearmanr(some, -graded)
                correlation = float(spearman.statistic)
                p_value = float(spearman.pvalue)
        result[name] = {
            "about": about,
            "correlation": correlation,
            "p_value": p_value,
            "targets": int(count),
        }
    return result


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
