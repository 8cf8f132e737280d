"""Test on the weights of a few models whether the declared noise is there.

Bounds rely on it, so `preflight` trains the models and asks. Under noise of multiplier
sigma in T steps, the weights of models of two targets are at most as far apart as
N(0, 1) and N(mu, 1), in any direction, with

    mu = 2 sqrt(T) / sigma                 (each record clipped to norm C: 2 C apart)

The direction is learnt from some models; others are projected onto it. For k of them of
each target, the difference of their means over its standard error is

    t = (Z + mu sqrt(k / 2)) / sqrt(V / (2 k - 2)),   Z normal, V chi-squared

so that a low quantile of V and a high one of Z limit mu from below. This takes the
scatter for normal. It can show that noise is missing, not that it is there.
"""

import dataclasses
import math

import numpy as np
from scipy import stats

from informed.audit.findings import Finding

# Confidence to say that noise is missing; confidence of the effect of one record, from
# which `noticed` says how little noise would have shown.
_SURE, _LIKELY = 0.999, 0.9
# Most and fewest k: each target has k models for the direction and k for the test.
MOST, FEWEST = 8, 3


@dataclasses.dataclass(frozen=True)
class Scatter:
    """Lower limits of how far models of two targets are apart, in standard deviations.

    The methods take `allowed`, mu of the declared noise.

    Attributes:
      least: lower confidence limit of mu, at 99.9 %.
      likely: the same at 90 %.
      count: k; 2 k models of each target were trained.
    """

    least: float
    likely: float
    count: int

    def missing(self, allowed: float) -> float:
        """Return how many times too small the noise is at least; 0: it may be right."""
        return self.least / allowed if self.least > allowed else 0.0

    def noticed(self, allowed: float) -> float:
        """Return how many times less noise than there is would be `missing`, or inf."""
        least, most = _quantiles(self.count, _SURE)
        scale = math.sqrt(self.count / 2)
        detected = (allowed * scale + most) / (least * scale)
        return max(1.0, detected / self.likely) if self.likely else math.inf


def judged(measured: Scatter, noise_multiplier: float, steps: int) -> Finding:
    """Return a finding on whether the noise that PRIVACY declares is there."""
    # Mu of models of two targets, whoever takes part in which step.
    allowed = 2 * math.sqrt(steps) / noise_multiplier
    if times := measured.missing(allowed):
        much = f"at least {times:.2g} times" if math.isfinite(times) else "infinitely"
        return Finding(
            level="stops",
            what="the noise that PRIVACY declares isn't there: models of two targets"
            f" are further apart than it allows, so it is {much} too small, or clipping"
            " is missing (confidence 99.9 %, for normal scatter)",
            remedy="add noise of noise_multiplier times clip_norm to the sum of clipped"
            " gradients in every step, or declare what is added",
        )
    factor = measured.noticed(allowed)
    what = (
        "can't tell whether training adds the noise that PRIVACY declares: one record"
        " moves the weights less than chance"
    )
    if math.isfinite(factor):
        what = (
            f"{4 * measured.count} models scatter as the noise that PRIVACY declares"
            " allows. That doesn't show that it is there, as a record may move the"
            f" weights by less than clipping allows: {factor:.2g} times less noise than"
            " these models have would have been noticed"
        )
    return Finding(level="note", what=what)


def scatter(first: np.ndarray, second: np.ndarray) -> Scatter:
    """Return how far models of two targets are apart.

    Args:
      first, second: (2 k, params), weights of models of either target, under keys of
        their own.
    """
    count = len(first) // 2
    direction = first[:count].mean(axis=0) - second[:count].mean(axis=0)
    a, b = first[count:] @ direction, second[count:] @ direction
    spread = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
    gap = float(a.mean() - b.mean())
    if not spread:
        limit = math.inf if gap > 0 else 0.0
        return Scatter(limit, limit, count)
    scale = math.sqrt(count / 2)

    def lower(level: float) -> float:
        least, most = _quantiles(count, level)
        return max(0.0, gap / spread * least - most / scale)

    return Scatter(lower(_SURE), lower(_LIKELY), count)


def _quantiles(count: int, level: float) -> tuple[float, float]:
    """Return limits of sqrt(V / (2 k - 2)) and Z that hold together at a level."""
    freedom, tail = 2 * count - 2, (1 - level) / 2
    least = math.sqrt(stats.chi2.ppf(tail, freedom) / freedom)
    return least, float(stats.norm.isf(tail))
