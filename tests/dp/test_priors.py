"""Baselines against simulation, and against each other."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

import dp
from dp import priors


def test_simulated_targets_fall_into_the_ball_as_often(rng):
    n, d = 400_000, 3
    normal = rng.normal(0, 0.4, (n, d))
    eta = 0.5
    near = np.mean(np.linalg.norm(normal, axis=1) <= eta)
    assert math.exp(priors.gaussian(eta, d=d, sigma=0.4)) == pytest.approx(
        near, abs=0.004
    )
    ball = rng.normal(size=(n, d))
    ball *= (rng.random(n) ** (1 / d) / np.linalg.norm(ball, axis=1))[:, None] * 2
    near = np.mean(np.linalg.norm(ball, axis=1) <= 1.2)
    assert math.exp(priors.ball(1.2, d=d, radius=2.0)) == pytest.approx(near, abs=0.004)


@given(st.integers(1, 3000), st.floats(1e-6, 0.99))
def test_logs_agree_where_nothing_underflows(d, u):
    sigma = 1.0
    eta = math.sqrt(u * d)
    found = priors.gaussian(eta, d=d, sigma=sigma)
    linear = special.gammainc(d / 2, eta**2 / 2)
    if linear > 1e-290:
        assert found == pytest.approx(math.log(linear), rel=1e-9, abs=1e-12)
    chernoff = d / 2 * (1 - u + math.log(u))
    assert found <= chernoff + 1e-9
    isotropic = priors.gaussian_covariance(eta, variances=np.ones(d))
    assert isotropic == pytest.approx(chernoff, rel=1e-6, abs=1e-6)


def test_a_flat_direction_is_no_secret(rng):
    """A bound for unequal variances, above a simulated rate."""
    variances = np.array([1.0, 0.5, 1e-6, 1e-6])
    points = rng.normal(size=(100_000, 4)) * np.sqrt(variances)
    near = np.mean(np.sum(points**2, axis=1) <= 0.3)
    bound = math.exp(priors.gaussian_covariance(math.sqrt(0.3), variances=variances))
    assert near <= bound < 4 * near
    assert priors.gaussian_covariance(2.0, variances=variances) == 0


def test_a_distance_is_the_root_of_the_pixels_times_the_error():
    assert float(priors.l2_of_mse(0.0232, 784)) == pytest.approx(
        math.sqrt(784 * 0.0232)
    )


def test_confidence_bounds_of_a_known_prior_hold(rng):
    """Uniform on a square: kappa of a disc is known; both bounds at once, 40 times."""
    eta = 0.1
    kappa = math.pi * eta**2
    held = 0
    for _ in range(40):
        found = priors.empirical(rng.random((400, 2)), eta, confidence=0.9)
        assert found.floor <= found.high
        held += found.low <= math.log(kappa) <= found.high
    assert held >= stats.binom.ppf(1e-4, 40, 0.8)
    assert found.high < 0


def test_probabilities_that_do_not_sum_to_1_are_refused():
    """A kappa that is too small would flatter the developer."""
    points, half = np.arange(4.0), np.full(4, 1 / 8)
    with pytest.raises(ValueError, match=r"sum of probabilities = 1, got 0\.5"):
        priors.discrete(np.abs(points[:, None] - points), half, 0.5)


def test_what_is_told_of_the_target_raises_kappa(rng):
    """Against simulation: an adversary who is told a group guesses within it."""
    mass = rng.dirichlet(np.ones(12))
    group = rng.integers(0, 3, 12)
    apart = 1.0 - np.eye(12)
    kappa = math.exp(priors.discrete(apart, mass, 0.0, given=group).in_support)
    best = {g: np.argmax(np.where(group == g, mass, -1)) for g in np.unique(group)}
    drawn = rng.choice(12, size=200_000, p=mass)
    right = np.mean([best[group[i]] == i for i in drawn])
    assert kappa == pytest.approx(right, abs=5e-3)
    assert kappa >= mass.max()


def test_known_coordinates_leave_the_conditional_prior(rng):
    """Against simulation of the best guess of what is left."""
    root = rng.normal(size=(5, 5))
    covariance = root @ root.T
    known, eta = np.array([1, 3]), 0.8
    bound = priors.gaussian_given(eta, covariance=covariance, known=known)
    rest = np.array([0, 2, 4])
    weights = np.linalg.solve(
        covariance[np.ix_(known, known)], covariance[np.ix_(known, rest)]
    )
    z = rng.multivariate_normal(np.zeros(5), covariance, 100_000)
    left = z[:, rest] - z[:, known] @ weights
    near = np.mean(np.sum(left**2, axis=1) <= eta**2)
    assert near <= math.exp(bound) < 6 * near
    unknown = priors.gaussian_given(eta, covariance=covariance, known=np.zeros(0, int))
    variances = np.linalg.eigvalsh(covariance)
    assert unknown == pytest.approx(
        priors.gaussian_covariance(eta, variances=variances), abs=1e-6
    )
    assert unknown < bound
    everything = priors.gaussian_given(eta, covariance=covariance, known=np.arange(5))
    assert everything == 0


@pytest.mark.parametrize("largest", [1.0, 1e10, 1e16])
@pytest.mark.parametrize("copies", [1, 8])
def test_what_is_told_does_not_depend_on_units(largest, copies):
    """A known flag beside a balance gives away the column that is its multiple."""
    weights = np.array([0.0, *[1e-3] * copies, 1.0])
    covariance = np.outer(weights, weights)
    covariance[0, 0] = largest
    known = np.arange(copies + 1)
    found = priors.gaussian_given(0.01, covariance=covariance, known=known)
    assert found == pytest.approx(0.0, abs=1e-9)


def test_points_at_twice_the_threshold_are_both_near():
    """0.9 - 0.7 is more than 0.2 in floating point."""
    mass = np.array([0.5, 0.5])
    apart = np.abs(np.subtract.outer([0.7, 0.9], [0.7, 0.9]))
    assert priors.discrete(apart, mass, 0.1).anywhere == 0.0
    assert priors.discrete(apart, mass, 0.2).in_support == 0.0


def told_everything_or_refused(eta, covariance, known):
    """kappa = 1, or a word that rounding hides it; never less."""
    try:
        found = priors.gaussian_given(eta, covariance=covariance, known=known)
    except ValueError as error:
        return "determine up to" in str(error)
    return found == 0


@pytest.mark.parametrize("small", [1e-2, 1e-4, 1e-6, 1e-7, 1e-8, 1e-9])
def test_columns_that_nearly_determine_another_are_never_taken_for_ignorance(small):
    """Total and part are known, so the rest is: the truth is kappa = 1."""
    covariance = np.array(
        [[1 + small**2, 1, small**2], [1, 1, 0], [small**2, 0, small**2]]
    )
    for share in (0.1, 1e-2, 1e-3):
        known = np.array([0, 1])
        assert told_everything_or_refused(share * small, covariance, known)


@pytest.mark.parametrize("small", [1e-3, 1e-5, 1e-6])
def test_collinear_columns_of_a_sample_leave_nothing(rng, small):
    table = rng.normal(size=(5000, 20))
    rest = rng.normal(size=5000) * small
    table[:, 0] = table[:, 1:10].sum(axis=1) + rest
    covariance = np.cov(np.column_stack([table, rest]).T)
    known = np.arange(20)
    for share in (0.1, 1e-2, 1e-3):
        assert told_everything_or_refused(share * small, covariance, known)


def test_bounds_of_a_sample_do_not_depend_on_its_unit(rng):
    sample = rng.normal(size=(400, 2))
    one = priors.empirical(sample, 1e-2)
    for unit in (1e-6, 1e6):
        found = priors.empirical(sample * unit, 1e-2 * unit)
        assert (found.low, found.high) == (one.low, one.high)


def test_kappa_from_records_is_that_of_the_best_guess_of_their_law(rng):
    """A normal law: the mean is right with P(|x| <= eta), known in closed form."""

    def distance(guess, others):
        return np.linalg.norm(others - guess, axis=1)

    records = rng.normal(size=(3000, 2))
    found = dp.kappa_from(records, error=distance, threshold=0.5, confidence=0.999)
    exact = stats.chi(2).cdf(0.5)
    rate, low, high = found.fixed
    assert low < rate <= high < 0.2
    assert exact <= high
    assert rate > 0.9 * exact
    assert np.linalg.norm(found.guess) < 0.4
    assert found.nearest[0] > rate  # who sees the target does better
    assert found.log_kappas.tolist() == np.log([high, found.nearest[2]]).tolist()
    # Sorted records give the same limits, though their halves differ.
    ordered = records[np.argsort(records[:, 0])]
    again = dp.kappa_from(ordered, error=distance, threshold=0.5, confidence=0.999)
    assert exact <= again.fixed[2] < 0.2
    assert again.nearest[2] == pytest.approx(found.nearest[2], rel=0.02)
    # A sparse law, in which no record is near to another.
    far = dp.kappa_from(rng.normal(size=(400, 60)), error=distance, threshold=0.5)
    assert far.fixed[0] == far.nearest[0] == 0
    assert far.log_kappas == pytest.approx(math.log(1 - 0.05 ** (1 / 200)))
    # Two clusters, in which no record is near another, but a mean is near many.
    two = rng.normal(size=(400, 60)) + 20 * rng.choice([-1, 1], (400, 1))
    assert dp.kappa_from(two, error=distance, threshold=8.5).fixed[0] > 0.2
    with pytest.raises(
        ValueError, match=r"error to return one number per record.*\(\)"
    ):
        dp.kappa_from(two, error=lambda a, b: distance(a, b).mean(), threshold=8.0)
    with pytest.raises(ValueError, match="records to be finite"):
        dp.kappa_from(records * np.nan, error=distance, threshold=0.5)
    levels = rng.integers(0, 17, (200, 3))
    of_bytes, of_floats = (
        dp.kappa_from(
            levels.astype(kind), error=lambda g, o: abs(o - g).mean(1), threshold=3
        )
        for kind in (np.uint8, float)
    )
    assert of_bytes.log_kappas.tolist() == of_floats.log_kappas.tolist()
