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


def of_two(models: Models, seconds_a_model: float, *, limit: float) -> dict[str, Any]:
    """Tell which of two candidates was trained on: train with both and compare.

    The other candidate is a public record, of the same label where there is one.

    Returns: name, about, knows, rate (a share with its interval), seconds, why_not.
    """
    targets, subject = models.targets, models.subject
    outcome: dict[str, Any] = {
        "name": "membership, of two candidates",
        "about": "train with each candidate and compare the weights",
        "knows": f"{ALL_BUT_ONE if models.secret else SEED}, both candidates",
        "rate": None,
        "seconds": 0.0,
        "why_not": "",
    }
    cost = 2 * len(targets) * seconds_a_model  # both candidates of every target
    if not (subject.deterministic or models.secret):
        why = "equal arguments give other weights, so that training again tells nothing"
        return outcome | {"why_not": why}
    if cost > limit:
        why = f"it takes about {cost:.0f} s, and has {limit:.0f} s: more --minutes"
        return outcome | {"why_not": why}
    public, rng = subject.split.shadow, np.random.default_rng(subject.seed)
    others = []
    for label in targets.labels:
        same = np.flatnonzero(public.labels == label)
        others.append(rng.choice(same if len(same) else np.arange(len(public))))
    # Heads or tails for every release, though the truth is always the released target.
    coins = np.random.default_rng(subject.seed).integers(0, 2, len(targets))
    both = targets.joined(public.take(np.array(others)))
    rows = np.arange(len(targets))
    pair = (
        both.take(rows + len(rows) * coins),
        both.take(rows + len(rows) * (1 - coins)),
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            trial = play(
                registry.find("membership"),
                Material(workdir=Path(folder), key=subject.key, seconds_a_model=cost),
                models.weights,
                models.knowledge(),
                key=subject.key,
                limit=limit,
                candidates=pair,
            )
    except Exception as error:  # the user's own function, on another record
        return outcome | {"why_not": stopped_with(error)}
    if trial.choice is not None:
        rate = metrics.success_rate(trial.choice == coins)
        outcome["rate"] = dataclasses.asdict(rate)
    return outcome | {"seconds": round(trial.seconds, 2), "why_not": trial.why_not}
