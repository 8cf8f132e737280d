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

from dp import domain, loss_grid, poisson
from dp.domain import Number
from dp.epsilons import LARGE, ORDERS, of_renyi
from dp.mechanisms import Gaussian, PoissonGaussian
from dp.participation import FixedSizeGaussian, RevealedGaussian

if TYPE_CHECKING:
    from dp_accounting.pld import privacy_loss_distribution

Run = Gaussian | PoissonGaussian
_TOLERANCE, _LEAST = 1e-6, 0.02


def epsilon(run: Run | FixedSizeGaussian | RevealedGaussian, delta: Number) -> float:
    """Return the smallest epsilon of (epsilon, delta)-privacy that is certified.

    Exact for full batches. 0 with infinite noise; infinite where mu overflows.

    Raises: ValueError: delta outside (0, 1).
    """
    return run.epsilon(delta)


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
        run = run.full
    return run.mu


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
        reached = loss_grid.delta(losses, epsilon, steps)
        above = _above(reached, delta)
        # As in `epsilon`: the distribution tells little of very many steps.
        if above > 0:
            of_orders = of_renyi(
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
    """Return sigma of one Gaussian step, if epsilon is large by `of_mu`'s bound."""
    if epsilon < LARGE:
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
