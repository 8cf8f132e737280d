"""Rank true records by how well attacks got them, and choose those that a page shows.

`audit_state` and `run_report` call it after the attacks, which never see the truth.
`rank` makes the page's table of records, `pictures` its images. Nothing is written.
"""

from typing import Any

import numpy as np

from informed.metrics import judging
from informed.play import Trial
from shadow.data import Examples

# Largest number of targets shown on a page.
SHOWN = 12


def pictures(
    order: list[int],
    targets: Examples,
    trials: list[Trial],
    baselines: list[judging.Baseline],
) -> dict[str, Any]:
    """Return records and guesses: training data, for `Report.pictures` alone.

    Args:
      order: positions of the targets, best reconstructed first; `SHOWN` of them are
        shown, evenly spaced.
      targets, trials: the `truth` and `trials` of `rank`.
      baselines: guesses without a release.
    """
    places = np.linspace(0, len(order) - 1, min(SHOWN, len(order)))
    guesses = {t.name: t.images for t in trials if t.images is not None}
    oracle = next(b for b in baselines if b.name == judging.NEAREST)
    return {
        "shown": [order[i] for i in np.unique(places.round().astype(int))],
        "targets": targets,
        "guesses": {n: g for n, g in guesses.items() if np.isfinite(g).any()},
        "nearest": oracle.images,
    }


def rank(
    truth: Examples,
    ids: np.ndarray,
    trials: list[Trial],
    verdicts: list[judging.Verdict | None],
    least: np.ndarray,
) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the targets, ranked by the smallest error of any attack.

    Args:
      truth: the targets, in the order in which they were attacked.
      ids: positions of the targets in the data.
      trials: the reconstructions of every attack.
      verdicts: the errors of each trial; None: the attack wasn't played.
      least: (targets,), errors of the best guesses without a release.
    Returns: a JSON-able row per target; positions of the targets; both ordered with
      the best reconstructed target first.
    """
    by_attack: dict[str, np.ndarray] = {}
    best, read = np.full(len(truth), np.inf), np.zeros(len(truth), bool)
    certain: list[list[str]] = [[] for _ in range(len(truth))]
    judged = np.zeros(len(truth), bool)  # a certifying attack finished this target
    for trial, verdict in zip(trials, verdicts, strict=True):
        if verdict is None:
            continue
        errors = verdict.mse
        by_attack[trial.name] = np.full(len(truth), np.inf)
        by_attack[trial.name][: len(errors)] = errors
        best[: len(errors)] = np.minimum(best[: len(errors)], errors)
        read[: len(errors)] |= verdict.read
        if trial.certified is not None and trial.finished is not None:
            judged[: len(errors)] |= trial.finished
            for i in np.flatnonzero(trial.finished & trial.certified):
                certain[i].append(trial.name)
    order = [int(i) for i in np.argsort(best, kind="stable")]
    rows = [
        {
            "record": int(ids[i]),
            "label": int(truth.labels[i]),
            "best_mse": float(best[i]) if np.isfinite(best[i]) else None,
            "without_release_mse": float(least[i]),
            "read": bool(read[i]),
            "certified": bool(certain[i]) if judged[i] else None,
            "certified_by": certain[i],
            "mse": {
                name: float(errors[i]) if np.isfinite(errors[i]) else None
                for name, errors in by_attack.items()
            },
        }
        for i in order
    ]
    return rows, order
