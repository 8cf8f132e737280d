"""Activations: the usual values and gradients, and a second derivative that counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shadow.victims.activations import ACTIVATIONS, elu, leaky_relu, relu


@pytest.mark.parametrize(
    ("ours", "theirs"), [(relu, jax.nn.relu), (leaky_relu, jax.nn.leaky_relu)]
)
def test_values_and_gradients_are_those_of_jax(ours, theirs):
    x = jnp.linspace(-3, 3, 101)  # with 0
    np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-6)
    np.testing.assert_allclose(
        jax.vmap(jax.grad(ours))(x)[x != 0],
        jax.vmap(jax.grad(theirs))(x)[x != 0],
        rtol=1e-6,
    )
    assert jax.grad(relu)(jnp.zeros(())) == jax.grad(jax.nn.relu)(0.0) == 0


def test_elu_and_its_slope_are_within_float32_rounding_of_their_formulas():
    x = np.concatenate([np.linspace(-90, 3, 10_001), -np.logspace(-12, 0, 1001), [0]])
    x = x.astype(np.float32).astype(np.float64)
    below = x <= 0
    np.testing.assert_allclose(
        elu(jnp.asarray(x, jnp.float32)),
        np.where(below, np.expm1(np.where(below, x, 0)), x),
        rtol=0,
        atol=1.2e-7,
    )
    slope = jax.vmap(jax.grad(elu))(jnp.asarray(x, jnp.float32))
    np.testing.assert_allclose(slope, np.exp(np.where(below, x, 0)), rtol=0, atol=2e-7)


def test_the_second_derivative_says_how_many_examples_cross_zero(rng):
    """Sum of relu'(x + t) over many x, differentiated at t = 0, against counting."""
    x = jnp.asarray(rng.standard_normal(200_000), jnp.float32)

    def active(shift):
        return jax.vmap(jax.grad(relu))(x + shift).sum()

    counted = (active(0.05) - active(-0.05)) / 0.1
    assert jax.grad(active)(jnp.zeros(())) == pytest.approx(float(counted), rel=0.03)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_forward_and_reverse_derivatives_of_a_gradient_agree(name):
    slope = jax.grad(lambda x: ACTIVATIONS[name](x).sum())
    x = jnp.array([-0.7, -0.01, 0.02, 1.3])
    np.testing.assert_allclose(
        jax.jacfwd(slope)(x), jax.jacrev(slope)(x), rtol=1e-5, atol=1e-6
    )
