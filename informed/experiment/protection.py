"""DP bounds of a run's private training, and whether its attacks stay below them.

`evaluation` writes both to results.json, because an attack above its bound would show a
fault in training or in accounting. The bounds are those of `dp`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int

from dp import rates
from dp.rero import rero_bound
from informed import metrics
from shadow.factory import Factory
from shadow.models import ShadowModels
from shadow.training import steps_taken

DELTA = 1e-5  # at which epsilon is reported
# Confidence of the upper bound on kappa.
CONFIDENCE = 0.99
# Thresholds of minus the MSE for recognising a target, one per point of the ROC.
_THRESHOLDS = -np.linspace(0, 0.2, 41)
_FIELDS = (
    "epsilon",
    "epsilon_of_target",
    "accounted",
    "delta",
    "label_kappa",
    "label_bound",
)


def accounted(developer: Factory) -> str:
    """Say which steps the accounting counts, given who knows which randomness."""
    descent = developer.descent
    q, epochs = descent.privacy.sampling_probability, descent.epochs
    if q == 1:
        return f"full batches, {epochs} steps"
    if not descent.order_is_public and descent.privacy.sampling == "allocation":
        steps = descent.privacy.steps_an_epoch
        return f"one random step of every {steps} that nobody is told, {epochs} steps"
    if not descent.order_is_public:
        return f"sampling with probability {q:g} that nobody is told, {epochs} steps"
    taken = steps_taken(
        descent.privacy, epochs, developer.public_key, len(developer.fixed)
    )
    return (
        f"public sampling: the target takes part in {taken[-1]} of {epochs} steps, no"
        f" record in more than {taken.max()}"
    )


def of(
    developer: Factory, labels: Int[np.ndarray, " images"]
) -> dict[str, float | str | None]:
    """Return the bounds, as fields of results.json; all None if no noise is added.

    Args:
      developer: the factory that trained the released models.
      labels: labels of images from the targets' distribution.
    Returns:
      epsilon: at delta, of the "zero_out" relation, for every record of the training
        set; epsilon_of_target: for the target's position in it, which a public order
        may sample less often than others.
      accounted: what was counted, in words.
      label_kappa: success of always guessing the most frequent label; an upper bound
        with confidence `CONFIDENCE`.
      label_bound: the largest probability with which anyone who doesn't know the
        target's label can guess it, for the target's position.
    """
    if not developer.descent.privacy.noise_multiplier:
        return dict.fromkeys(_FIELDS)
    target = developer.mechanism(record=-1)
    kappa = most_frequent(labels, developer.fixed.num_classes)
    return {
        "epsilon": developer.mechanism().epsilon(DELTA),
        "epsilon_of_target": target.epsilon(DELTA),
        "accounted": accounted(developer),
        "delta": DELTA,
        "label_kappa": kappa,
        "label_bound": float(rero_bound(target, kappa=kappa).gamma),
    }


def against(
    theory: Mapping[str, Any],
    developer: Factory,
    truth: ShadowModels,
    guess: Mapping[str, np.ndarray],
    *,
    known: bool = False,
) -> dict[str, float | int | None]:
    """Test whether an attack stays within the bounds; all None if no noise is added.

    Args:
      theory: the bounds of this training, as `of` returns them.
      developer: the factory that trained the released models.
      truth: the released models and their targets.
      guess: the attack's arrays by name: images, and perhaps labels.
      known: whether the adversary knew a part of the target. Then all fields are None,
        because a guess then resembles its target without the release too.
    Returns:
      label_violation: probability of so many right labels or more if the bound holds.
      roc_violations: number of error thresholds at which the attack recognises a
        release's own target more often than its false positives on other targets
        allow. The model had another target in the place of those, so the bound is
        that of "replace_one". None with one release.
    """
    if theory["epsilon"] is None or known:
        return {"label_violation": None, "roc_violations": None}
    run = developer.mechanism(relation="replace_one", record=-1)
    count = len(guess["images"])
    targets = truth.images[:count]
    # For each release, pick the target of another one.
    away = np.random.default_rng(0).integers(1, max(count, 2), count)
    others = (np.arange(count) + away) % count

    def most_true(rate: float) -> float:
        return 1 - float(run.tradeoff(rate))

    violated = rates.roc_violations(
        -metrics.mse(targets, guess["images"]),
        -metrics.mse(targets[others], guess["images"]),
        most_true,
        _THRESHOLDS,
    )
    chance = None
    if "labels" in guess:
        right = int((guess["labels"] == truth.labels[:count]).sum())
        chance = rates.violation(right, count, theory["label_bound"])
    return {
        "label_violation": chance,
        "roc_violations": len(violated) if count > 1 else None,
    }


def most_frequent(labels: Int[np.ndarray, " images"], num_classes: int) -> float:
    """Return an upper confidence bound on the most frequent label's probability.

    Clopper-Pearson at `CONFIDENCE`, over all classes at once.
    """
    counts = np.bincount(labels, minlength=num_classes)
    one = 1 - 2 * (1 - CONFIDENCE) / num_classes  # the interval is two-sided
    return rates.clopper_pearson(int(counts.max()), len(labels), one)[1]
