"""Compute how much secret Poisson sampling of the batches adds to what noise protects.

`mechanisms.PoissonGaussian` and `Composition` call this; each quantity here (Renyi
divergences, privacy losses, one step, never being sampled) gives a valid bound. One
step adds N(0, sigma^2), for any sigma > 0, to a sum of gradients of length at most 1,
in which each example takes part with probability q. Along the target's gradient, the
noisy sum is (1 - q) N(0, sigma^2) + q N(1, sigma^2); with that gradient set to 0 it is
N(0, sigma^2).
"""

import functools
import math

import numpy as np
from jaxtyping import Float
from scipy import special

from dp import bounds, domain, loss_grid
from dp.domain import Number, Numbers
from dp.loss_grid import Distribution

FINE = 2e-4  # spacing of grids of the privacy loss, in nats; error 4e-6 (1e-4 at 1e-3)
# Beyond, dp-accounting's powers of a distribution take minutes; bounds by Renyi
# divergences and full batches, which take no time, decide.
_MOST_STEPS = 10**7
_COARSEST = 100.0  # spacing; e^100 is a float still, and sigma = 1e-3 needs 10
_ORDERS = 60  # orders that `orders_for` returns, at most
# Noise multipliers between which dp-accounting's privacy losses are made. Below, its
# exponentials overflow (from 4e-4 on); above, the noise that is accounted for is less
# than the real one, which loosens the bound.
_LEAST, _MOST = 1e-3, 1e6
# Probabilities between which dp-accounting's root finder has a bracket.
_RAREST, _NEARLY_ALWAYS = 1e-100, 1 - 1e-10
_HIGHEST = 10**6  # order of Renyi divergences, each a sum of as many terms


def _setting(
    noise_multiplier: Number, probability: Number, steps: int = 1
) -> tuple[float, float, int]:
    """Return plain numbers; refuse sigma <= 0, q outside (0, 1], steps < 1."""
    sigma = domain.above("noise_multiplier", noise_multiplier, 0)
    share = domain.share("probability", probability)
    return float(sigma), float(share), domain.integer("steps", steps, 1)


def _log_moment(order: int, sigma: float, probability: float) -> float:
    """Compute log E[(with / without)^order] of one step, under training without.

    Exact: (order - 1) times the Renyi divergence; infinite where it overflows.

    Source: Mironov, Talwar and Zhang 2019.
    """
    # The sum over i of P(i) exp(e_i), P binomial and e_0 = e_1 = 0: so 1 plus the sum
    # of P(i) (exp(e_i) - 1), which isn't lost where the moment is next to 1.
    i = np.arange(2, order + 1)
    binomial = special.gammaln(order + 1) - special.gammaln(i + 1)
    binomial -= special.gammaln(order - i + 1)
    weights = special.xlogy(i, probability) + special.xlog1py(order - i, -probability)
    with np.errstate(over="ignore", divide="ignore"):
        exponents = i * (i - 1.0) / 2 / sigma / sigma
        gains = exponents + np.log(-np.expm1(-exponents))
    terms = np.where(np.isneginf(weights), -np.inf, binomial + weights + gains)
    return float(np.logaddexp(0.0, special.logsumexp(terms)))


def orders_for(log_kappa: Numbers, rho: Number) -> np.ndarray:
    """Return integer orders around the best, about sqrt(log(1/kappa) / rho)."""
    lengths = -domain.log_probability("log_kappa", log_kappa)
    rho = float(domain.at_least_0("rho", rho))
    lengths = lengths[np.isfinite(lengths)]
    longest = lengths.max() if lengths.size else 1.0
    highest = int(np.clip(4 * math.sqrt(longest / max(rho, 1e-12)), 64, 100_000))
    return np.unique(np.round(np.geomspace(2, highest, _ORDERS)).astype(int))


def renyi(
    orders: np.ndarray, noise_multiplier: Number, probability: Number, steps: int
) -> Float[np.ndarray, " orders"]:
    """Compute Renyi divergences of all steps, from training without to with.

    Orders are whole numbers from 2 to 1e6.
    """
    given, orders = orders, domain.finite("orders", orders)
    usable = (orders >= 2) & (orders <= _HIGHEST) & (orders == np.round(orders))
    domain.require("orders", given, usable, "to be whole numbers from 2 to 1e6")
    sigma, probability, steps = _setting(noise_multiplier, probability, steps)
    moments = [_log_moment(int(a), sigma, probability) for a in orders]
    return steps * np.array(moments) / (orders - 1)


def losses(
    noise_multiplier: Number, probability: Number, steps: int, grid: float = FINE
) -> Distribution:
    """Compute the privacy loss distribution of all steps, rounded up.

    Where sigma or the probability is tiny, or steps are more than 1e7, or no grid would
    do, all that counts is whether the target is ever sampled.

    Args:
      grid: the spacing of the grid of the privacy loss, > 0 and finite, in nats; a
        coarser one is taken where sigma is so small, or steps so many, that it would be
        very long, which loosens the bound and keeps it valid.
    """
    spacing = float(domain.finite_above("grid", grid, 0))
    return _losses(*_setting(noise_multiplier, probability, steps), spacing)


@functools.lru_cache(maxsize=32)
def _losses(sigma: float, probability: float, steps: int, grid: float) -> Distribution:
    """Compute `losses`, and remember them."""
    # Importing it takes a second, and bounds in closed form don't need it.
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import common, privacy_loss_distribution

    sigma = min(sigma, _MOST)
    # One step is about 40 (1/sigma + 1/sigma^2) long; the sum of all steps has a mean
    # of at most steps rho, and 16 standard deviations.
    noise = max(sigma, _LEAST)
    mean = steps * _log_moment(2, noise, probability)
    longest = max(40 * (1 / noise + 1 / noise**2), mean + 16 * math.sqrt(mean))
    spacing = max(grid, longest / loss_grid.LONGEST)
    too_many = steps > _MOST_STEPS
    if sigma < _LEAST or probability < _RAREST or spacing > _COARSEST or too_many:
        ever = -math.expm1(_never(probability, steps))
        nothing = common.DifferentialPrivacyParameters(0.0, ever)
        return privacy_loss_distribution.from_privacy_parameters(
            nothing, value_discretization_interval=grid
        )
    if probability > _NEARLY_ALWAYS:  # full batches protect less
        probability = 1.0
    one = privacy_loss_distribution.from_gaussian_mechanism(
        standard_deviation=sigma,
        sensitivity=1.0,
        pessimistic_estimate=True,
        value_discretization_interval=spacing,
        log_mass_truncation_bound=-50,
        sampling_prob=probability,
        use_connect_dots=True,
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
    )
    return loss_grid.composed(one, steps)


def one_step(
    log_kappa: Numbers, noise_multiplier: Number, probability: Number
) -> bounds.Logs:
    """Bound one step: gamma = (1 - q) kappa + q Phi(Phi^-1(kappa) + 1/sigma)."""
    log_kappa = domain.log_probability("log_kappa", log_kappa)
    sigma, probability, _ = _setting(noise_multiplier, probability)
    with np.errstate(divide="ignore", over="ignore"):
        log_gamma = np.logaddexp(
            np.log1p(-probability) + log_kappa,
            np.log(probability) + bounds.gaussian(log_kappa, np.divide(1, sigma)),
        )
    return np.asarray(np.clip(log_gamma, log_kappa, 0.0))


def never_sampled(log_kappa: Numbers, probability: Number, steps: int) -> bounds.Logs:
    """Bound T steps with any noise > 0: no attack gains if the target is in no step.

    gamma = 1 - (1 - q)^T (1 - kappa). For kappa = 0 it is 0: with noise, what has
    probability 0 without the target has probability 0 with it too.
    """
    log_kappa = domain.log_probability("log_kappa", log_kappa)
    probability = float(domain.share("probability", probability))
    never = _never(probability, domain.integer("steps", steps, 1))
    log_gamma = bounds._log_complement(never + bounds._log_complement(log_kappa))
    return np.where(np.isneginf(log_kappa), log_kappa, log_gamma)


def _never(probability: float, steps: int) -> float:
    """Return the log probability that the target takes part in no step."""
    return -math.inf if probability == 1 else steps * math.log1p(-probability)
