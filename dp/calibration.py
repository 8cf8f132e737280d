"""The least noise that keeps reconstruction below a probability.

Protection from reconstruction needs less noise than protection from membership
inference: `Calibration.epsilon` tells what epsilon the calibrated run has, often far
above what anyone would call private.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from scipy import optimize, special

from dp import accounting, bounds, domain, poisson
from dp.domain import Number
from dp.mechanisms import Gaussian, Mechanism, PoissonGaussian
from dp.participation import FixedSizeGaussian
from dp.rero import ReRoBound, rero_bound
from dp.sampling import Batches

Sampled = TypeVar("Sampled", PoissonGaussian, FixedSizeGaussian)
_BRACKET, _STEP, _TOLERANCE, _MARGIN = 0.2, 1e-2, 1e-4, 3e-6  # of log sigma
_LEAST = 0.05  # sigma, where batches are sampled
_ROUNDING = (
    1e-2  # of the privacy loss, steps times grid^2: beyond, a grid is too coarse
)
_EVALUATIONS = 40  # on the fine grid; secants take 2 to 6
# Of sigma, where a bound that is verified fails: steps grow 16-fold up to here, then by
# a quarter, as far from the root a grid may say nothing.
_LARGE_STEP = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """A noise multiplier, and the bound that was verified for it.

    Attributes:
      noise_multiplier: sigma; 0 where no noise is needed, as the target is sampled too
        seldom.
      bound: the bound on reconstruction at that sigma, computed again after rounding
        up.
      epsilon, delta: the parameters of differential privacy at that sigma; epsilon is
        infinite where it is 0.
    """

    noise_multiplier: float
    bound: ReRoBound
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        domain.at_least_0("noise_multiplier", self.noise_multiplier)
        domain.at_least_0("epsilon", self.epsilon)
        domain.between("delta", self.delta, 0, 1)


def calibrate(
    gamma: Number,
    *,
    relation: str,
    steps: int | None = None,
    sampling_probability: Number = 1.0,
    batches: Batches | None = None,
    kappa: Number | None = None,
    log_kappa: Number | None = None,
    delta: Number = 1e-5,
) -> Calibration:
    """Find the smallest noise multiplier with P[reconstruction] <= gamma.

    Args:
      gamma: allowed probability of success, in (0, 1].
      relation: the neighbouring relation, one of `dp.bounds.RELATIONS`; "zero_out" is
        always valid.
      steps: the number of training steps; either this, or `batches`.
      sampling_probability: probability of a record to be in a step; 1 for full batches.
        It is secret Poisson sampling.
      batches: how training draws its batches, in other words.
      kappa, log_kappa: success without the release; exactly one.
      delta: the delta at which epsilon is reported.
    Raises: ValueError: gamma <= kappa, which no noise reaches; other arguments outside
      their range.
    """
    domain.choice("relation", relation, bounds.RELATIONS)
    if batches is not None:
        if steps is not None or sampling_probability != 1:
            raise domain.FieldError(
                "batches", "Expected either {} or steps, which say the same. Drop one."
            )
        steps, sampling_probability = batches.steps, batches.sampling_probability
        if batches.sampling == "shuffled":
            batches.mechanism(noise_multiplier=1.0, relation=relation)
            steps, sampling_probability = batches.epochs, 1.0
    steps = domain.integer("steps", steps, 1)
    base = float(domain.baseline(kappa, log_kappa))
    domain.above("log_kappa", base, -math.inf)
    domain.above("gamma", gamma, 0)
    wanted = math.log(float(domain.probability("gamma", gamma)))
    if wanted <= base:
        raise domain.FieldError(
            "gamma",
            f"Expected {{}} > kappa = {math.exp(base):.3g}, got {gamma!r}: that often"
            " an attack succeeds without the release.",
        )
    q = float(domain.share("sampling_probability", sampling_probability))
    domain.between("delta", delta, 0, 1)
    fixed = batches is not None and batches.sampling == "fixed"
    amplified = q < 1 and (fixed or relation != "replace_one")
    without = float(poisson.never_sampled(base, q, steps)) if amplified else 0.0
    if without <= wanted:
        bound = ReRoBound(
            log_kappa=np.asarray(base),
            log_gamma=np.asarray(without),
            by=np.asarray("never sampled" if amplified else "any attack"),
            all={},
        )
        return Calibration(
            noise_multiplier=0.0, bound=bound, epsilon=math.inf, delta=float(delta)
        )
    full = _full_batch(base, wanted, steps, relation)
    if batches is not None and fixed and q < 1:
        return _fixed_size(batches, relation, full, base, wanted, gamma, delta)

    def run(sigma: float, grid: float = poisson.FINE) -> PoissonGaussian:
        return PoissonGaussian(
            noise_multiplier=sigma,
            sampling_probability=q,
            steps=steps,
            relation=relation,
            grid=grid,
        )

    if not amplified:
        return _report(*_verified(run, full, base, wanted, gamma), delta)

    def excess(log_sigma: float, grid: float | None) -> float:
        mechanism: Mechanism = run(math.exp(log_sigma), grid or poisson.FINE)
        if grid is None and isinstance(mechanism, PoissonGaussian):
            mechanism = mechanism.renyi(np.asarray(base))
        return float(rero_bound(mechanism, log_kappa=base).log_gamma) - wanted

    sigma = math.exp(_root(excess, math.log(full), steps))
    return _report(*_verified(run, sigma, base, wanted, gamma), delta)


def _fixed_size(
    batches: Batches,
    relation: str,
    full: float,
    log_kappa: float,
    log_gamma: float,
    gamma: Number,
    delta: Number,
) -> Calibration:
    """Find the least sigma of batches of fixed size, given that of full batches.

    Where replacing isn't asked for, the least of two: by known batches, and twice that
    of Poisson sampling. Both are solved for apart, since that is faster.
    """

    def run(sigma: float) -> FixedSizeGaussian:
        fixed = batches.mechanism(noise_multiplier=sigma, relation=relation)
        assert isinstance(fixed, FixedSizeGaussian)
        return fixed

    def excess(log_sigma: float) -> float:
        mechanism: Mechanism = run(math.exp(log_sigma))
        if relation != "replace_one":
            mechanism = run(math.exp(log_sigma)).known
        return float(rero_bound(mechanism, log_kappa=log_kappa).log_gamma) - log_gamma

    high = math.log(full)
    low = high - 1.0
    while excess(low) <= 0:
        low, high = low - 1.0, low
    sigma = full
    if excess(high) <= 0:
        sigma = math.exp(optimize.brentq(excess, low, high, xtol=1e-9) + 2e-9)
    if relation != "replace_one":
        poisson_run = run(sigma).removal
        alone = calibrate(
            gamma,
            relation=poisson_run.relation,
            steps=poisson_run.steps,
            sampling_probability=poisson_run.sampling_probability,
            log_kappa=log_kappa,
        )
        sigma = min(sigma, 2 * alone.noise_multiplier)
    return _report(*_verified(run, sigma, log_kappa, log_gamma, gamma), delta)


def _full_batch(log_kappa: float, log_gamma: float, steps: int, relation: str) -> float:
    """Return sigma for full batches, in closed form."""
    one = Gaussian(noise_multiplier=1.0, steps=steps, relation=relation)
    gap = float(special.ndtri_exp(log_gamma) - special.ndtri_exp(log_kappa))
    if gap <= one.mu / np.finfo(float).max:
        raise domain.FieldError(
            "gamma", "Expected {} to be above kappa by more than rounding."
        )
    return one.mu / gap


def _root(
    excess: Callable[[float, float | None], float], high: float, steps: int
) -> float:
    """Find log sigma where excess on the fine grid is 0, or just below.

    From above by Renyi divergences, which take no time (grid None); then on the coarse
    grid, where its rounding adds up to little over the steps; then on the fine one.

    Args:
      excess: a function of log sigma that falls.
      high: a log sigma at which excess is at most 0.
    """
    least = math.log(_LEAST)
    low = high - math.log(2)
    while excess(low, None) <= 0 and low > least:
        low, high = low - math.log(2), low
    if excess(low, None) > 0 >= excess(high, None):
        high = optimize.brentq(excess, low, high, args=(None,), xtol=_TOLERANCE)
    grid = poisson.COARSE if steps * poisson.COARSE**2 < _ROUNDING else None
    if grid is not None:
        low = high - _BRACKET
        while excess(low, grid) <= 0:
            if low < least:
                return low
            low, high = low - math.log(2), low
        if excess(high, grid) > 0:
            return high
        high = optimize.brentq(excess, low, high, args=(grid,), xtol=_TOLERANCE)
    slope = -excess(high - _STEP, grid) / _STEP
    return _polished(lambda x: excess(x, poisson.FINE), high, min(slope, -_STEP), least)


def _polished(
    excess: Callable[[float], float], start: float, slope: float, least: float
) -> float:
    """Find log sigma with excess 0 or at most `_MARGIN` below: secants in a bracket.

    Args:
      excess: a function of log sigma that falls.
      start, slope: log sigma near the root, and about how excess changes there.
      least: the smallest log sigma that is tried.
    """
    low, high = -math.inf, math.inf
    at, before = start, (math.nan, math.nan)
    for _ in range(_EVALUATIONS):
        value = excess(at)
        if -2 * _MARGIN * abs(slope) <= value <= 0 or (value <= 0 and at < least):
            return at
        low, high = (at, high) if value > 0 else (low, at)
        measured = (value - before[1]) / (at - before[0])
        slope = measured if measured < 0 else slope
        before = at, value
        at -= value / slope
        at += _MARGIN
        if not low < at < high:
            far = math.isinf(low) or math.isinf(high)
            at = before[0] + math.copysign(_BRACKET, value) if far else (low + high) / 2
    return high if math.isfinite(high) else at


def _verified(
    run: Callable[[float], Sampled],
    sigma: float,
    log_kappa: float,
    log_gamma: float,
    gamma: Number,
) -> tuple[Sampled, ReRoBound]:
    """Return the first sigma from here on, in growing steps, whose bound holds."""
    step = 1e-9
    while True:
        bound = rero_bound(run(sigma), log_kappa=log_kappa)
        if bound.log_gamma <= log_gamma and bound.gamma <= gamma:
            return run(sigma), bound
        sigma *= 1 + step
        step *= 16 if step < _LARGE_STEP else 1.25


def _report(run: Sampled, bound: ReRoBound, delta: Number) -> Calibration:
    """Attach the accountant's epsilon to a verified bound."""
    return Calibration(
        noise_multiplier=float(run.noise_multiplier),
        bound=bound,
        epsilon=accounting.epsilon(run, delta),
        delta=float(delta),
    )
