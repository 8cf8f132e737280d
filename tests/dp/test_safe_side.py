"""Inputs of which a bound or an epsilon was once too small, without a word."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import dp
from dp import bounds, domain, gradient, poisson, priors, rero
from dp.domain import FieldError

RUN = dp.Gaussian(noise_multiplier=0.05, steps=100, relation="zero_out")


def test_a_mask_of_known_coordinates_is_no_list_of_positions():
    covariance, mask = np.eye(100), np.ones(100, bool)
    mask[7] = False
    found = priors.gaussian_given(0.1, covariance=covariance, known=mask)
    positions = np.flatnonzero(mask)
    assert found == priors.gaussian_given(0.1, covariance=covariance, known=positions)
    # One normal coordinate is left: the bound is no smaller than P(|x| <= eta).
    assert np.log(stats.chi(1).cdf(0.1)) <= found < np.log(0.2)


@pytest.mark.parametrize(
    "known", [np.array([0.2, 0.9]), np.ones(3, bool), np.array([[1]]), np.array([4])]
)
def test_known_coordinates_that_are_neither(known):
    with pytest.raises(FieldError, match="known"):
        priors.gaussian_given(0.1, covariance=np.eye(4), known=known)


def test_randomised_response_is_within_its_trade_off():
    """Its error rates are both 1 / (1 + e^eps), under "replace_one" as well."""
    error = 1 / (1 + np.e)
    private = dp.PureDP(eps=1.0, relation="replace_one")
    assert error - 1e-9 <= float(private.tradeoff(error)) <= error
    # The optimal test of Laplace noise, by hand.
    laplace = dp.Laplace(eps=1.0, relation="replace_one")
    assert float(laplace.tradeoff(0.5)) == pytest.approx(np.exp(-1) / 2)


def test_no_coordinate_known_by_an_empty_list():
    alone = priors.gaussian_given(0.1, covariance=np.eye(4), known=np.array([]))
    exact = priors.gaussian_covariance(0.1, variances=np.ones(4))
    assert exact <= alone == pytest.approx(exact)


def test_points_without_side_information_are_points_of_the_prior(rng):
    points = rng.normal(size=(6, 2))
    told = np.array([np.nan, np.nan, 0.0, 0.0, np.nan, 1.0])
    named = np.where(np.isnan(told), -1.0, told)
    mass = np.full(6, 1 / 6)
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    blank = priors.discrete(apart, mass, 0.5, given=told)
    assert blank == priors.discrete(apart, mass, 0.5, given=named)
    odd = np.array([None, 0, 0, "a", 1, 2], object)
    with pytest.raises(FieldError, match="given"):
        priors.discrete(apart, mass, 0.5, given=odd)


def test_a_kappa_that_underflowed_is_refused():
    with pytest.raises(FieldError, match="log_kappa"):
        dp.rero_bound(RUN, kappa=0.3**784)
    assert float(dp.rero_bound(RUN, log_kappa=784 * np.log(0.3)).gamma) > 0.99
    assert float(dp.rero_bound(RUN, log_kappa=-np.inf).gamma) == 0


@pytest.mark.parametrize("ratio", [1e2, 1e3, 1e4, 1e5])
def test_gradients_that_cancel_between_positions_are_clipped(ratio):
    """Inputs alike, slopes opposite: of length 5, of parts `ratio` times as long."""
    features, units = 64, 64
    generator = np.random.default_rng(3)
    one = generator.normal(size=(features, 1))
    inputs = np.stack([one, one + generator.normal(size=one.shape) / ratio], axis=2)
    slope = generator.normal(size=(units, 1))
    slopes = np.stack([slope, -slope], axis=2)
    whole = np.einsum("fnp,unp->nfu", inputs, slopes)
    slopes *= 5 / np.linalg.norm(whole)

    def losses(taps):
        out = jnp.sum(taps["layer"] * slopes, axis=(0, 2))
        return out, {"layer": jnp.asarray(inputs)}

    with jax.default_matmul_precision("highest"):
        inputs, slopes = jnp.float32(inputs), jnp.float32(slopes)
        found = gradient.clipped_sum(
            losses,
            {"layer": {"w": jnp.zeros((features, units))}},
            {"layer": jnp.zeros((units, 1, 2))},
            clip_norm=1.0,
        )
    assert np.linalg.norm(found["layer"]["w"]) <= 1.01


def test_an_optimistic_loss_distribution_is_refused():
    def made(pessimistic):
        return privacy_loss_distribution.from_gaussian_mechanism(
            1.0,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=0.1,
            use_connect_dots=False,
        )

    dp.LossDistribution(distribution=made(True), relation="zero_out")
    with pytest.raises(FieldError, match="pessimistic"):
        dp.LossDistribution(distribution=made(False), relation="zero_out")


@given(st.floats(-16, -3), st.floats(-6, 0.5), st.floats(-12, -0.01))
def test_binary_renyi_next_to_order_1_is_never_below_what_is_attained(
    exponent, log_mu, log_kappa
):
    """The Gaussian mechanism has divergence order mu^2 / 2, and attains `gaussian`."""
    order, mu = 1 + 10.0**exponent, 10.0**log_mu
    attained = float(bounds.gaussian(log_kappa, mu))
    found = float(bounds.binary_renyi(log_kappa, order, order * mu**2 / 2))
    assert found >= attained - 1e-12


def test_so_little_noise_in_so_many_steps_needs_no_memory():
    run = dp.PoissonGaussian(
        noise_multiplier=1e-3,
        sampling_probability=0.5,
        steps=10**6,
        relation="zero_out",
    )
    assert float(dp.rero_bound(run, kappa=0.01).gamma) == 1
    ever = 1 - 0.5**3
    assert poisson.losses(1e-4, 0.5, 3).get_delta_for_epsilon(9.0) == pytest.approx(
        ever
    )


def test_several_numbers_where_there_is_one():
    """Types are checked in tests, so that a mechanism never gets there."""
    domain.one("epsilon", np.float64(1))
    with pytest.raises(FieldError, match="epsilon to be one number, got shape"):
        domain.one("epsilon", (1.0, 2.0))


def test_a_small_epsilon_of_random_allocation_is_reached():
    """Renyi divergences of few orders end above it."""
    batches = dp.Batches(records=256, batch=64, epochs=1, sampling="allocation")
    least = dp.calibrate(epsilon=0.005, batches=batches, relation="zero_out")
    run = batches.mechanism(
        noise_multiplier=least.noise_multiplier, relation="zero_out"
    )
    assert 0.004 < run.epsilon(1e-5) <= 0.005


def test_another_bound_of_the_same_name_is_refused(monkeypatch):
    monkeypatch.setattr("dp.rero._REGISTERED", {})
    first = lambda mechanism, log_kappa: None  # noqa: E731
    second = lambda mechanism, log_kappa: log_kappa  # noqa: E731
    dp.register_bound("mine", first)
    dp.register_bound("mine", first)
    with pytest.raises(ValueError, match="mine"):
        dp.register_bound("mine", second)


def test_a_field_that_stands_twice_is_refused(tmp_path, capsys):
    from informed.cli.command_table import main

    file = tmp_path / "history.json"
    once = json.dumps({"history": [[1.0, 0.01, 10]], "mechanism": "rdp"})
    file.write_text(once[:-1] + ', "history": [[1000.0, 0.01, 10]]}')
    with pytest.raises(SystemExit):
        main(["bound", "--from", str(file), "--kappa=0.01"])
    assert "history once, found it twice" in capsys.readouterr().err


@given(st.floats(1e-9, 1e9), st.integers(1, 8))
def test_what_is_printed_of_an_epsilon_is_no_less(value, digits):
    printed = float(rero.rounded_up(value, digits))
    assert value <= printed <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)
