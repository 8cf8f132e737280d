"""What theory says of an experiment's private training, and whether attacks obey it."""

import numpy as np
from jaxtyping import Bool, Float, Int

import dp
from dp import accounting, bounds, rates
from informed import metrics
from shadow.training import TrainingConfig

DELTA = 1e-5
_THRESHOLDS = -np.linspace(0, 0.2, 41)  # of minus the mean squared error
_FIELDS = ("epsilon", "delta", "label_bound", "label_violation", "roc_violations")


def of(
    training: TrainingConfig,
    labels: Int[np.ndarray, " images"],
    targets: Float[np.ndarray, "targets height width channels"],
    guesses: Float[np.ndarray, "targets height width channels"],
    right: Bool[np.ndarray, " targets"] | None,
) -> dict[str, float | None]:
    """Fields of results.json; None where training adds no noise.

    Args:
      training: of the released models.
      labels: of images of the targets' kind.
      targets, guesses: of every release.
      right: whether the attack named each target's label, where it names labels.
    Returns:
      epsilon: at delta, of the "zero_out" relation.
      label_bound: the largest probability with which anyone can name the target's
        label, who would otherwise name the most frequent one.
      label_violation: the probability of as many right labels if that holds.
      roc_violations: at how many errors the attack recognises a release's own target
        more often than its false positives on other targets allow. Those are trained
        on too, so the bound is that of "replace_one".
    """
    if not training.privacy.noise_multiplier:
        return dict.fromkeys(_FIELDS)
    run = training.privacy.mechanism(steps=training.epochs, relation="zero_out")
    kappa = float(np.bincount(labels).max() / len(labels))
    gamma = float(dp.rero_bound(run, kappa=kappa).gamma)
    others = np.random.default_rng(0).integers(0, len(targets), len(targets))
    replaced = dp.Gaussian(
        noise_multiplier=training.privacy.noise_multiplier,
        steps=training.epochs,
        relation="replace_one",
    )
    violated = rates.roc_violations(
        -metrics.mse(targets, guesses),
        -metrics.mse(targets[others], guesses),
        lambda rate: float(np.exp(bounds.gaussian(np.log(rate), replaced.mu))),
        _THRESHOLDS,
    )
    return {
        "epsilon": accounting.epsilon(run, DELTA),
        "delta": DELTA,
        "label_bound": gamma,
        "label_violation": None
        if right is None
        else rates.violation(int(right.sum()), len(right), gamma),
        "roc_violations": len(violated),
    }
