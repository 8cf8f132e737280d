"""Privacy of a training run: epsilon, mu, rho, Renyi curve, loss distribution.

By dp-accounting, which takes a second to import: only what needs it does. A run is a
`Gaussian` or `PoissonGaussian` of `mechanisms`.
"""

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from scipy import special

from dp import domain, poisson
from dp.domain import Number
from dp.mechanisms import Gaussian, PoissonGaussian
from dp.participation import FixedSizeGaussian, RevealedGaussian

if TYPE_CHECKING:
    from dp_accounting.pld import privacy_loss_distribution

Run = Gaussian | PoissonGaussian
ORDERS = (*range(2, 65), 80, 96, 128, 192, 256, 384, 512, 768, 1024)
_TOLERANCE, _LEAST = 1e-6, 0.02
_LARGE = 1e5  # mu or epsilon, where dp-accounting's solvers still converge


def epsilon(run: Run | FixedSizeGaussian | RevealedGaussian, delta: Number) -> float:
    """Return the smallest epsilon that is certified at delta.

    Exact for full batches; else the least of three: by the privacy loss distribution,
    rounded up by what its composition may have lost, by Renyi divergences, and that of
    full batches, which is all there is of Poisson sampling with "replace_one". 0 with
    infinite noise; infinite where mu overflows.

    Raises: ValueError: delta outside (0, 1).
    """
    domain.between("delta", delta, 0, 1)
    if isinstance(run, RevealedGaussian):
        return run.epsilon(delta)
    if isinstance(run, FixedSizeGaussian):
        if run.relation == "add_or_remove" and run.batch < run.records:
            return epsilon(run.removal, delta)
        return run.replaced_epsilon(delta)
    if isinstance(run, Gaussian) or run.sampling_probability == 1:
        return _of_mu(mu(run), delta)
    full = _of_mu(_full(run).mu, delta)
    if run.relation == "replace_one":
        return full
    candidates, losses = [full], loss_distribution(run)
    least = float(delta) - poisson.rounding(losses, run.steps)
    if least > 0:
        candidates.append(float(losses.get_epsilon_for_delta(least)))
    # The distribution tells little of very many steps, whose grid is coarse, and
    # nothing where rounding is more than delta.
    candidates.append(_of_renyi(renyi(run), delta))
    return float(np.nanmin(candidates))


def _of_renyi(divergences: np.ndarray, delta: Number) -> float:
    """Convert Renyi divergences at `ORDERS` to epsilon.

    Source: Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    orders = np.array(ORDERS, float)
    with np.errstate(over="ignore"):
        tails = np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    return float(max(0.0, np.min(divergences + tails)))


def _of_mu(mu: float, delta: Number) -> float:
    """Convert mu-Gaussian differential privacy to epsilon.

    The root of `_log_delta`, but where mu is so large that the solver fails: there from
    delta(eps) <= Phi(mu / 2 - eps / mu), which is above it by less than 1e-5 of itself.
    The same bits as dp-accounting's get_epsilon_gaussian, whose import takes longer.
    """
    if mu == 0 or np.isinf(1 / mu):
        return 0.0
    if mu >= _LARGE:
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


def mu(run: Run) -> float:
    """Return mu of Gaussian differential privacy, for full batches.

    Raises: ValueError: sampled batches, which have no finite exact mu.
    """
    if isinstance(run, PoissonGaussian):
        if run.sampling_probability < 1:
            raise ValueError(
                "Expected full batches: no mu describes Poisson sampling exactly. Use"
                " epsilon, renyi or loss_distribution."
            )
        run = _full(run)
    return run.mu


def _full(run: PoissonGaussian) -> Gaussian:
    """Return the run with everyone in every step, which protects less."""
    return Gaussian(
        noise_multiplier=run.noise_multiplier, steps=run.steps, relation=run.relation
    )


def rho(run: Run) -> float:
    """Return rho = mu^2 / 2 of zero-concentrated privacy, for full batches."""
    with np.errstate(over="ignore"):
        return float(np.square(mu(run)) / 2)


def renyi(
    run: Run, orders: tuple[Number, ...] = ORDERS
) -> Float[np.ndarray, " orders"]:
    """Return Renyi divergences; orders are whole where batches are sampled.

    Raises: ValueError: an order < 1 or infinite (< 2 or not whole where batches are
      sampled); Poisson sampling with "replace_one".
    """
    if isinstance(run, Gaussian) or run.sampling_probability == 1:
        values = domain.finite("orders", orders)
        domain.require("orders", orders, values >= 1, ">= 1 and finite")
        with np.errstate(over="ignore"):
            return values * rho(run)
    _refuse_replacement(run)
    return poisson.renyi(
        np.array(orders), run.noise_multiplier, run.sampling_probability, run.steps
    )


def loss_distribution(
    run: Run,
) -> "privacy_loss_distribution.PrivacyLossDistribution":
    """Return the privacy loss distribution, rounded up, under the run's relation."""
    if isinstance(run, Gaussian) or run.sampling_probability == 1:
        with np.errstate(over="ignore", divide="ignore"):
            sigma = max(float(1 / np.float64(mu(run))), float(np.finfo(float).tiny))
        return poisson.losses(sigma, 1.0, 1)
    _refuse_replacement(run)
    return poisson.losses(run.noise_multiplier, run.sampling_probability, run.steps)


def noise_multiplier(
    epsilon: Number,
    delta: Number,
    *,
    steps: int,
    relation: str,
    sampling_probability: Number = 1.0,
) -> float:
    """Return the smallest noise multiplier of (epsilon, delta)-privacy.

    Rounded up, by at most 1e-6 of itself where batches are sampled.
    """
    domain.finite_above("epsilon", epsilon, 0)
    domain.between("delta", delta, 0, 1)
    domain.integer("steps", steps, 1)
    domain.share("sampling_probability", sampling_probability)
    one = Gaussian(noise_multiplier=1.0, steps=steps, relation=relation)
    full = one.mu * _sigma_of(epsilon, delta)
    if sampling_probability == 1:
        return full
    run = PoissonGaussian(
        noise_multiplier=full,
        sampling_probability=sampling_probability,
        steps=steps,
        relation=relation,
    )
    _refuse_replacement(run)

    def excess(sigma: float) -> float:
        losses = poisson.losses(sigma, sampling_probability, steps)
        reached = losses.get_delta_for_epsilon(epsilon)
        if reached <= delta:  # what rounding hides takes longest, and may decide now
            reached += poisson.rounding(losses, steps)
        above = _above(reached, delta)
        # As in `epsilon`: the distribution tells little of very many steps.
        if above > 0:
            of_orders = _of_renyi(
                poisson.renyi(np.array(ORDERS), sigma, sampling_probability, steps),
                delta,
            )
            if of_orders <= epsilon:
                above = min(-1e-300, of_orders - epsilon)
        return above

    return _smallest(excess, full)


def _above(reached: float, delta: Number) -> float:
    """Return log(reached / delta), finite, and > 0 where it exceeds delta or is NaN."""
    if math.isnan(reached):  # all mass overflows
        return 700.0
    log = math.log(max(reached / float(delta), 1e-300))
    return max(log, 1e-300) if reached > delta else min(log, 0.0)


def _sigma_of(epsilon: Number, delta: Number) -> float:
    """Return sigma of one Gaussian step; for large epsilon by `_of_mu`'s bound."""
    if epsilon < _LARGE:
        import dp_accounting

        return float(dp_accounting.get_sigma_gaussian(epsilon, delta))
    quantile = -float(special.ndtri(delta))
    mu = math.hypot(quantile, math.sqrt(2) * math.sqrt(epsilon)) - quantile
    return (1 + _TOLERANCE) / mu


def _smallest(excess: Callable[[float], float], high: float) -> float:
    """Find the smallest sigma with excess(sigma) <= 0, which holds from some on.

    Rounded up; `high` is known to suffice.
    """
    from scipy import optimize

    excess = functools.cache(excess)
    low = high
    while low > _LEAST:
        low = max(low / 2, _LEAST)
        if excess(low) > 0:
            break
        high = low
    else:
        return high
    # Brent's method takes a third of the evaluations. Its root is only a guess: the
    # excess jumps a little where the grid or the rounding does.
    if excess(high) < 0:
        guess = optimize.brentq(excess, low, high, xtol=_TOLERANCE * low / 8)
        for sigma in (guess * (1 - _TOLERANCE / 4), guess * (1 + _TOLERANCE / 4)):
            if low < sigma < high:
                low, high = (low, sigma) if excess(sigma) <= 0 else (sigma, high)
    while high > low * (1 + _TOLERANCE):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if excess(middle) <= 0 else (middle, high)
    return high


def _refuse_replacement(run: PoissonGaussian) -> None:
    """Refuse Poisson sampling under "replace_one", which has no accountant here."""
    if run.relation == "replace_one":
        raise ValueError(
            "Poisson sampling under relation='replace_one' has no dominating pair here."
            " Use 'zero_out' or 'add_or_remove'."
        )
