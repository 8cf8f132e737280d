"""Which records: the targets, worst first."""

import dataclasses
from typing import Any

import numpy as np

from informed.metrics import judging
from informed.play import Trial
from shadow.data import Examples

# Targets that a page shows, at most.
SHOWN = 12


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranking:
    """The targets, ranked.

    Attributes:
      rows: one a target, worst first; JSON-able.
      order: positions of the targets, worst first.
    """

    rows: list[dict[str, Any]]
    order: list[int]


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


def rank(
    truth: Examples,
    pool: Examples,
    ids: np.ndarray,
    trials: list[Trial],
    baselines: list[judging.Baseline],
) -> Ranking:
    """Rank the targets by the least error of any attack on one unknown record.

    Args:
      truth: the targets, in the order in which they were attacked.
      pool: all that is known to everyone.
      ids: their places in the data.
      trials, baselines: what attacks, and guesses without a release, made of them.
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
            }
        )
    return Ranking(rows=rows, order=[int(i) for i in order])


def _of(values: np.ndarray | None, target: int) -> bool:
    """Of a target; False: the attack didn't come to it."""
    return values is not None and target < len(values) and bool(values[target])


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
