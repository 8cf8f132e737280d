"""What is infinite, or underflows, has the right limit: never a smaller bound."""

import dataclasses
import math

import mpmath
import numpy as np
import pytest
from scipy import special, stats

import dp
from dp import bounds, poisson, priors, rates
from dp.gradient import PrivacyConfig
from informed.experiment.training_settings import TrainingConfig

LOGS = np.array([-math.inf, -1e7, -3.0, 0.0])
PROMISES_NOTHING = {
    "pure": lambda k: bounds.pure(k, math.inf, "zero_out"),
    "replaced": lambda k: bounds.pure(k, math.inf, "replace_one"),
    "corollary_3": lambda k: bounds.corollary_3(k, math.inf),
    "corollary_4": lambda k: bounds.corollary_4(k, math.inf),
    "approximate": lambda k: bounds.approximate(k, math.inf, 0.1),
    "gaussian": lambda k: bounds.gaussian(k, math.inf),
    "laplace": lambda k: bounds.laplace(k, math.inf),
    "renyi": lambda k: bounds.renyi(k, 3.0, math.inf),
    "binary_renyi": lambda k: bounds.binary_renyi(k, 3.0, math.inf),
}


@pytest.mark.parametrize("name", PROMISES_NOTHING)
def test_what_promises_nothing_bounds_nothing(name):
    """gamma is 1 for every kappa; for kappa = 0 it was NaN, or 0."""
    np.testing.assert_array_equal(PROMISES_NOTHING[name](LOGS), 0.0)


def test_mechanisms_of_infinite_epsilon():
    for mechanism in (
        dp.PureDP(eps=math.inf, relation="zero_out"),
        dp.Laplace(eps=math.inf, relation="zero_out"),
        dp.ZeroConcentratedDP(rho=math.inf, relation="zero_out"),
        dp.ApproximateDP(epsilons=math.inf, deltas=0.1, relation="zero_out"),
        dp.RenyiDP(orders=(2.0,), epsilons=(math.inf,), relation="zero_out"),
    ):
        assert dp.rero_bound(mechanism, log_kappa=-math.inf).gamma == 1


@pytest.mark.parametrize("relation", bounds.RELATIONS)
@pytest.mark.parametrize("q", [0.01, 1.0])
def test_infinite_noise_hides_everything(relation, q):
    """It was "float division by zero"."""
    run = dp.PoissonGaussian(
        noise_multiplier=math.inf, sampling_probability=q, steps=9, relation=relation
    )
    np.testing.assert_array_equal(dp.rero_bound(run, log_kappa=LOGS).log_gamma, LOGS)
    if q == 1 or relation != "replace_one":
        assert run.epsilon(1e-5) == 0
    full = dp.Gaussian(noise_multiplier=math.inf, steps=9, relation=relation)
    assert full.epsilon(1e-5) == full.mu == 0


@pytest.mark.parametrize("sigma", [1e-4, 1e-3, 1e-200, 5e-324])
def test_hardly_any_noise_under_sampling(sigma):
    """It was "math range error". Not below what is seen where no step samples it."""
    run = dp.PoissonGaussian(
        noise_multiplier=sigma, sampling_probability=0.01, steps=9, relation="zero_out"
    )
    gamma = float(dp.rero_bound(run, kappa=0.1).gamma)
    assert gamma == pytest.approx(1 - 0.99**9 * 0.9, rel=1e-9)
    epsilon = run.epsilon(1e-5)
    # Of nine full steps: mu^2 / 2 + mu Phi^-1(1 - delta); infinite if it overflows.
    with mpmath.workdps(50):
        mu = 3 / mpmath.mpf(sigma)
        high = mu * (mu / 2 + mpmath.mpf(stats.norm.isf(1e-5)))
    # One step is that far out with a probability above delta: at least 1 / (2 sigma^2).
    least = 1 / mpmath.mpf(sigma) ** 2 / 2 - 5 / mpmath.mpf(sigma)
    assert float(least) <= epsilon <= max(float(high) * 1.0001, float(high))


def test_more_successes_than_trials_are_refused():
    """They had probability 0, a violation that nothing was wrong with."""
    for call in (rates.violation, rates.clopper_pearson):
        with pytest.raises(ValueError, match="successes <= 5, the number of trials"):
            call(6, 5, 0.1)


def test_training_without_steps_is_refused_before_it_starts():
    with pytest.raises(ValueError, match="epochs >= 1, got 0"):
        TrainingConfig(epochs=0, privacy=PrivacyConfig(clip_norm=1.0))
    assert TrainingConfig(epochs=0).epochs == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"clip_norm": math.inf}, "clip_norm > 0 and finite, got inf"),
        ({"clip_norm": math.nan}, "clip_norm > 0 and finite, got nan"),
        ({"clip_norm": 1e-60}, "clip_norm to be a number of float32"),
        ({"clip_norm": 1.0, "noise_multiplier": math.inf}, "noise_multiplier >= 0"),
        ({"clip_norm": 1.0, "noise_multiplier": math.nan}, "noise_multiplier >= 0"),
        ({"clip_norm": 1.0, "noise_multiplier": 1e-60}, "product with clip_norm"),
        ({"clip_norm": 1e30, "noise_multiplier": 1e30}, "product with clip_norm"),
    ],
)
def test_private_training_takes_numbers_that_clip_and_add_noise(fields, message):
    """Without a finite clipping norm one record can move the sum by anything.

    Noise that float32 rounds to zero would be accounted for and not added.
    """
    with pytest.raises(ValueError, match=message):
        PrivacyConfig(**fields)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_sample_with_a_number_that_is_none_is_refused(bad, rng):
    """A NaN is near to nothing: kappa fell from 1 to 0.018."""
    same = np.zeros((40, 3))
    assert priors.empirical(same, 0.1).high == 0  # all draws are one
    same[:, 1] = bad
    with pytest.raises(ValueError, match="sample to be finite"):
        priors.empirical(same, 0.1)
    with pytest.raises(ValueError, match="eta >= 0 and finite"):
        priors.empirical(rng.normal(size=(40, 3)), bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_finite_priors_refuse_it(bad):
    half = np.full(2, 0.5)
    with pytest.raises(ValueError, match="distances >= 0 and finite"):
        priors.discrete(np.array([[0.0, bad], [bad, 0.0]]), half, 1.0)
    with pytest.raises(ValueError, match="probabilities"):
        priors.discrete(1 - np.eye(2), np.array([0.5, bad]), 1.0)


def test_scores_that_are_no_numbers_are_refused():
    """NaN is above no threshold, so it would hide a violation."""
    scores = np.linspace(0, 1, 50)
    for at in (0, 1):
        given = [scores.copy(), scores.copy()]
        given[at][3] = math.nan
        with pytest.raises(ValueError, match="to be no NaN"):
            rates.roc_violations(*given, lambda rate: rate, np.array([0.5]))
    with pytest.raises(ValueError, match=r"gamma_of\(rate\)"):
        rates.roc_violations(scores, scores, lambda rate: math.nan, np.array([0.5]))


def test_a_bound_that_is_no_number_is_refused():
    """A mechanism of the user's own."""

    class Broken:
        def bounds(self, log_kappa):
            return {"mine": log_kappa + math.nan}

    with pytest.raises(ValueError, match="'mine' to be no NaN"):
        dp.rero_bound(Broken(), kappa=0.1)


def test_kappa_does_not_underflow_to_zero():
    """Zero would say that the record can't be guessed, and flatter whoever trains."""
    tiny, d = 1e-200, 4
    assert priors.ball(tiny, d=d, radius=1.0) == pytest.approx(4 * math.log(tiny))
    # P(a, x) = x^a / Gamma(a + 1) for tiny x, with a = d / 2 and x = eta^2 / 2.
    small = d / 2 * (2 * math.log(tiny) - math.log(2))
    small -= special.gammaln(d / 2 + 1)
    assert priors.gaussian(tiny, d=d, sigma=1.0) == pytest.approx(small)
    bound = priors.gaussian_covariance(tiny, variances=np.ones(d))
    assert small <= bound < small + 3
    log_u = 2 * math.log(tiny) - math.log(d)  # Chernoff's bound, for u near 0
    assert bound == pytest.approx(d / 2 * (1 + log_u))


def test_far_draws_are_counted_as_near_ones_are(rng):
    """Their squares overflow; the unit of length makes no difference."""
    sample = rng.random((60, 2))
    found = priors.empirical(sample, 0.1)
    far = priors.empirical(sample * 1e300, 0.1 * 1e300)
    assert (far.low, far.high) == pytest.approx((found.low, found.high))


def test_large_orders_and_epsilons_stay_above_theorem_2s_limit():
    """order * log kappa overflowed to NaN, which was forbidden: gamma = kappa."""
    found = bounds.binary_renyi(-1e5, 1e305, 9e4)
    assert found == pytest.approx(-1e4)  # log kappa + epsilon
    assert bounds.renyi(-1e5, 1e305, 9e4) == pytest.approx(-1e4)


@pytest.mark.parametrize("mu", [1e3, 1e5, 3e5, 1e8])
def test_epsilon_where_no_solver_converges(mu):
    """Against mpmath: delta at the epsilon that is returned is what was asked for."""
    delta = 1e-5
    run = dp.Gaussian(noise_multiplier=1 / mu, steps=1, relation="zero_out")
    found = run.epsilon(delta)
    with mpmath.workdps(60):

        def at(epsilon):
            e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
            other = mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
            return float(mpmath.ncdf(m / 2 - e / m) - other)

        assert at(found) <= delta * (1 + 1e-4)
        assert at(found * (1 - 1e-4) - 2) > delta
    least = dp.calibrate(epsilon=found, delta=delta, steps=1, relation="zero_out")
    assert least.noise_multiplier == pytest.approx(1 / mu, rel=1e-4)


def test_calibration_of_a_million_steps(monkeypatch):
    """It took minutes: an evaluation of the fine grid takes about a second."""
    evaluations = []
    losses = poisson.losses

    def counted(*given, **more):
        evaluations.append(given)
        return losses(*given, **more)

    monkeypatch.setattr(poisson, "losses", counted)
    found = dp.calibrate(
        0.01, kappa=1e-3, steps=10**6, sampling_probability=1e-3, relation="zero_out"
    )
    assert len(evaluations) <= 8
    # And it is the least: before, the coarse grid's rounding added 8 % to sigma.
    assert 0.0099 < found.bound.gamma <= 0.01


def test_more_steps_than_a_distribution_can_be_composed_of_are_bounded_all_the_same():
    """At once; before, 1e8 steps took more than a minute, or never ended."""
    run = dp.PoissonGaussian(
        noise_multiplier=10.0,
        sampling_probability=1e-6,
        steps=10**8,
        relation="zero_out",
    )
    few = dataclasses.replace(run, steps=10**7)
    assert 0.1 < dp.rero_bound(run, kappa=0.1).gamma < 0.11
    assert few.epsilon(1e-5) < run.epsilon(1e-5) < 1
