"""Membership beside reconstruction: who was in, of two known candidates or by its loss.

Knowing a record and asking whether it was in is another question than reading it out.
It is here for comparison: most tools answer this one alone.
"""

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from informed import metrics
from informed.attacks import registry
from informed.attacks.row import Material
from informed.audit.subject import CANARIES
from informed.audit.trained import Models
from informed.play import ALL_BUT_ONE, SEED, play, stopped_with
from shadow import limits
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


def by_scores(models: Models, *, limit: float = float("inf")) -> dict[str, Any]:
    """Membership by the scores of models that can be asked; see `audited`.

    Args:
      limit: seconds that it may take.
    """
    if not models.subject.answering or models.shadows is None:
        return _WORDS | {"why_not": "it needs models that can be asked, and shadows"}
    released, shadows = models.released, models.shadows.weights
    try:
        with limits.seconds(limit):
            return audited(scores(models, released), scores(models, shadows))
    except limits.OutOfTimeError as error:
        return _WORDS | {"why_not": str(error).rstrip(".")}


_WORDS: dict[str, Any] = {
    "name": "membership, by scores",
    "about": "the score of each target's label, with and without it (jax-privacy)",
    "knows": "the record; shadow models",
    "auc": None,
    "epsilon": None,
    "why_not": "",
}


def audited(
    of_released: Float[np.ndarray, "targets targets"],
    of_shadows: Float[np.ndarray, "models targets"],
) -> dict[str, Any]:
    """Membership by scores, and what epsilon they imply, by jax-privacy's auditor.

    A score is taken beside its mean and deviation over shadow models, which didn't
    train on the record. In: the model that did. Out: the next target's model, so that
    every model counts once on each side.

    Args:
      of_released: log-probability of each target's label (columns) under each model.
      of_shadows: log-probabilities under shadow models, which saw no target.
    Returns: name, about, knows, auc, epsilon (at least so much, with a confidence of 95
      %; relation "replace_one"), or why_not.
    """
    if len(of_released) < 2:
        return _WORDS | {"why_not": "it needs two targets"}
    try:
        from jax_privacy import auditing
    except ImportError:
        why = "jax-privacy isn't installed: pip install 'informed-adversary[privacy]'"
        return _WORDS | {"why_not": why}
    centre, scale = of_shadows.mean(axis=0), of_shadows.std(axis=0) + 1e-9
    scores = (of_released - centre) / scale
    own = np.arange(len(scores))
    auditor = auditing.CanaryScoreAuditor(
        scores[own, own], scores[own, np.roll(own, 1)]
    )
    epsilon = float(auditor.epsilon_clopper_pearson(1 - _CONFIDENCE))
    return _WORDS | {"auc": float(auditor.attack_auroc()), "epsilon": epsilon}


def scores(models: Models, thetas: np.ndarray) -> np.ndarray:
    """(thetas, targets): log-probability of each released target's label."""
    subject, labels = models.subject, models.targets.labels
    answers = np.asarray(subject.only(CANARIES)(thetas), np.float64)
    values = answers.reshape(len(answers), len(subject.split.test), -1)
    return log_probabilities(values[:, : len(labels)])[
        :, np.arange(len(labels)), labels
    ]


def log_probabilities(scores: np.ndarray) -> np.ndarray:
    """Scores (..., classes), probabilities or any others, as log-probabilities."""
    sums = scores.sum(axis=-1)
    if (scores >= 0).all() and np.abs(sums - 1).max() < 1e-3:
        return np.log(np.maximum(scores, 1e-12))
    return np.asarray(jax.nn.log_softmax(scores, axis=-1))
