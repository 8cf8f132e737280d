"""Residuals against autodiff, both forms against each other, multipliers planted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.uninformed.kkt.small_experiment import applied
from uninformed import homogeneous
from uninformed import max_margin as margin
from uninformed.homogeneous import HomogeneousConfig
from uninformed.kkt import stationarity

POINTS = 6


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def case(key, widths=(9, 7), outputs=1, biases="first"):
    config = HomogeneousConfig(
        widths=widths, outputs=outputs, biases=biases, first_scale=0.5
    )
    network = homogeneous.init(config, 4, key)
    rng = np.random.default_rng(0)
    points = jnp.asarray(rng.standard_normal((POINTS, 4)))
    coefficients = jnp.asarray(rng.standard_normal((POINTS, outputs)))
    return network, points, coefficients, jnp.full(len(widths), 7.0)


CASES = [
    {},
    {"widths": (9,), "outputs": 3},
    {"widths": (8, 7, 6), "biases": "hidden"},
    {"biases": "none"},
]


@pytest.mark.parametrize("fields", CASES)
def test_residuals_are_those_of_autodiff(fields, key):
    network, points, coefficients, alpha = case(key, **fields)

    def weighted(net):
        outputs = applied(net, points, lambda z: stationarity.soft_relu(z, alpha[0]))
        return jnp.sum(coefficients * outputs)

    combination = jax.jit(jax.grad(weighted))(network)
    expected = [
        homogeneous.squared_norm((jax.tree.map(jnp.subtract, layer, part),))
        for layer, part in zip(network, combination, strict=True)
    ]
    at = jax.jit(stationarity.passes)(network, points, coefficients, alpha)
    found = jax.jit(stationarity.plain)(network, at)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("fields", CASES)
def test_both_forms_and_their_gradients_agree(fields, key):
    network, points, coefficients, alpha = case(key, **fields)

    def total(form, points, coefficients):
        at = stationarity.passes(network, points, coefficients, alpha)
        return form(network, at).sum()

    value_and_slopes = jax.jit(
        jax.value_and_grad(total, argnums=(1, 2)), static_argnums=0
    )
    both = [
        value_and_slopes(form, points, coefficients)
        for form in (stationarity.plain, stationarity.gram)
    ]
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-10), *both
    )


def test_gradient_through_the_soft_relu_against_finite_differences(key):
    """The loss has sigmoids in it as they stand, so finite differences see all but the
    forward ReLU's own derivative, which away from kinks is 0 or 1 in the limit."""
    network, points, coefficients, _ = case(key)
    alpha = jnp.full(2, 1e5)  # of hard masks: the loss is smooth away from kinks

    def total(points):
        at = stationarity.passes(network, points, coefficients, alpha)
        return stationarity.plain(network, at).sum()

    total = jax.jit(total)
    slope = jax.grad(total)(points)
    rng = np.random.default_rng(1)
    for _ in range(5):
        way = jnp.asarray(rng.standard_normal(points.shape))
        step = 1e-6
        difference = (total(points + step * way) - total(points - step * way)) / (
            2 * step
        )
        np.testing.assert_allclose(jnp.vdot(slope, way), difference, rtol=1e-5)


def test_the_derivative_of_soft_relu_is_a_sigmoid_and_has_one():
    alpha = jnp.asarray(3.0)
    first = jax.grad(stationarity.soft_relu)
    z = jnp.asarray(0.4)
    np.testing.assert_allclose(first(z, alpha), jax.nn.sigmoid(3 * z))
    second = jax.grad(first)(z, alpha)
    near = (first(z + 1e-6, alpha) - first(z - 1e-6, alpha)) / 2e-6
    np.testing.assert_allclose(second, near, rtol=1e-6)


@pytest.mark.parametrize("signed", [False, True])
def test_no_multipliers_leave_less(signed, key):
    """The residual doesn't fall from there, in any direction that is allowed."""
    network, points, _, alpha = case(key, widths=(30,))
    labels = np.arange(POINTS) % 2
    directions = margin.signs(jnp.asarray(labels))[:, None].astype(float)
    found = stationarity.best_multipliers(
        network, points, directions, alpha, signed=signed
    )

    def residual(multipliers):
        coefficients = multipliers[:, None] * directions
        at = stationarity.passes(network, points, coefficients, alpha)
        return stationarity.plain(network, at).sum()

    slope = jax.grad(residual)(jnp.asarray(found))
    free = (found > 0) | signed
    assert free.all() == signed
    np.testing.assert_allclose(slope[free], 0, atol=1e-8)
    assert np.all(slope[~free] > -1e-8)
