"""Epsilon of (epsilon, delta)-differential privacy, from numbers.

`mechanisms` and `participation` ask for it by what they know of a run.
"""

import math

import numpy as np
from scipy import special

from dp import poisson
from dp.domain import Number

ORDERS = (*range(2, 65), 80, 96, 128, 192, 256, 384, 512, 768, 1024)
LARGE = 1e5  # mu or epsilon, where dp-accounting's solvers still converge


def sampled(sigma: Number, q: Number, steps: int, delta: Number) -> float:
    """Return the least epsilon that is certified of Poisson sampling.

    By the privacy loss distribution, rounded up by what its composition may have lost,
    or by Renyi divergences: the distribution tells little of very many steps, whose
    grid is coarse, and nothing where rounding is more than delta.
    """
    losses = poisson.losses(sigma, q, steps)
    least = float(delta) - poisson.rounding(losses, steps)
    by_orders = of_renyi(poisson.renyi(np.array(ORDERS), sigma, q, steps), delta)
    if least <= 0:
        return by_orders
    return float(np.nanmin([losses.get_epsilon_for_delta(least), by_orders]))


def of_renyi(divergences: np.ndarray, delta: Number) -> float:
    """Convert Renyi divergences at `ORDERS` to epsilon.

    Source: Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    orders = np.array(ORDERS, float)
    with np.errstate(over="ignore"):
        tails = np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    return float(max(0.0, np.min(divergences + tails)))


def of_mu(mu: float, delta: Number) -> float:
    """Convert mu-Gaussian differential privacy to epsilon.

    The root of `_log_delta`, but where mu is so large that the solver fails: there from
    delta(eps) <= Phi(mu / 2 - eps / mu), which is above it by less than 1e-5 of itself.
    The same bits as dp-accounting's get_epsilon_gaussian, whose import takes longer.
    """
    if mu == 0 or np.isinf(1 / mu):
        return 0.0
    if mu >= LARGE:
        with np.errstate(over="ignore"):
            high = np.multiply(mu, mu / 2 - special.ndtri(delta))
        return float(np.maximum(0.0, high))
    from scipy import optimize

    sigma, log_delta = 1 / mu, np.log(delta)
    if _log_delta(sigma, 0.0) < log_delta:
        return 0.0
    low, high = 0.0, 1.0
    while _log_delta(sigma, high) > log_delta:
        low, high = high, high * 10
    return float(
        optimize.brentq(
            lambda eps: _log_delta(sigma, eps) - log_delta, low, high, xtol=1e-12
        )
    )


def _log_delta(sigma: float, epsilon: float) -> float:
    """Compute log delta of one Gaussian step: Balle and Wang 2018, Theorem 8."""
    middle = epsilon * sigma + 1 / (2 * sigma)
    x = special.log_ndtr(1 / sigma - middle)
    y = epsilon + special.log_ndtr(-middle)
    with np.errstate(divide="ignore"):
        return float(x + np.log1p(-np.exp(y - x))) if y <= x else -math.inf
