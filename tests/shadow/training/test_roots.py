"""Roots with a slope of zero at zero: the same values, and finite derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import shadow
from shadow.training.roots import with_finite_slopes

EPOCHS = 6


def adam(images, labels, key):
    """A linear model by Adam as optax has it, in a scan that a condition ends."""
    del key
    rows = images.reshape(len(images), -1)
    optimiser = optax.adam(1e-2)

    def loss(weights):
        return optax.softmax_cross_entropy_with_integer_labels(
            rows @ weights, labels
        ).mean()

    def step(state, number):
        def taken(state):
            weights, moments = state
            change, moments = optimiser.update(jax.grad(loss)(weights), moments)
            return weights + change, moments

        return jax.lax.cond(number < EPOCHS, taken, lambda state: state, state), None

    begin = jnp.zeros((rows.shape[1], 3))
    return jax.lax.scan(step, (begin, optimiser.init(begin)), jnp.arange(8))[0][0]


@pytest.fixture
def points(rng):
    images = rng.random((12, 4, 4, 1), dtype=np.float32)
    images[:, 1, 2] = 0.0  # a constant column: its gradients are zero
    return images, np.arange(12, dtype=np.int32) % 3


def test_the_same_values_bit_for_bit(points):
    def run(function):
        return np.asarray(jax.jit(function)(*points, jax.random.key(0)))

    np.testing.assert_array_equal(run(with_finite_slopes(adam)), run(adam))


def test_derivatives_are_those_without_the_constant_column(points, rng):
    images, labels = points
    moved = rng.standard_normal(images.shape).astype(np.float32)
    moved[:, 1, 2] = 0.0

    def slope(function, images, moved):
        def theta(images):
            return function(images, labels, jax.random.key(0))

        return np.asarray(jax.jvp(theta, (images,), (moved,))[1])

    assert np.isnan(slope(adam, images, moved)).all()
    found = slope(with_finite_slopes(adam), images, moved)
    kept = np.arange(16) != 6
    rows = images.reshape(12, 16)[:, kept].reshape(12, 1, 15, 1)
    expected = slope(adam, rows, moved.reshape(12, 16)[:, kept].reshape(rows.shape))
    np.testing.assert_allclose(found[kept], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found[~kept], 0.0)
    backwards = jax.grad(
        lambda z: with_finite_slopes(adam)(z, labels, jax.random.key(0)).sum()
    )(images)
    assert np.isfinite(backwards).all()


def test_a_users_training_has_them(points):
    images, labels = points
    algorithm = shadow.JaxFunction(train=adam, version="1")
    draw = shadow.training.algorithm.Draw(key=jax.random.key(0))
    fixed = images[:-1], labels[:-1]

    def theta(image):
        return algorithm(fixed, image, labels[-1:], draw)

    jacobian = jax.jacfwd(theta)(images[-1:])
    assert np.isfinite(jacobian).all()
    assert np.any(jacobian)
