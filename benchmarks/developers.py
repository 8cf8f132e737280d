"""The developer whom most benchmarks attack: gradient descent on a small victim."""

from collections.abc import Mapping
from typing import Any

import jax

import shadow


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
        algorithm=shadow.GradientDescent(
            victim=built, training=shadow.TrainingConfig(**training)
        ),
        fixed=fixed,
        key=jax.random.key(seed),
        role="released",
    )
