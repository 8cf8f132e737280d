"""The developer whom most benchmarks attack: gradient descent on a small victim."""

from collections.abc import Mapping
from typing import Any

import jax

import shadow
from informed.experiment.training_settings import TrainingConfig


def developer(
    fixed: shadow.Examples,
    *,
    seed: int = 0,
    victim: Mapping[str, Any] | None = None,
    **training: Any,
) -> shadow.Factory:
    """A factory of released models, Table V's unless told otherwise.

    Args:
      fixed: D_-.
      seed: of the factory's key.
      victim: fields of `VictimConfig` that deviate.
      training: fields of `TrainingConfig` that deviate.
    """
    built = shadow.build_victim(
        shadow.VictimConfig(**(victim or {})),
        image_shape=fixed.image_shape,
        num_classes=fixed.num_classes,
    )
    return shadow.Factory(
        algorithm=TrainingConfig(**training).algorithm(built),
        fixed=fixed,
        key=jax.random.key(seed),
        role="released",
    )
