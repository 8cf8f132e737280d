"""What theory says of an experiment's private training."""

import numpy as np
from jaxtyping import Int

import dp
from dp import accounting
from shadow.training import TrainingConfig

DELTA = 1e-5


def of(
    training: TrainingConfig, labels: Int[np.ndarray, " images"]
) -> dict[str, float | None]:
    """Fields of results.json; None where training adds no noise.

    Args:
      training: of the released models.
      labels: of images of the targets' kind.
    Returns: epsilon at delta, of the "zero_out" relation, and the largest probability
      with which anyone can name the target's label, who would otherwise name the most
      frequent one.
    """
    if not training.privacy.noise_multiplier:
        return {"epsilon": None, "delta": None, "label_bound": None}
    run = training.privacy.mechanism(steps=training.epochs, relation="zero_out")
    kappa = float(np.bincount(labels).max() / len(labels))
    return {
        "epsilon": accounting.epsilon(run, DELTA),
        "delta": DELTA,
        "label_bound": float(dp.rero_bound(run, kappa=kappa).gamma),
    }
