"""Convert Renyi curves, (epsilon, delta) pairs and mu (Gaussian) to epsilon and delta.

`mechanisms` and `published` call them; `calibration` calls `mu_of`, the way back.
"""

import math

import numpy as np
from scipy import special

from dp.domain import Number

LARGE = 1e5  # mu or epsilon, where dp-accounting's solvers still converge


def of_renyi(divergences: np.ndarray, delta: Number, orders: np.ndarray) -> float:
    """Convert Renyi divergences, one an order above 1, to epsilon.

    Source: Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    with np.errstate(over="ignore"):
        tails = np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    return float(max(0.0, np.min(divergences + tails)))


def delta_of_renyi(
    divergences: np.ndarray, epsilon: Number, orders: np.ndarray
) -> float:
    """Invert `of_renyi`: the least delta at epsilon, at most 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        logs = (orders - 1) * (divergences - epsilon + np.log1p(-1 / orders))
    return float(np.exp(np.nanmin([0.0, *(logs - np.log(orders))])))


def of_pairs(epsilons: np.ndarray, deltas: np.ndarray, delta: Number) -> float:
    """Return the least epsilon at delta that (epsilon, delta) pairs imply.

    An (e, d)-private pair of distributions is a post-processing of randomised response
    with parameter e that fails with probability d (Kairouz, Oh and Viswanath 2015),
    whose delta(epsilon) = d + (1 - d) (e^e - e^epsilon)_+ / (1 + e^e).
    """
    usable = deltas <= delta
    e, d = epsilons[usable], deltas[usable]
    with np.errstate(divide="ignore", invalid="ignore"):
        # e^epsilon = e^e - share (1 + e^e), in units of e^e.
        rest = 1 - (delta - d) / (1 - d) * (1 + np.exp(-e))
        at = np.where(rest > 0, e + np.log(np.maximum(rest, 0)), 0.0)
    return float(np.min(np.maximum(at, 0.0), initial=math.inf))


def delta_of_pairs(epsilons: np.ndarray, deltas: np.ndarray, epsilon: Number) -> float:
    """Return the least delta at epsilon that pairs imply; see `of_pairs`."""
    with np.errstate(invalid="ignore"):
        gaps = -np.expm1(np.minimum(0.0, np.nan_to_num(epsilon - epsilons, nan=0.0)))
    certified = deltas + (1 - deltas) * gaps / (1 + np.exp(-epsilons))
    return float(np.min(certified, initial=1.0))


def of_mu(mu: float, delta: Number) -> float:
    """Convert mu-Gaussian differential privacy to epsilon.

    Solves `_log_delta` = log delta. Where mu is too large for the solver, it solves
    Phi(mu / 2 - eps / mu) = delta, whose left side exceeds delta(eps) by less than 1e-5
    of it. Returns the bits of dp-accounting's get_epsilon_gaussian, a slow import.
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


def mu_of(epsilon: float, delta: float) -> float:
    """Return mu of one Gaussian step, at most the largest with that epsilon at delta.

    From `LARGE` on, epsilon is converted by the upper bound of delta in `of_mu`.
    """
    if epsilon < LARGE:
        import dp_accounting

        return 1 / float(dp_accounting.get_sigma_gaussian(epsilon, delta))
    quantile = -float(special.ndtri(delta))
    return math.hypot(quantile, math.sqrt(2) * math.sqrt(epsilon)) - quantile


def delta_of_mu(mu: float, epsilon: Number) -> float:
    """Return delta at epsilon of mu-Gaussian differential privacy.

    A difference of two terms, rounded up by what it may lose to cancellation.
    """
    if mu == 0 or np.isinf(1 / mu):
        return 0.0
    if mu >= LARGE:
        return float(special.ndtr(mu / 2 - epsilon / mu))
    x = float(special.log_ndtr(mu / 2 - epsilon / mu))
    if x == -math.inf:
        return 0.0
    y = float(epsilon + special.log_ndtr(-mu / 2 - epsilon / mu))
    slack = 8 * np.finfo(float).eps * (1 + abs(x) + float(epsilon))
    return float(min(1.0, np.exp(x) * (-np.expm1(min(0.0, y - x)) + slack)))


def _log_delta(sigma: float, epsilon: float) -> float:
    """Compute log delta of one Gaussian step: Balle and Wang 2018, Theorem 8."""
    middle = epsilon * sigma + 1 / (2 * sigma)
    x = special.log_ndtr(1 / sigma - middle)
    y = epsilon + special.log_ndtr(-middle)
    with np.errstate(divide="ignore"):
        return float(x + np.log1p(-np.exp(y - x))) if y <= x else -math.inf
