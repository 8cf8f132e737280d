"""The solver against closed forms, scipy, and matrices small enough to hold whole."""

import numpy as np
import pytest
from scipy import optimize

from informed.attacks.inversion import gauss_newton
from informed.attacks.inversion.gauss_newton import Linearised


def linear(rng, *, residuals=30, unknowns=6):
    matrix = rng.normal(size=(residuals, unknowns))
    offset = rng.normal(size=residuals)
    return matrix, offset, lambda us: us @ matrix.T - offset[None]


def whole(matrix):
    return Linearised(matrix, np.eye(matrix.shape[1]))


def minimise(residuals, linearise, at, *, steps=20, enough=0.0, prior=0.0, **limits):
    (start,) = gauss_newton.evaluate(residuals, at[None], prior)
    limits |= {"steps": steps, "enough": enough, "prior": prior}
    return gauss_newton.minimise(residuals, linearise, start, **limits)[0]


def rosenbrock():
    """Residuals, their derivatives, and where these were asked for."""
    calls = []

    def residuals(us):
        return np.stack([10 * (us[:, 1] - us[:, 0] ** 2), 1 - us[:, 0]], axis=1)

    def linearise(u):
        calls.append(u)
        return whole(np.array([[-20 * u[0], 10.0], [-1.0, 0.0]]))

    return residuals, linearise, calls


@pytest.mark.parametrize("prior", [0.0, 3.0])
def test_linear_least_squares_in_closed_form(prior, rng):
    matrix, offset, residuals = linear(rng)
    at, limits = np.ones(6), {"give_up": 1 + 1e-12, "prior": prior}
    found = minimise(residuals, lambda u: whole(matrix), at, **limits)
    expected = np.linalg.solve(matrix.T @ matrix + prior * np.eye(6), matrix.T @ offset)
    np.testing.assert_allclose(found.u, expected, atol=1e-4)
    if prior:
        assert found.cost == pytest.approx(
            np.sum((matrix @ found.u - offset) ** 2) + prior * found.u @ found.u
        )


def test_a_curved_valley_as_scipy(rng):
    """Rosenbrock's function; Broyden's update spares most Jacobians."""
    residuals, linearise, calls = rosenbrock()

    at, limits = np.array([-1.2, 1.0]), {"steps": 60, "enough": 1e-24, "give_up": 1.0}
    found = minimise(residuals, linearise, at, **limits)
    theirs = optimize.least_squares(lambda u: residuals(u[None])[0], [-1.2, 1.0])
    np.testing.assert_allclose(found.u, theirs.x, atol=1e-8)
    assert len(calls) < theirs.njev + 10


def test_where_training_diverges_no_step_goes(rng):
    def residuals(us):
        return np.where(us > 0.5, np.nan, us - 2)

    found = minimise(residuals, lambda u: whole(np.eye(1)), np.zeros(1), give_up=1.1)
    assert np.isfinite(found.cost)
    assert found.u[0] <= 0.5


def test_a_search_that_begins_where_training_diverges_ends_at_once():
    """After one Jacobian, whatever the search has for more."""
    calls = []

    def linearise(u):
        calls.append(u)
        return whole(np.eye(2))

    nothing = lambda us: np.full_like(us, np.nan)  # noqa: E731
    end = minimise(nothing, linearise, np.zeros(2), give_up=1.1)
    assert np.isinf(end.cost)
    assert len(calls) == 1


def test_it_ends_where_settling_leads_back():
    """To whole numbers, whose cost is above what would be enough."""
    asked = []

    def settle(here):
        asked.append(here.u)
        (there,) = gauss_newton.evaluate(residuals, np.round(here.u)[None], 0.0)
        return there

    residuals = lambda us: np.tanh(us - 2.001)  # noqa: E731
    limits = {"steps": 9, "give_up": 1.0, "settle": settle}
    end = minimise(residuals, lambda u: whole(np.eye(1)), np.zeros(1), **limits)
    assert end.u[0] == 2
    assert len(asked) < 5


def test_no_point_beyond_reach(rng):
    """Where the minimum lies outside, the best point lies on the boundary."""
    seen = []

    def residuals(us):
        seen.append(np.linalg.norm(us, axis=1).max())
        return us - 5.0

    limits = {"steps": 9, "give_up": 1.0001, "reach": 2.0}
    found = minimise(residuals, lambda u: whole(np.eye(3)), np.zeros(3), **limits)
    assert max(seen) <= 2.0 + 1e-9
    np.testing.assert_allclose(found.u, 2 / np.sqrt(3), rtol=1e-3)


def test_broyden_explains_the_last_step_and_keeps_the_gram_matrix(rng):
    slopes = gauss_newton.Slopes(whole(rng.normal(size=(20, 5))))
    moved, change = rng.normal(size=5), rng.normal(size=20)
    across = np.linalg.svd(moved[None])[2][1:]
    before = slopes.matrix @ across.T
    slopes.update(moved, change)
    np.testing.assert_allclose(slopes.matrix @ moved, change)
    np.testing.assert_allclose(slopes.matrix @ across.T, before)
    np.testing.assert_allclose(slopes.gram, slopes.matrix.T @ slopes.matrix)


def test_posterior_variances_on_a_subspace(rng):
    """Outside the subspace the prior's variance, 1, is left."""
    matrix, outputs = rng.normal(size=(20, 3)), rng.normal(size=(7, 4))
    directions = np.linalg.qr(rng.normal(size=(7, 3)))[0].T
    slopes = gauss_newton.Slopes(Linearised(matrix, directions))
    jacobian = matrix @ directions
    covariance = np.linalg.inv(jacobian.T @ jacobian + np.eye(7))
    expected = np.diag(outputs.T @ covariance @ outputs)
    np.testing.assert_allclose(slopes.posterior_variances(outputs), expected[None])
    # Two parts with outputs of their own.
    both = np.kron(np.eye(2), rng.normal(size=(3, 4)))
    directions = np.linalg.qr(rng.normal(size=(6, 3)))[0].T
    jacobian = matrix @ directions
    covariance = np.linalg.inv(jacobian.T @ jacobian + np.eye(6))
    slopes = gauss_newton.Slopes(Linearised(matrix, directions))
    np.testing.assert_allclose(
        slopes.posterior_variances(both[:3, :4]).ravel(),
        np.diag(both.T @ covariance @ both),
    )


def test_what_residuals_do_not_tell(rng):
    """The untold part is u minus its posterior mean, given residuals J u."""
    matrix, points = rng.normal(size=(20, 3)), rng.normal(size=(5, 7))
    matrix[:, 1] *= 1e4  # a direction that is told
    directions = np.linalg.qr(rng.normal(size=(7, 3)))[0].T
    slopes = gauss_newton.Slopes(Linearised(matrix, directions))
    jacobian = matrix @ directions
    means = np.linalg.solve(
        jacobian.T @ jacobian + np.eye(7), jacobian.T @ jacobian @ points.T
    ).T
    untold, shares = slopes.untold()
    assert untold.shape == (6, 7)
    np.testing.assert_allclose(untold @ untold.T, np.eye(6), atol=1e-12)
    found = (points @ untold.T * shares) @ untold
    np.testing.assert_allclose(found, points - means, atol=1e-6)


def test_the_weakest_direction_is_known_after_broyden(rng):
    """A step lends slopes to a direction without any; it is found all the same."""
    matrix = rng.normal(size=(20, 4))
    matrix[:, 2] = 0.0
    slopes = gauss_newton.Slopes(Linearised(matrix.copy(), np.eye(4)))
    slopes.update(np.array([0.1, 0.0, 1.0, 0.0]), rng.normal(size=20))
    assert np.linalg.eigvalsh(slopes.gram)[0] > 0.1
    weakest, along = slopes.weakest(1)
    np.testing.assert_allclose(np.abs(weakest), [[0, 0, 1, 0]], atol=1e-12)
    np.testing.assert_allclose(along, slopes.matrix @ weakest.T)
    # Measured, its slopes are zero again; left out, the others stay as they are.
    others = slopes.without(weakest)
    assert others.directions.shape == (3, 4)
    np.testing.assert_allclose(
        others.matrix @ others.directions, slopes.matrix * [1, 1, 0, 1], atol=1e-12
    )
    slopes.set(weakest, np.zeros((20, 1)))
    np.testing.assert_allclose(slopes.gram, slopes.matrix.T @ slopes.matrix)
    np.testing.assert_allclose(slopes.matrix[:, 2], 0.0, atol=1e-12)


@pytest.mark.parametrize("dimensions", [3, 6, 20])
def test_krylov_space_holds_the_gauss_newton_step(dimensions, rng):
    """At full dimension: the least-squares solution. Below: what LSQR would find."""
    matrix, offset, _ = linear(rng)
    found = gauss_newton.krylov(
        push=lambda v: matrix @ v,
        pull=lambda r: matrix.T @ r,
        slope=matrix.T @ -offset,
        dimensions=dimensions,
    )
    kept = min(dimensions, 6)
    assert found.directions.shape == (kept, 6)
    np.testing.assert_allclose(
        found.directions @ found.directions.T, np.eye(kept), atol=1e-12
    )
    np.testing.assert_allclose(found.matrix, matrix @ found.directions.T, atol=1e-12)
    step = np.linalg.lstsq(found.matrix, offset, rcond=None)[0] @ found.directions
    from scipy.sparse import linalg

    theirs = linalg.lsqr(matrix, offset, iter_lim=kept, atol=0, btol=0)[0]
    np.testing.assert_allclose(step, theirs, atol=1e-8)


def test_krylov_at_a_stationary_point_stays():
    found = gauss_newton.krylov(
        push=lambda v: v, pull=lambda r: r, slope=np.zeros(4), dimensions=3
    )
    np.testing.assert_array_equal(found.directions, np.zeros((1, 4)))


@pytest.mark.parametrize("cost", [0.5, 2.5, 1e3], ids=["none", "near it", "most"])
@pytest.mark.parametrize("near", range(0, 10, 3))
@pytest.mark.parametrize("least", range(10))
def test_a_damping_that_helps_is_found_from_any_other(least, near, cost):
    """None is tried twice, and no more than needed; long steps may diverge."""
    tried = []

    def residuals(us):
        tried.extend(us[:, 0].astype(int))
        values = np.sqrt(1 + np.abs(us - least))
        return np.where(us < least - 3, np.nan, values)

    us = np.arange(10.0)[:, None]
    found, number = gauss_newton._least(residuals, us, 0.0, near, cost)
    assert len(tried) == len(set(tried))
    if cost < 1:
        assert (number, len(tried)) == (least, 10)
        return
    assert found.cost < cost
    assert number == min(tried, key=lambda other: abs(other - least))
    if near == least:
        assert (number, len(tried)) == (least, gauss_newton.AT_ONCE)


def test_the_cheaper_a_jacobian_the_more_of_them():
    """Rosenbrock's function, at given prices, and with one step a Jacobian."""

    def jacobians(**limits):
        residuals, linearise, calls = rosenbrock()

        limits |= {"steps": 60, "enough": 1e-24, "give_up": 1.0}
        end = minimise(residuals, linearise, np.array([-1.2, 1.0]), **limits)
        np.testing.assert_allclose(end.u, 1, atol=1e-8)
        return len(calls)

    free, cheap, dear = (jacobians(price=price) for price in (0.0, 3.0, 100.0))
    assert jacobians(most=1) >= free > cheap > dear
