"""Formulas of bounds on reconstruction success, for each kind of privacy guarantee.

Mechanisms (`mechanisms`, `participation`, `published`) call these with their epsilon,
mu or Renyi curve. gamma bounds the probability that an attack that sees the weights
comes near the target. kappa is that probability for the best attack without the weights
(the baseline, see `priors`). Bounds take log kappa and return log gamma, elementwise
and in float64, as kappa may underflow for images. None is below log kappa or above 0.

A guarantee compares training with the target to a reference that doesn't depend on it:

  "zero_out"       the same training, the target's gradient set to 0
  "add_or_remove"  training without the target; bounds are those of "zero_out"
  "replace_one"    training with another target

Each gives a valid bound, if epsilon, mu or rho was computed under the same relation. An
infinite epsilon, mu or rho promises nothing, so gamma is 1, for kappa = 0 too (without
noise a record may be read off). log kappa = -inf is kappa = 0. No argument may be NaN.

Sources: Balle, Cherubin and Hayes 2022 (theorem numbers are theirs), with corrections.
Bounds marked "derived" are sharper. They follow from data processing: success is a
function of the target and the weights.
"""

import numpy as np
from jaxtyping import Float
from scipy import special

from dp import domain
from dp.domain import Numbers

RELATIONS = ("zero_out", "add_or_remove", "replace_one")
Logs = np.ndarray | np.floating  # float64, of the shape that the arguments broadcast to
_BISECTIONS = 120  # halvings of an interval of logits, to the last digit of float64
# Orders this near to 1 count as 1. Otherwise rounding took up to 95 % of the gain over
# kappa.
_NEXT_TO_1 = 1e-4
# Divergences below this may be rounding, and are raised to it. Otherwise the bound was
# below the truth by up to its whole gain over kappa.
_LEAST_DIVERGENCE = 1e-13
_CERTAIN = 800.0  # the logit of a probability that is 1 in float64


def renyi(log_kappa: Numbers, order: Numbers, epsilon: Numbers) -> Logs:
    """Bound by Theorem 2: (order, epsilon)-Renyi privacy, under any relation.

    log gamma = (order - 1) / order (log kappa + epsilon).

    Raises: ValueError: order <= 1 or infinite, or epsilon < 0.
    """
    log_kappa = domain.log_probability("log_kappa", log_kappa)
    order = domain.finite_above("order", order, 1)
    epsilon = domain.at_least_0("epsilon", epsilon)
    with np.errstate(invalid="ignore"):
        log_gamma = (order - 1) / order * (log_kappa + epsilon)
    return _valid(log_kappa, log_gamma, unless=epsilon)


def binary_renyi(log_kappa: Numbers, order: Numbers, epsilon: Numbers) -> Logs:
    """Find the largest gamma with D_order(Bern(gamma) || Bern(kappa)) <= epsilon.

    Never above `renyi`, which leaves out failures. At order 1, Kullback and Leibler's
    divergence, it is Fano's inequality.

    Raises: ValueError: order < 1 or infinite, or epsilon < 0.
    """
    log_kappa = domain.log_probability("log_kappa", log_kappa)
    order, given = domain.finite("order", order), order
    domain.require("order", given, order >= 1, ">= 1 and finite")
    # Divergences grow with the order, so that of order 1 is as small and stays a bound;
    # next to 1 those of higher orders lose their digits to the division by order - 1.
    order = np.where(order - 1 < _NEXT_TO_1, 1.0, order)
    epsilon = domain.at_least_0("epsilon", epsilon)
    above_1 = np.where(order > 1, order - 1, np.inf)
    sizes = 1 + np.where(np.isfinite(log_kappa), np.abs(log_kappa), 0.0)
    least = _LEAST_DIVERGENCE + 4 * np.finfo(float).eps * sizes / above_1
    epsilon = np.where(epsilon > 0, np.maximum(epsilon, least), 0.0)
    log_kappa, order, epsilon = np.broadcast_arrays(log_kappa, order, epsilon)
    log_miss = _log_complement(log_kappa)
    certain = log_kappa == 0
    impossible = np.isneginf(log_kappa)
    plain = ~certain & ~impossible
    base, miss = np.where(plain, log_kappa, -1.0), np.where(plain, log_miss, -1.0)

    def divergence(logit: Logs) -> Logs:
        success, failure = -np.logaddexp(0, -logit), -np.logaddexp(0, logit)
        with np.errstate(all="ignore"):
            # (a s + (1 - a) b) / (a - 1) of success and failure; nothing overflows.
            power = order / (order - 1)
            first = power * (success - base) + base / (order - 1)
            second = power * (failure - miss) + miss / (order - 1)
            apart = np.abs(first - second) * (order - 1)
            moments = np.maximum(first, second) + np.log1p(np.exp(-apart)) / (order - 1)
            entropies = np.exp(success) * (success - base)
            entropies += np.exp(failure) * (failure - miss)
        return np.where(order == 1, entropies, moments)

    low, high = base - miss, np.full(base.shape, _CERTAIN)
    low = np.minimum(low, high)
    # A NaN counts as allowed: a bound may err upwards only.
    high = np.where(~(divergence(high) > epsilon), np.inf, high)
    for _ in range(_BISECTIONS):
        middle = (low + np.where(np.isinf(high), _CERTAIN, high)) / 2
        allowed = ~(divergence(middle) > epsilon)
        low = np.where(allowed, middle, low)
        high = np.where(allowed | np.isinf(high), high, middle)
    log_gamma = np.where(certain, 0.0, -np.logaddexp(0, -high))
    log_gamma = np.where(impossible, -np.inf, log_gamma)
    return _valid(log_kappa, log_gamma, unless=epsilon)


def pure(log_kappa: Numbers, epsilon: Numbers, relation: str) -> Logs:
    """Bound epsilon-differential privacy, by Corollary 3 and sharper (derived).

    "replace_one": logit gamma = logit kappa + epsilon, which randomised response
    attains. Otherwise the least of 1, e^eps kappa and 1 - e^-eps (1 - kappa).
    """
    log_kappa = domain.log_probability("log_kappa", log_kappa)
    epsilon = domain.at_least_0("epsilon", epsilon)
    domain.choice("relation", relation, RELATIONS)
    log_miss = _log_complement(log_kappa)
    if relation == "replace_one":
        with np.errstate(invalid="ignore"):
            logit = log_kappa - log_miss
            log_gamma = -np.logaddexp(0, -(logit + epsilon))
        return _valid(log_kappa, log_gamma, unless=epsilon)
    with np.errstate(invalid="ignore"):
        log_gamma = np.minimum(log_kappa + epsilon, _log_complement(log_miss - epsilon))
    return _valid(log_kappa, log_gamma, unless=epsilon)


def corollary_3(log_kappa: Numbers, epsilon: Numbers) -> Logs:
    """Bound epsilon-differential privacy by Corollary 3: gamma = kappa e^eps."""
    log_kappa = domain.log_probability("log_kappa", log_kappa)
    epsilon = domain.at_least_0("epsilon", epsilon)
    with np.errstate(invalid="ignore"):
        return _valid(log_kappa, log_kappa + epsilon, unless=epsilon)


def approximate(log_kappa: Numbers, epsilon: Numbers, delta: Numbers) -> Logs:
    """Bound (epsilon, delta)-differential privacy (derived).

    The least of 1, delta + e^eps kappa and 1 - e^-eps (1 - delta - kappa). The second
    uses the guarantee in one direction, the third in the other. For a whole privacy
    curve take the least over it.
    """
    log_kappa = domain.log_probability("log_kappa", log_kappa)
    epsilon = domain.at_least_0("epsilon", epsilon)
    delta = domain.probability("delta", delta)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_delta = np.log(delta)
        one_way = np.logaddexp(log_delta, log_kappa + epsilon)
        missed = np.maximum(-np.expm1(log_kappa) - delta, 0)
        other_way = _log_complement(np.minimum(np.log(missed) - epsilon, 0))
        log_gamma = np.minimum(one_way, other_way)
    return _valid(log_kappa, log_gamma, unless=epsilon)


def corollary_4(log_kappa: Numbers, rho: Numbers) -> Logs:
    """Bound rho-zero-concentrated privacy by Corollary 4, under any relation.

    log gamma = -(sqrt(log 1/kappa) - sqrt(rho))^2 where rho < log 1/kappa.
    """
    log_kappa = domain.log_probability("log_kappa", log_kappa)
    rho = domain.at_least_0("rho", rho)
    with np.errstate(invalid="ignore"):
        gap = np.sqrt(-log_kappa) - np.sqrt(rho)
        return _valid(log_kappa, np.where(gap > 0, -(gap**2), 0.0), unless=rho)


def gaussian(log_kappa: Numbers, mu: Numbers) -> Logs:
    """Bound mu-Gaussian privacy: gamma = Phi(Phi^-1(kappa) + mu) (derived).

    Two antipodal targets attain it at kappa = 1/2 under "zero_out". `corollary_4` is
    its Chernoff form.
    """
    log_kappa = domain.log_probability("log_kappa", log_kappa)
    mu = domain.at_least_0("mu", mu)
    with np.errstate(invalid="ignore"):
        log_gamma = special.log_ndtr(special.ndtri_exp(log_kappa) + mu)
    return _valid(log_kappa, np.where(mu == 0, log_kappa, log_gamma), unless=mu)


def laplace(log_kappa: Numbers, epsilon: Numbers) -> Logs:
    """Bound one number with Laplace noise of scale sensitivity / epsilon (derived).

    One minus the trade-off function of two Laplace distributions `epsilon` apart.
    """
    log_kappa = domain.log_probability("log_kappa", log_kappa)
    epsilon = domain.at_least_0("epsilon", epsilon)
    half = np.log(0.5)
    with np.errstate(over="ignore", invalid="ignore"):
        middle = _log_complement(np.minimum(2 * half - epsilon - log_kappa, 0))
        last = _log_complement(_log_complement(log_kappa) - epsilon)
        log_gamma = np.where(
            log_kappa < half - epsilon,
            log_kappa + epsilon,
            np.where(log_kappa <= half, middle, last),
        )
    return _valid(log_kappa, log_gamma, unless=epsilon)


def dual(
    log_kappa: Numbers,
    epsilons: Float[np.ndarray, " many"],
    deltas: Float[np.ndarray, " many"],
) -> Logs:
    """Minimise e^eps kappa + delta(eps): tight for an exact delta at all real eps.

    The convex dual of one minus the trade-off function (derived; see also Hayes,
    Mahloujifar and Balle 2023). Valid for any epsilons, negative ones too, and any
    upper bound of delta.

    Args:
      epsilons: the finite values, in nats, at which delta is known.
      deltas: the hockey-stick divergence of order e^eps from training without the
        target to training with it, or more.
    Raises: ValueError: not as many deltas as epsilons, or none; a number that isn't
      finite.
    """
    log_kappa = domain.log_probability("log_kappa", log_kappa)
    epsilons = domain.some("epsilons", domain.finite("epsilons", epsilons)).ravel()
    deltas = domain.finite_at_least_0("deltas", deltas).ravel()
    domain.as_many("deltas", deltas, "epsilons", epsilons)
    with np.errstate(divide="ignore"):
        log_deltas = np.log(deltas)
    flat = [np.min(np.logaddexp(log_deltas, k + epsilons)) for k in log_kappa.ravel()]
    return _valid(log_kappa, np.reshape(flat, log_kappa.shape))


def _log_complement(log_probability: Logs) -> Logs:
    """Return log(1 - p) from log p, accurate at both ends."""
    with np.errstate(divide="ignore"):
        return np.where(
            log_probability > -np.log(2),
            np.log(-np.expm1(log_probability)),
            np.log1p(-np.exp(log_probability)),
        )


def _valid(log_kappa: Numbers, log_gamma: Numbers, unless: Numbers = 0.0) -> Logs:
    """Clip between kappa and 1: with theta an attack does no worse than without.

    1 where `unless`, a mechanism's parameter, is infinite: then it promises nothing.
    """
    log_gamma = np.where(np.asarray(unless) == np.inf, 0.0, log_gamma)
    return np.asarray(np.clip(log_gamma, log_kappa, 0.0))
