"""Properties that every bound must have, and each against something independent."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dp
from dp import bounds, domain

LOG_KAPPAS = st.one_of(
    st.floats(-1e7, -1e-12), st.floats(-50, -1e-3), st.sampled_from([0.0, -math.inf])
)
POSITIVE = st.floats(1e-3, 50)
ANY = {
    "renyi": lambda k, a, b: bounds.renyi(k, 1 + a, b),
    "binary_renyi": lambda k, a, b: bounds.binary_renyi(k, 1 + a, b),
    "fano": lambda k, a, b: bounds.binary_renyi(k, 1, b),
    "pure": lambda k, a, b: bounds.pure(k, b, "zero_out"),
    "replace": lambda k, a, b: bounds.pure(k, b, "replace_one"),
    "corollary_3": lambda k, a, b: bounds.corollary_3(k, b),
    "approximate": lambda k, a, b: bounds.approximate(k, b, a / 60),
    "corollary_4": lambda k, a, b: bounds.corollary_4(k, b),
    "gaussian": lambda k, a, b: bounds.gaussian(k, b),
    "laplace": lambda k, a, b: bounds.laplace(k, b),
}


@pytest.mark.parametrize("name", ANY)
@given(log_kappa=LOG_KAPPAS, a=POSITIVE, b=POSITIVE)
@settings(max_examples=60, deadline=None)
def test_between_kappa_and_one_and_growing(name, log_kappa, a, b):
    """In kappa and in what leaks; down to log kappa = -1e7 without a NaN."""
    bound = ANY[name]
    found = float(bound(log_kappa, a, b))
    assert log_kappa <= found <= 0
    assert float(bound(log_kappa, a, 1.1 * b)) >= found - 1e-9 * abs(found)
    assert float(bound(log_kappa * 0.9, a, b)) >= found - 1e-9 * abs(found)


@given(log_kappa=LOG_KAPPAS, order=st.floats(1.001, 500), mu=st.floats(1e-3, 30))
@settings(deadline=None)
def test_the_sharper_one_is_never_above(log_kappa, order, mu):
    """Tight Gaussian <= Corollary 4 <= Theorem 2 at any order; binary <= Theorem 2."""
    rho = mu**2 / 2
    slack = 1e-9 * max(1, -log_kappa) if math.isfinite(log_kappa) else 0
    tight = bounds.gaussian(log_kappa, mu)
    fourth = bounds.corollary_4(log_kappa, rho)
    second = bounds.renyi(log_kappa, order, order * rho)
    assert tight <= fourth + slack
    assert fourth <= second + slack
    assert bounds.binary_renyi(log_kappa, order, order * rho) <= second + slack
    assert tight <= bounds.binary_renyi(log_kappa, order, order * rho) + slack


@given(log_kappa=LOG_KAPPAS, epsilon=POSITIVE)
def test_replacement_is_sharper_than_corollary_3(log_kappa, epsilon):
    found = bounds.pure(log_kappa, epsilon, "replace_one")
    slack = 1e-12 * (1 + abs(found)) if np.isfinite(found) else 0
    assert found <= bounds.corollary_3(log_kappa, epsilon) + slack


@given(size=st.integers(2, 1000), epsilon=POSITIVE)
def test_randomised_response_attains_the_replacement_bound(size, epsilon):
    success = 1 / (1 + (size - 1) * math.exp(-epsilon))
    found = bounds.pure(-math.log(size), epsilon, "replace_one")
    assert math.exp(found) == pytest.approx(success)


@given(first=st.floats(0.1, 5), second=st.floats(0.1, 5), log_kappa=LOG_KAPPAS)
def test_gaussians_compose(first, second, log_kappa):
    """mu^2 adds up over steps, of equal noise or not."""

    def run(*sigmas):
        return dp.Gaussian(
            noise_multiplier=sigmas, steps=len(sigmas), relation="zero_out"
        )

    mu = math.hypot(run(first).mu, run(second).mu)
    assert run(first, second).mu == pytest.approx(mu)
    equal = dp.Gaussian(noise_multiplier=first, steps=9, relation="zero_out")
    assert equal.mu == pytest.approx(3 / first)
    replaced = dp.Gaussian(noise_multiplier=first, steps=9, relation="replace_one")
    assert (
        dp.rero_bound(equal, log_kappa=log_kappa).log_gamma
        <= dp.rero_bound(replaced, log_kappa=log_kappa).log_gamma
    )


@pytest.mark.parametrize("log_kappa", [-1e-9, -0.7, -5.0, -300.0, -1e4])
@pytest.mark.parametrize("mu", [0.1, 3.0, 40.0])
def test_the_tight_gaussian_against_mpmath(log_kappa, mu):
    with mpmath.workdps(120):
        kappa = mpmath.exp(mpmath.mpf(log_kappa))
        # The quantile by Newton's method on log Phi, from the asymptotic start.
        x = mpmath.mpf(float(-np.sqrt(-2 * log_kappa)))
        for _ in range(60):
            density = mpmath.exp(-(x**2) / 2) / mpmath.sqrt(2 * mpmath.pi)
            x -= (mpmath.log(mpmath.ncdf(x)) - mpmath.log(kappa)) * (
                mpmath.ncdf(x) / density
            )
        expected = mpmath.log(mpmath.ncdf(x + mu))
    assert float(bounds.gaussian(log_kappa, mu)) == pytest.approx(
        float(expected), rel=1e-9, abs=1e-300
    )


def test_two_antipodal_targets_attain_the_gaussian_bound(rng):
    """A simulated attack, in the released gradient alone; kappa = 1/2."""
    steps, sigma = 16, 5.0
    target = rng.choice([-1.0, 1.0], 40_000)
    seen = target[:, None] + sigma * rng.normal(size=(40_000, steps))
    success = np.mean(np.sign(seen.sum(axis=1)) == target)
    # The reference without the target lies half-way: zero-out.
    run = dp.Gaussian(noise_multiplier=sigma, steps=steps, relation="zero_out")
    gamma = float(dp.rero_bound(run, kappa=0.5).gamma)
    assert success == pytest.approx(gamma, abs=4 * np.sqrt(0.25 / 40_000))


def test_laplace_noise_against_simulation(rng):
    """The best test between no target and a target, at any false-positive rate."""
    epsilon = 1.3
    noise = rng.laplace(0, 1 / epsilon, 400_000)
    for kappa in (0.03, 0.2, 0.6, 0.9):
        threshold = np.quantile(noise, 1 - kappa)
        power = np.mean(noise + 1 > threshold)
        assert float(np.exp(bounds.laplace(np.log(kappa), epsilon))) == pytest.approx(
            power, abs=0.006
        )


def test_the_dual_of_a_gaussian_curve_is_the_gaussian_bound():
    """The curve is Balle and Wang's (2018)."""
    mu, epsilons = 1.0, np.arange(-10, 30, 3e-3)
    deltas = stats.norm.cdf(mu / 2 - epsilons / mu) - np.exp(epsilons) * stats.norm.cdf(
        -mu / 2 - epsilons / mu
    )
    log_kappas = np.log([0.9, 0.5, 0.1, 1e-3, 1e-8])
    np.testing.assert_allclose(
        bounds.dual(log_kappas, epsilons, deltas),
        bounds.gaussian(log_kappas, mu),
        rtol=5e-6,
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.gaussian(0.1, 1.0), "log_kappa <= 0"),
        (lambda: domain.integer("n", np.uint16(3), 1), "n to be an int, got np.uint16"),
        (lambda: bounds.gaussian(math.nan, 1.0), "log_kappa <= 0"),
        (lambda: bounds.renyi(-1.0, 1.0, 1.0), "order > 1"),
        (
            lambda: bounds.pure(-1.0, 1.0, "neighbour"),
            "one of add_or_remove, replace_one, zero",
        ),
        (
            lambda: dp.Gaussian(noise_multiplier=0.0, steps=1, relation="zero_out"),
            "noise_multiplier > 0",
        ),
        (
            lambda: dp.Gaussian(
                noise_multiplier=(1.0, 2.0), steps=3, relation="zero_out"
            ),
            "one number or 3",
        ),
        (
            lambda: dp.rero_bound(dp.PureDP(eps=1.0, relation="zero_out")),
            "either kappa or log_kappa",
        ),
        (
            lambda: dp.rero_bound(dp.PureDP(eps=1.0, relation="zero_out"), kappa=1.5),
            "kappa in",
        ),
        (
            lambda: dp.LossDistribution(distribution=3, relation="zero_out"),
            "PrivacyLossDistribution",
        ),
    ],
)
def test_bad_input_is_one_clear_line(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_people_read_bounds_below_the_smallest_float():
    run = dp.Gaussian(noise_multiplier=1.0, steps=1, relation="zero_out")
    text = str(dp.rero_bound(run, log_kappa=np.array([-5000.0, np.log(0.1)])))
    first, second = text.splitlines()
    assert "kappa 3.36e-2172" in first
    assert second.startswith("kappa 0.1  gamma <= 0.39  (Gaussian")


def test_calibration_checks_the_relation_before_it_says_that_no_noise_is_needed():
    with pytest.raises(ValueError, match="relation to be one of"):
        dp.calibrate(
            0.5, kappa=0.1, steps=1, sampling_probability=0.01, relation="zero-out"
        )
