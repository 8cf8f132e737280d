"""Find the least noise that keeps an attack's success, or epsilon, below a value.

`calibrate` takes gamma, the success that reconstruction may have, or an advantage or an
epsilon. `informed calibrate` and audits (`informed.audit.noise_game`) call it. Noise
that stops reconstruction may leave membership visible: `Calibration.epsilon` is often
far above what anyone would call private.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize, special

from dp import bounds, domain
from dp.domain import Number
from dp.mechanisms import LARGE, Amplified, Gaussian, PoissonGaussian
from dp.rero import ReRoBound, rero_bound, rounded_up
from dp.sampling import Batches, Run

_MARGIN = 3e-6  # log sigma is this exact, on the safe side
_ORDERS_END = 10.0  # in log sigma; farther up, Renyi divergences say no more
_LEAST = math.log(0.02)  # with sampled batches the search ends below this log sigma
_BRACKET, _EVALUATIONS = 0.2, 40  # a step of log sigma; secants need 2 to 6 of the 40


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """A noise multiplier, and the bound, epsilon and delta that hold with it.

    Attributes:
      noise_multiplier: sigma; 0 where no noise is needed: gamma is 1, or the target is
        sampled too seldom.
      mechanism: the run with that noise; where sigma is 0, with the least noise > 0.
      bound: the bound on reconstruction at that sigma; None: no kappa was given.
      epsilon, delta: the parameters of differential privacy at that sigma.
    """

    noise_multiplier: float
    mechanism: Run
    bound: ReRoBound | None
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        domain.at_least_0("noise_multiplier", self.noise_multiplier)
        domain.at_least_0("epsilon", self.epsilon)
        domain.between("delta", self.delta, 0, 1)

    def __str__(self) -> str:
        parts = [f"noise multiplier {rounded_up(self.noise_multiplier, 6)}"]
        parts += [] if self.bound is None else [str(self.bound)]
        epsilon = f"epsilon {rounded_up(self.epsilon, 4)} at delta {self.delta!r}"
        return ", ".join([*parts, f"{epsilon} ({self.mechanism.relation})"])


def calibrate(
    gamma: Number | None = None,
    *,
    advantage: Number | None = None,
    epsilon: Number | None = None,
    relation: str,
    steps: int | None = None,
    sampling_probability: Number = 1.0,
    batches: Batches | None = None,
    kappa: Number | None = None,
    log_kappa: Number | None = None,
    delta: Number = 1e-5,
) -> Calibration:
    """Find the least noise multiplier that keeps one quantity at or below a value.

    Args:
      gamma: the probability of reconstruction, in (0, 1]; needs a kappa.
      advantage: true minus false positives of every test for the target, in (0, 1).
      epsilon: epsilon at delta, > 0. Exactly one of these three is given.
      relation: the neighbouring relation, one of `dp.bounds.RELATIONS`; "zero_out" is
        always valid for reconstruction.
      steps: the number of training steps; either this, or `batches`.
      sampling_probability: q of secret Poisson sampling, the probability of a record to
        be in a step; 1 for full batches.
      batches: how training draws its batches, instead of steps and a probability.
      kappa, log_kappa: success without the release; at most one.
      delta: the delta of epsilon.
    Raises: ValueError: gamma <= kappa, which no noise reaches; other arguments outside
      their range.
    """
    domain.choice("relation", relation, bounds.RELATIONS)
    domain.between("delta", delta, 0, 1)
    asked = {"gamma": gamma, "advantage": advantage, "epsilon": epsilon}
    for name, value in (asked | {"kappa": kappa, "log_kappa": log_kappa}).items():
        if value is not None:
            domain.one(name, value)
    design, full = _design(relation, steps, sampling_probability, batches)
    base = None
    if gamma is not None or kappa is not None or log_kappa is not None:
        base = float(domain.baseline(kappa, log_kappa))
    if sum(value is not None for value in (gamma, advantage, epsilon)) != 1:
        raise domain.FieldError(
            "gamma", "Expected exactly one of {}, advantage and epsilon."
        )
    if gamma is not None:
        assert base is not None
        wanted = _reachable(gamma, base)
        mu = float(special.ndtri_exp(wanted) - special.ndtri_exp(base))
    elif advantage is not None:
        allowed = float(domain.between("advantage", advantage, 0, 1))
        mu = 2 * float(special.ndtri((1 + allowed) / 2))
    else:
        assert epsilon is not None
        allowed = float(domain.finite_above("epsilon", epsilon, 0))
        mu = _mu_of(allowed, float(delta))

    def measure(run: Any) -> float:
        """Return how far a run is above what is allowed, in logs; <= 0: it suffices."""
        if gamma is None:
            reached = run.epsilon(delta) if advantage is None else run.advantage()
            if reached <= allowed:
                return math.log(max(reached, 1e-300) / allowed)
            # Finite, and > 0 where it is larger or NaN.
            ratio = reached / allowed
            return max(1e-300, math.log(ratio)) if 1 < ratio < math.inf else 700.0
        bound = rero_bound(run, log_kappa=base)
        above = float(bound.log_gamma) - wanted
        return 1e-300 if above <= 0 and bound.gamma > float(gamma) else above

    if full.mu / np.finfo(float).max >= mu:
        raise domain.FieldError(
            next(name for name, value in asked.items() if value is not None),
            "Expected {} to be larger: no finite noise reaches it.",
        )
    sigma, run = 0.0, design(noise_multiplier=float(np.finfo(float).tiny))
    if mu < math.inf and measure(run) > 0:
        near = np.asarray(math.log(delta) if base is None else base)

        @functools.cache
        def excess(log_sigma: float) -> float:
            return measure(design(noise_multiplier=math.exp(log_sigma)))

        def by_renyi(log_sigma: float) -> float:
            run = design(noise_multiplier=math.exp(log_sigma))
            assert isinstance(run, Amplified)
            return measure(run.renyi(near))

        rough = by_renyi if isinstance(run, Amplified) else excess
        sigma = math.exp(_smallest(excess, rough, math.log(full.mu / mu)))
        run = design(noise_multiplier=sigma)
    return Calibration(
        noise_multiplier=sigma,
        mechanism=run,
        bound=None if base is None else rero_bound(run, log_kappa=base),
        epsilon=run.epsilon(delta),
        delta=float(delta),
    )


def _design(
    relation: str, steps: int | None, probability: Number, batches: Batches | None
) -> tuple[Callable[..., Run], Gaussian]:
    """Return (sigma -> mechanism, full batches with sigma 1, which protect no more)."""
    design: Callable[..., Run]
    if not isinstance(batches, Batches | None):
        raise domain.FieldError("batches", f"Expected {{}} as dp.Batches: {batches!r}.")
    if batches is None:
        most = domain.integer("steps", steps, 1)
        q = float(domain.share("sampling_probability", probability))
        design = functools.partial(
            PoissonGaussian, sampling_probability=q, steps=most, relation=relation
        )
    elif steps is not None or probability != 1:
        raise domain.FieldError(
            "batches", "Expected either {} or steps, which say the same. Drop one."
        )
    else:
        once = batches.sampling in ("shuffled", "allocation")  # an epoch
        most = batches.epochs if once else batches.steps
        design = functools.partial(batches.mechanism, relation=relation)
        design(noise_multiplier=1.0)  # refuses a relation that has no mechanism
    return design, Gaussian(noise_multiplier=1.0, steps=most, relation=relation)


def _mu_of(epsilon: float, delta: float) -> float:
    """Return mu of one Gaussian step, at most the largest with that epsilon at delta.

    From `LARGE` on it is that of the upper bound of delta in `Gaussian.epsilon`.
    """
    if epsilon < LARGE:
        import dp_accounting

        return 1 / float(dp_accounting.get_sigma_gaussian(epsilon, delta))
    quantile = -float(special.ndtri(delta))
    return math.hypot(quantile, math.sqrt(2) * math.sqrt(epsilon)) - quantile


def _reachable(gamma: Number, base: float) -> float:
    """Return log gamma, or refuse a gamma that isn't above kappa."""
    domain.above("log_kappa", base, -math.inf)
    domain.above("gamma", gamma, 0)
    wanted = math.log(float(domain.probability("gamma", gamma)))
    if wanted <= base:
        raise domain.FieldError(
            "gamma",
            f"Expected {{}} > kappa = {math.exp(base):.3g}, got {gamma!r}. The best"
            " guess without the release succeeds with probability kappa, and no noise"
            " makes that less.",
        )
    return wanted


def _smallest(
    excess: Callable[[float], float], rough: Callable[[float], float], high: float
) -> float:
    """Find the smallest log sigma with excess <= 0; it falls with log sigma.

    `rough` is faster and mostly above excess, or excess itself. `high` is about enough,
    and the result itself where the mechanism gets no credit for sampling.
    """
    begun, step = high, 1e-9
    while rough(high) > 0:
        if rough is not excess and high > begun + _ORDERS_END:
            return _smallest(excess, excess, begun)
        high += step
        step = min(1.0, step * 16)
    if rough is excess and excess(high - _MARGIN) > 0:
        return high
    low = high
    while rough(low) <= 0 and low > _LEAST:
        low, high = low - math.log(2), low
    start = low
    if rough(low) > 0 > rough(high):
        start = optimize.brentq(rough, low, high, xtol=1e-4)
    slope = (rough(start + 1e-2) - rough(start)) / 1e-2
    return _polished(excess, start, min(slope, -1e-2))


def _polished(excess: Callable[[float], float], at: float, slope: float) -> float:
    """Find log sigma near `at` with excess 0 or just below: secants in a bracket."""
    low, high = -math.inf, math.inf
    before = math.nan, math.nan
    for _ in range(_EVALUATIONS):
        value = excess(at)
        if -2 * _MARGIN * abs(slope) <= value <= 0 or (value <= 0 and at < _LEAST):
            return at
        low, high = (at, high) if value > 0 else (low, at)
        measured = (value - before[1]) / (at - before[0])
        slope = measured if measured < 0 else slope
        before = at, value
        at += _MARGIN - value / slope
        if not low < at < high:
            far = math.isinf(low) or math.isinf(high)
            step = math.copysign(_BRACKET, value)
            at = before[0] + step if far else (low + high) / 2
    while not math.isfinite(high):
        at += _BRACKET
        high = at if excess(at) <= 0 else high
    return high
