"""What true patterns tell: of planted first layers, and of a trained one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uninformed import homogeneous
from uninformed import max_margin as margin
from uninformed.homogeneous import HomogeneousConfig, Layer
from uninformed.kkt import ceiling, directions

POINTS, INPUTS, UNITS = 6, 30, 40


def correlations(points, found):
    return [np.corrcoef(pair)[0, 1] for pair in zip(points, found, strict=True)]


@pytest.mark.parametrize("biases", [True, False])
def test_points_come_out_of_a_planted_layer(biases, rng):
    points = rng.standard_normal((POINTS, INPUTS))
    multipliers = rng.uniform(0.5, 2, POINTS)
    back = rng.standard_normal((POINTS, UNITS)) * (rng.random((POINTS, UNITS)) > 0.5)
    weights = (multipliers[:, None] * points).T @ back
    layer = Layer(jnp.asarray(weights), jnp.asarray(multipliers @ back))
    if biases:
        found = ceiling.least_squares(layer, back)
        np.testing.assert_allclose(found, points, atol=1e-4)
    else:
        # Lengths are lost.
        found = ceiling.least_squares(layer._replace(b=None), back)
        np.testing.assert_allclose(found, multipliers[:, None] * points, atol=1e-4)


def test_points_with_the_same_patterns_are_not_told_apart(rng):
    points = rng.standard_normal((POINTS, INPUTS))
    back = np.repeat(rng.standard_normal((2, UNITS)), POINTS // 2, axis=0)
    layer = Layer(jnp.asarray(points.T @ back), jnp.asarray(back.sum(axis=0)))
    found = ceiling.least_squares(layer, back)
    means = points.reshape(2, POINTS // 2, INPUTS).mean(axis=1)
    np.testing.assert_allclose(found, np.repeat(means, POINTS // 2, axis=0), atol=1e-4)
    assert max(correlations(points, found)) < 0.9


def test_a_trained_network_tells_what_an_untrained_one_does_not():
    # Of other points kinks hide some: patterns that are neither on nor off.
    points = np.random.default_rng(0).standard_normal((POINTS, INPUTS))
    points = points.astype(np.float32)
    labels = np.arange(POINTS) % 2
    config = HomogeneousConfig(widths=(UNITS, UNITS), first_scale=1e-2)
    start = homogeneous.init(config, INPUTS, jax.random.key(0))

    def alike(network):
        outputs = homogeneous.apply(network, jnp.asarray(points))
        towards = directions(outputs, jnp.asarray(labels))
        found = ceiling.from_patterns(network, jnp.asarray(points), towards)
        return np.median(correlations(points, found))

    trained = margin.train(
        margin.MarginConfig(fitting_steps=3000, route_steps=10_000),
        start,
        points,
        labels,
    )
    assert alike(trained) > 0.9
    assert alike(start) < 0.5
