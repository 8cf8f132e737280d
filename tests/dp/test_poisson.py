"""Poisson sampling: against quadrature, simulation, and other libraries."""

import math

import dp_accounting
import numpy as np
import pytest
from scipy import integrate, stats

import dp
from dp import bounds, loss_grid, poisson


def run(sigma, q, steps, relation="zero_out"):
    return dp.PoissonGaussian(
        noise_multiplier=sigma, sampling_probability=q, steps=steps, relation=relation
    )


@pytest.mark.parametrize(("sigma", "q"), [(1.0, 0.01), (0.5, 0.2), (3.0, 1.0)])
@pytest.mark.parametrize("order", [2, 5, 30])
def test_moments_are_those_of_dp_accounting(sigma, q, order):
    accountant = dp_accounting.rdp.RdpAccountant([order])
    event = dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(sigma))
    theirs = accountant.compose(event, 7).rdp[0]
    ours = poisson.renyi(np.array([order]), sigma, q, 7)[0]
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_one_step_against_quadrature():
    """delta(eps) of one step by numerical integration, and its dual."""
    sigma, q = 0.8, 0.3

    def delta(epsilon):
        def normal(x):
            return math.exp(-(x**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))

        def density(x):
            with_target = (1 - q) * normal(x) + q * normal(x - 1)
            return max(0.0, with_target - math.exp(epsilon) * normal(x))

        return integrate.quad(density, -10, 12, limit=500)[0]

    epsilons = np.linspace(-0.3, 4, 120)
    deltas = np.array([delta(e) for e in epsilons])
    log_kappas = np.log([0.3, 0.05, 1e-3])
    np.testing.assert_allclose(
        bounds.dual(log_kappas, epsilons, deltas),
        poisson.one_step(log_kappas, sigma, q),
        atol=1e-3,
    )


def test_monotone_in_everything():
    log_kappas = np.log([0.2, 1e-3, 1e-6])
    base = dp.rero_bound(run(1.0, 0.1, 20), log_kappa=log_kappas).log_gamma
    for more in (run(0.9, 0.1, 20), run(1.0, 0.12, 20), run(1.0, 0.1, 30)):
        assert (dp.rero_bound(more, log_kappa=log_kappas).log_gamma > base).all()
    full = dp.rero_bound(run(1.0, 1.0, 20), log_kappa=log_kappas).log_gamma
    assert (base < full).all()
    replaced = run(1.0, 0.1, 20, "replace_one")
    assert (dp.rero_bound(replaced, log_kappa=log_kappas).log_gamma >= full).all()


@pytest.mark.parametrize("log_kappa", [-1e-6, -40.0, -700.0, -1e5, -1e7])
def test_tiny_baselines_are_no_nan(log_kappa):
    """Below 1e-12 Renyi divergences take over from the loss distribution."""
    calibration = dp.rero_bound(run(1.0, 0.05, 10), log_kappa=log_kappa)
    assert log_kappa <= calibration.log_gamma <= 0
    if log_kappa < -100:
        assert str(calibration.by) in ("binary Renyi", "Theorem 2")
        assert calibration.log_gamma < 0.9 * log_kappa or log_kappa > -1e4


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.3, 0.999])
def test_epsilon_of_full_batches_is_that_of_dp_accounting(delta):
    for sigma in np.geomspace(1.1e-5, 1e6, 40):
        full = dp.Gaussian(noise_multiplier=sigma, steps=1, relation="zero_out")
        theirs = dp_accounting.get_epsilon_gaussian(1 / full.mu, delta)
        assert full.epsilon(delta) == theirs


def test_riskcal_is_unsafe_where_kappa_is_small_and_this_is_not():
    """One full step has the closed form Phi(Phi^-1(kappa) + 1), a third opinion."""
    from riskcal import analysis

    distribution = poisson.losses(1.0, 1.0, 1, grid=1e-4)  # riskcal's own grid
    kappa = 1e-8
    exact = stats.norm.cdf(stats.norm.ppf(kappa) + 1)
    theirs = 1 - analysis.get_beta_from_pld(distribution, alpha=kappa)
    mechanism = dp.LossDistribution(distribution=distribution, relation="zero_out")
    ours = float(dp.rero_bound(mechanism, kappa=kappa).gamma)
    assert theirs < 0.01 * exact
    assert exact <= ours < 1.001 * exact
    # Where kappa is large they agree.
    theirs = 1 - analysis.get_beta_from_pld(distribution, alpha=0.1)
    ours = float(dp.rero_bound(mechanism, kappa=0.1).gamma)
    assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_full_batches_are_calibrated_in_closed_form(relation):
    calibration = dp.calibrate(1e-3, log_kappa=-400.0, steps=100, relation=relation)
    assert calibration.bound.gamma == pytest.approx(1e-3, rel=1e-6)
    assert calibration.bound.gamma <= 1e-3
    # Far from private, in the sense of membership.
    assert calibration.epsilon > 100


def test_a_target_that_is_hardly_ever_sampled_needs_no_noise():
    calibration = dp.calibrate(
        0.5, kappa=1e-3, steps=10, sampling_probability=0.01, relation="zero_out"
    )
    assert calibration.noise_multiplier == 0
    assert calibration.bound.gamma == pytest.approx(1 - 0.99**10 * 0.999)


@pytest.mark.parametrize("sampling", [1.0, 0.5])
def test_who_allows_everything_needs_no_noise(sampling):
    given = {"steps": 10, "sampling_probability": sampling}
    calibration = dp.calibrate(1.0, kappa=0.1, relation="replace_one", **given)
    assert calibration.noise_multiplier == 0
    assert calibration.bound.gamma == 1
    assert calibration.epsilon == np.inf


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        ({"log_kappa": -math.inf}, "log_kappa > -inf"),
        ({"kappa": 0.0}, "kappa > 0"),
        ({"kappa": 0.2}, r"gamma > kappa = 0\.2"),
    ],
)
def test_what_no_noise_reaches_is_refused(baseline, message):
    with pytest.raises(ValueError, match=message):
        dp.calibrate(0.1, **baseline, steps=1, relation="zero_out")


def test_epsilon_of_full_batches_and_back():
    calibration = dp.calibrate(epsilon=3.0, steps=100, relation="replace_one")
    full = calibration.mechanism.full
    assert full.epsilon(1e-5) == pytest.approx(3.0, rel=1e-4)
    assert full.noise_multiplier == calibration.noise_multiplier
    # The loss distribution says the same, from above.
    above = poisson.losses(1 / full.mu, 1.0, 1).get_epsilon_for_delta(1e-5)
    assert 3.0 - 1e-9 <= above < 3.01  # exact where epsilon is a point of the grid


def test_epsilon_of_sampled_batches_and_back():
    given = {"steps": 30, "sampling_probability": 0.1}
    calibration = dp.calibrate(epsilon=2.0, relation="add_or_remove", **given)
    sigma = calibration.noise_multiplier
    sampled = run(sigma, 0.1, 30, "add_or_remove")
    assert sampled.epsilon(1e-5) <= 2.0 + 1e-9
    less = run(0.999 * sigma, 0.1, 30, "add_or_remove")
    assert less.epsilon(1e-5) > 2.0
    # Nothing accounts for sampling there, so that it is that of full batches.
    everyone = dp.Gaussian(noise_multiplier=1.0, steps=30, relation="replace_one")
    replaced = run(1.0, 0.1, 30, "replace_one")
    assert replaced.epsilon(1e-5) == everyone.epsilon(1e-5)


@pytest.mark.parametrize("steps", [100, 10_000])
def test_rounding_of_many_steps_never_lowers_a_bound(steps):
    """Full batches have a closed form. At 10,000 steps delta lay 1e-13 below it."""
    mu = 1.0
    losses = poisson.losses(math.sqrt(steps) / mu, 1.0, steps)
    epsilons, deltas = loss_grid.curve(losses, steps, removal=True)
    exact = stats.norm.cdf(mu / 2 - epsilons / mu)
    exact -= np.exp(epsilons + stats.norm.logcdf(-mu / 2 - epsilons / mu))
    assert (deltas - exact).min() >= 0


def least_delta(epsilon, sigma, q, steps):
    """delta of all steps is at least this: all were sampled, and the sum is large."""
    length, at = sigma * math.sqrt(steps), epsilon * sigma**2 + steps / 2
    calibration = q**steps * stats.norm.sf(at, steps, length)
    return calibration - math.exp(epsilon) * stats.norm.sf(at, 0, length)


@pytest.mark.parametrize("delta", [1e-5, 1e-11, 1e-12, 1e-13, 1e-14, 2e-15])
def test_epsilon_of_a_small_delta_is_not_below_the_truth(delta):
    """Where the rounding of compositions is as large as delta."""
    sigma, q, steps = 30.0, 1 - 1e-9, 1000
    epsilon = run(sigma, q, steps, "add_or_remove").epsilon(delta)
    assert least_delta(epsilon, sigma, q, steps) <= delta


@pytest.mark.parametrize("delta", [1e-12, 2e-15])
def test_noise_for_a_small_delta_is_not_below_the_truth(delta):
    q, steps = 1 - 1e-9, 1000
    given = {"steps": steps, "sampling_probability": q}
    calibration = dp.calibrate(
        epsilon=8.0, delta=delta, relation="add_or_remove", **given
    )
    assert least_delta(8.0, calibration.noise_multiplier, q, steps) <= delta


def test_who_is_nearly_always_sampled_counts_as_always():
    full = run(0.2795, 1.0, 5).full.epsilon(1e-5)
    assert run(0.2795, 1 - 1e-12, 5).epsilon(1e-5) == pytest.approx(full, rel=1e-3)


def test_moments_next_to_1_are_not_lost():
    """Order 2 in closed form: 1 + q^2 (exp(1 / sigma^2) - 1)."""
    sigma, q = 1e6, 1e-3
    expected = math.log1p(q**2 * math.expm1(sigma**-2))
    calibration = poisson.renyi(np.array([2]), sigma, q, 1)
    assert calibration[0] == pytest.approx(expected, rel=1e-12)


def test_noise_is_the_least_by_any_accounting():
    """By the loss distribution alone it was that of full batches, 900 times as much."""
    q, steps = 1e-3, 20_000_000
    sigma = dp.calibrate(
        epsilon=1.0, steps=steps, sampling_probability=q, relation="zero_out"
    ).noise_multiplier
    enough, less = (run(s, q, steps).epsilon(1e-5) for s in (sigma, 0.999 * sigma))
    assert enough <= 1.0 < less
