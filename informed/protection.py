"""What theory says of an experiment's private training."""

import numpy as np
from jaxtyping import Bool, Int

import dp
from dp import accounting, rates
from shadow.training import TrainingConfig

DELTA = 1e-5


def of(
    training: TrainingConfig,
    labels: Int[np.ndarray, " images"],
    right: Bool[np.ndarray, " targets"] | None,
) -> dict[str, float | None]:
    """Fields of results.json; None where training adds no noise.

    Args:
      training: of the released models.
      labels: of images of the targets' kind.
      right: whether the attack named each target's label, where it names labels.
    Returns: epsilon at delta, of the "zero_out" relation; the largest probability with
      which anyone can name the target's label, who would otherwise name the most
      frequent one; and the probability of as many right labels if that holds.
    """
    if not training.privacy.noise_multiplier:
        names = ("epsilon", "delta", "label_bound", "label_violation")
        return dict.fromkeys(names)
    run = training.privacy.mechanism(steps=training.epochs, relation="zero_out")
    kappa = float(np.bincount(labels).max() / len(labels))
    gamma = float(dp.rero_bound(run, kappa=kappa).gamma)
    return {
        "epsilon": accounting.epsilon(run, DELTA),
        "delta": DELTA,
        "label_bound": gamma,
        "label_violation": None
        if right is None
        else rates.violation(int(right.sum()), len(right), gamma),
    }
