"""Membership beside reconstruction: which of two known candidates was in.

Knowing a record and asking whether it was in is another question than reading it out.
It is here for comparison: most tools answer this one alone.
"""

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from informed import metrics
from informed.attacks import registry
from informed.attacks.attack_row import Material
from informed.audit.trained import Models
from informed.play import ALL_BUT_ONE, SEED, play, stopped_with
from shadow.data import Examples

_CONFIDENCE = 0.95


def of_two(models: Models, seconds_a_model: float, *, limit: float) -> dict[str, Any]:
    """Which of two candidates was trained on: train with both and compare.

    The other candidate is a public record, of the same label where there is one.

    Returns: about, knows, rate (a share with its interval), seconds, why_not.
    """
    targets, subject = models.targets, models.subject
    words = of_two_words(secret=models.secret)
    cost = 2 * len(targets) * seconds_a_model
    why = models.why_incomparable
    if not why and cost > limit:
        why = f"it takes about {cost:.0f} s, and has {limit:.0f} s: more --minutes"
    if why:
        return {**words, "rate": None, "seconds": 0.0, "why_not": why}
    others = of_same_label(subject.split.shadow, targets, subject.seed)
    # Heads or tails for every release, though the truth is always the released target.
    coins = np.random.default_rng(subject.seed).integers(0, 2, len(targets))
    both, rows = targets.joined(others), np.arange(len(targets))
    pair = (
        both.take(rows + len(rows) * coins),
        both.take(rows + len(rows) * (1 - coins)),
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            trial = play(
                registry.find("membership"),
                Material(
                    workdir=Path(folder),
                    key=models.key,
                    # Both candidates of every target are trained on.
                    seconds_a_model=2 * len(targets) * seconds_a_model,
                ),
                models.weights,
                models.knowledge(),
                key=models.key,
                limit=limit,
                candidates=pair,
            )
    except Exception as error:  # the user's own function, on another record
        return words | {"rate": None, "seconds": 0.0, "why_not": stopped_with(error)}
    return words | {
        "rate": None
        if trial.choice is None
        else dataclasses.asdict(metrics.success_rate(trial.choice == coins)),
        "seconds": round(trial.seconds, 2),
        "why_not": trial.why_not,
    }


def of_two_words(*, secret: bool) -> dict[str, Any]:
    """What `of_two` is called."""
    return {
        "name": "membership, of two candidates",
        "about": "train with each candidate and compare the weights",
        "knows": f"{ALL_BUT_ONE if secret else SEED}, both candidates",
    }


def of_same_label(pool: Examples, targets: Examples, seed: int) -> Examples:
    """One record of the pool for each target, of its label where there is one."""
    rng = np.random.default_rng(seed)
    rows = []
    for label in targets.labels:
        members = np.flatnonzero(pool.labels == label)
        rows.append(rng.choice(members if len(members) else np.arange(len(pool))))
    return pool.take(np.array(rows))
