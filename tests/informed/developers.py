"""A developer who trains a small network, and the parts of the data."""

import dataclasses

import jax

import shadow
from informed.experiment.training_settings import TrainingConfig


def parts_of(digits, *, dark=0, fixed=100, targets=2):
    """D_- with its first rows of pixels black, and others as they are."""
    parts = shadow.split(
        digits, num_fixed=fixed, num_shadow=100, num_test=targets, seed=0
    )
    images = parts.fixed.images.copy()
    images[:, :dark] = 0
    whole = dataclasses.replace(parts.fixed, images=images)
    return dataclasses.replace(parts, fixed=whole)


def developer(parts, **training):
    victim = shadow.build_victim(
        shadow.VictimConfig(widths=(6,)), image_shape=(8, 8, 1), num_classes=10
    )
    descent = TrainingConfig(**training).algorithm(victim)
    return shadow.Factory(
        algorithm=descent,
        fixed=parts.fixed,
        key=jax.random.key(7),
        role="released",
        width=2,
    )
