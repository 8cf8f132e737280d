"""The bilevel attack: hypergradients against autodiff and finite differences."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from uninformed import bilevel
from uninformed.bilevel import BilevelConfig, Lower

POINTS, INPUTS = 5, 12


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def data(rng):
    points = jnp.asarray(rng.random((POINTS, INPUTS)))
    targets = jnp.asarray(np.where(np.arange(POINTS) % 2, 1.0, -1.0))
    return points, targets


def upper_slope(lower, points, targets, released, start):
    theta = bilevel.solve(lower, points, targets, start).theta
    p = bilevel.inverse_hessian(lower, points, targets, theta, theta - released)
    return bilevel.hypergradient(lower, points, targets, theta, p)


def test_ridge_is_the_minimum(data):
    points, targets = data
    lower = Lower(inputs=INPUTS, decay=0.05)
    theta = bilevel.ridge(points, targets, 0.05)
    np.testing.assert_allclose(lower.slope(theta, points, targets), 0, atol=1e-12)


def test_hypergradient_is_autodiff_through_the_closed_form(data, rng):
    points, targets = data
    lower = Lower(inputs=INPUTS, decay=0.05)
    released = jnp.asarray(rng.standard_normal(INPUTS + 1))

    def upper(points):
        theta = bilevel.ridge(points, targets, lower.decay)
        return 0.5 * jnp.sum((theta - released) ** 2)

    expected = jax.grad(upper)(points)
    found = upper_slope(lower, points, targets, released, jnp.zeros(INPUTS + 1))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.fixture
def hidden(rng):
    """A victim with a hidden layer, smaller than its inputs, and a start."""
    lower = Lower(
        inputs=INPUTS, width=6, decay=0.05, smoothness=5.0, steps=3000, tolerance=1e-11
    )
    return lower, jnp.asarray(0.3 * rng.standard_normal(lower.num_params))


@pytest.mark.slow
def test_hypergradient_of_a_hidden_layer_against_finite_differences(hidden, data, rng):
    lower, start = hidden
    points, targets = data
    released = start + 0.1
    at = bilevel.solve(lower, points, targets, start)
    assert at.slope_norm < 1e-10
    slope = upper_slope(lower, points, targets, released, at.theta)

    def upper(points):
        theta = bilevel.solve(lower, points, targets, at.theta).theta
        return 0.5 * jnp.sum((theta - released) ** 2)

    for _ in range(3):
        way = jnp.asarray(rng.standard_normal(points.shape))
        step = 1e-5
        difference = (upper(points + step * way) - upper(points - step * way)) / (
            2 * step
        )
        np.testing.assert_allclose(jnp.vdot(slope, way), difference, rtol=1e-4)


def test_solution_within_the_span_solves_the_whole(hidden, data):
    lower, start = hidden
    points, targets = data
    found = bilevel.solve(lower, points, targets, start).theta
    bound = 2e-11 * (1 + jnp.linalg.norm(found))
    assert jnp.linalg.norm(lower.slope(found, points, targets)) < bound
    span = bilevel._Span(lower, points)
    np.testing.assert_allclose(span.lift(span.project(found)), found, atol=1e-12)
    whole = bilevel._quasi_newton(lower, points, targets, found)
    np.testing.assert_allclose(whole.theta, found, atol=1e-8)


def test_inverse_hessian_within_the_span_is_that_of_the_whole(hidden, data, rng):
    lower, start = hidden
    points, targets = data
    lower = dataclasses.replace(lower, inverse_steps=500)
    theta = bilevel.solve(lower, points, targets, start).theta
    hessian = jax.hessian(lower.energy)(theta, points, targets)
    v = jnp.asarray(rng.standard_normal(lower.num_params))
    found = bilevel.inverse_hessian(lower, points, targets, theta, v)
    np.testing.assert_allclose(hessian @ found, v, atol=1e-4)


def test_repeated_points_have_a_span_too(hidden, data):
    lower, start = hidden
    points = data[0]
    repeated = jnp.stack([points[0]] * 2 + [points[1]] * 3)
    signs = jnp.array([-1.0, -1, 1, 1, 1])
    solution = bilevel.solve(lower, repeated, signs, start)
    assert jnp.linalg.norm(lower.slope(solution.theta, repeated, signs)) < 1e-9


def test_updates_of_an_affine_victim_stay_in_two_directions(data, rng):
    """Every point moves by a combination of theta_w and p_w, whatever it is."""
    points, targets = data
    lower = Lower(inputs=INPUTS, decay=0.05)
    released = jnp.asarray(rng.standard_normal(INPUTS + 1))
    slope = upper_slope(lower, points, targets, released, jnp.zeros(INPUTS + 1))
    sizes = np.linalg.svd(np.asarray(slope), compute_uv=False)
    assert sizes[2] < 1e-10 * sizes[0]


def test_the_distance_falls_and_the_truth_stays(data, rng):
    points, targets = data
    lower = Lower(inputs=INPUTS, decay=0.05)
    released = bilevel.ridge(points, targets, 0.05)
    config = BilevelConfig(steps=300)
    start = jnp.asarray(rng.random(points.shape))
    before = jnp.sum((bilevel.ridge(start, targets, 0.05) - released) ** 2)
    ended = bilevel.attack(config, lower, released, start, targets, released)
    assert ended.distance < 1e-2 * before
    assert float(jnp.abs(ended.points - points).max()) > 0.1  # and not at the truth
    still = bilevel.attack(config, lower, released, points, targets, released)
    np.testing.assert_allclose(still.points, points, atol=1e-9)


def test_matching_finds_points_at_which_theta_is_stationary(data, rng):
    points, targets = data
    lower = Lower(inputs=INPUTS, decay=0.05)
    released = bilevel.ridge(points, targets, 0.05)
    start = jnp.asarray(rng.random(points.shape))
    ended = bilevel.matching(
        BilevelConfig(steps=2000), lower, released, start, targets, released
    )
    left = jnp.linalg.norm(lower.slope(released, ended.points, targets))
    assert left < 1e-2 * jnp.linalg.norm(lower.slope(released, start, targets))


def test_what_cannot_be_solved_is_refused():
    with pytest.raises(ValueError, match="Expected decay > 0"):
        Lower(inputs=3, decay=0.0)
