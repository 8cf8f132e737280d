"""Losses of targets under released models, against optax."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import shadow
from informed.metrics.losses import target_losses


def test_losses_are_optaxs(digits):
    split = shadow.split(digits, num_fixed=60, num_shadow=40, num_test=20, seed=0)
    victim = shadow.build_victim(
        shadow.VictimConfig(widths=(6,)), image_shape=(8, 8, 1), num_classes=10
    )
    factory = shadow.Factory(
        algorithm=shadow.GradientDescent(
            victim=victim, training=shadow.TrainingConfig(epochs=30)
        ),
        fixed=split.fixed,
        key=jax.random.key(0),
        role="released",
    )
    targets = split.test
    weights = factory.train(targets.take(np.arange(2)))
    found = target_losses(victim, weights, targets)
    for row, theta in zip(found, weights, strict=True):
        logits = victim.apply(victim.unflatten(jnp.asarray(theta)), targets.images)
        expected = optax.softmax_cross_entropy_with_integer_labels(
            logits, targets.labels
        )
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)
