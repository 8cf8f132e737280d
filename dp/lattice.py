"""Distributions of sums of likelihood ratios on a lattice, for `allocation`.

Every divergence of privacy is the mean of a convex function of a likelihood ratio, such
as (L - e^epsilon)_+ and (1 - e^epsilon L)_+ of delta in both directions. So a
distribution with the same mean that is more spread out (larger in convex order) bounds
all of them from above, and convex order survives sums of independent variables. Here a
value is spread on the two points of the lattice next to it so that its mean stays;
values beyond either end are spread on 0 and infinity. Apart from floating-point
rounding, nothing else is approximate.

The lattice is that of floating-point numbers: 0 and 2^k (1 + i / m), i = 0 ... m - 1.
Within an octave it is even, so sums are by FFT, octave by octave, whose rounding is
small beside the mass of the octave.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float
from scipy import fft, special

_DROPPED = 1e-20  # mass of an octave at either end that is spread on 0 and infinity
_QUANTILE = 8.5  # of a standard normal: 1e-17 is beyond


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Lattice:
    """A distribution on the lattice: of a sum of likelihood ratios with means of 1.

    Attributes:
      zero: the mass at 0.
      low: the first octave begins at 2^low.
      octaves: the mass at each point of each octave.
      infinite: the share of the mean that lies at infinity.
      terms: the number of ratios in the sum.
    """

    zero: float
    low: int
    octaves: Float[np.ndarray, "octaves points"]
    infinite: float
    terms: int

    @property
    def values(self) -> Float[np.ndarray, "octaves points"]:
        """Return the points of the lattice."""
        many, m = self.octaves.shape
        return np.exp2(self.low + np.arange(many))[:, None] * (1 + np.arange(m) / m)

    @property
    def rounding(self) -> float:
        """Return how far rounding has moved the total mass and the mean."""
        mass = self.zero + self.octaves.sum()
        mean = (np.sum(self.octaves * self.values) + self.infinite) / self.terms
        return float(abs(mass - 1) + abs(mean - 1))


def lognormal(sigma: float, terms: int, points: int) -> Lattice:
    """Return exp((2 x - 1) / (2 sigma^2)), x of N(0, sigma^2), spread on the lattice.

    Args:
      terms: the number of copies that will be summed; it decides what is negligible.
      points: m, the points of an octave.
    """
    shift = 0.5 / sigma**2
    # All terms are below this quantile with a probability of 1e-17.
    least = special.ndtri(math.exp(-39 / terms)) / sigma - math.log(points)
    low = math.floor((max(-_QUANTILE / sigma, least) - shift) / math.log(2))
    high = math.ceil((_QUANTILE / sigma + shift) / math.log(2))
    body = np.zeros((high - low + 1, points))
    empty = Lattice(zero=0.0, low=low, octaves=body, infinite=0.0, terms=1)
    ends = empty.values[:-1].ravel()
    ends = np.concatenate([[0.0], ends, [2.0**high, np.inf]])
    with np.errstate(divide="ignore"):
        z = sigma * (np.log(ends) + shift)
    chances, means = _cells(z), _cells(z - 1 / sigma)
    low_end, high_end = ends[:-2], ends[1:-1]
    width = high_end - low_end
    downwards = (high_end * chances[:-1] - means[:-1]) / width
    upwards = (means[:-1] - low_end * chances[:-1]) / width
    mass = np.append(np.maximum(downwards, 0), chances[-1])
    mass[1:] += np.maximum(upwards, 0)
    body[:-1] = mass[1:-1].reshape(-1, points)
    body[-1, 0] = mass[-1]
    beyond = max(0.0, float(means[-1] - ends[-2] * chances[-1]))
    return _trimmed(float(mass[0]), low, body, beyond, 1)


def _cells(z: np.ndarray) -> np.ndarray:
    """Return the probability of a standard normal in each cell, exact in both tails."""
    below, above = z[:-1], z[1:]
    left = special.ndtr(above) - special.ndtr(below)
    return np.where(below > 0, special.ndtr(-below) - special.ndtr(-above), left)


def total(one: Lattice, terms: int) -> Lattice:
    """Return the distribution of the sum of `terms` independent copies."""
    if terms == 1:
        return one
    half = total(one, terms // 2)
    double = _sum(half, half)
    return _sum(double, one) if terms % 2 else double


def _sum(a: Lattice, b: Lattice) -> Lattice:
    """Return the distribution of the sum of two independent variables.

    Octave k adds the pairs with one value in it and the other below its end. Values
    below octave k are kept on the lattice of octave k.
    """
    m = a.octaves.shape[1]
    low = min(a.low, b.low)
    high = max(v.low + len(v.octaves) for v in (a, b))
    body = np.zeros((high - low + 2, m))
    below_a, below_b = np.zeros(2 * m + 1), np.zeros(2 * m + 1)
    below_a[0], below_b[0] = a.zero, b.zero
    size = fft.next_fast_len(3 * m + 1, real=True)
    for k in range(low, high):
        in_a, in_b = _octave(a, k), _octave(b, k)
        up_to_a, up_to_b = below_a.copy(), below_b.copy()
        up_to_a[m : 2 * m] += in_a
        up_to_b[m : 2 * m] += in_b
        product = fft.rfft(in_a, size) * fft.rfft(up_to_b, size)
        product += fft.rfft(in_b, size) * fft.rfft(below_a, size)
        sums = np.maximum(fft.irfft(product, size)[: 3 * m + 1], 0.0)
        body[k - low] += sums[:m]
        above = _coarser(sums[m:])
        body[k - low + 1] += above[:m]
        body[k - low + 2, 0] += above[m]
        below_a[: m + 1], below_b[: m + 1] = _coarser(up_to_a), _coarser(up_to_b)
        below_a[m + 1 :], below_b[m + 1 :] = 0.0, 0.0
    zero, infinite = a.zero * b.zero, a.infinite + b.infinite
    mass = zero + body.sum()  # 1, but for rounding
    return _trimmed(zero / mass, low, body / mass, infinite, a.terms + b.terms)


def _octave(law: Lattice, k: int) -> np.ndarray:
    inside = 0 <= k - law.low < len(law.octaves)
    return law.octaves[k - law.low] if inside else np.zeros(law.octaves.shape[1])


def _coarser(masses: np.ndarray) -> np.ndarray:
    """Spread each second point of an even lattice on its two neighbours."""
    result, halves = masses[::2].copy(), masses[1::2] / 2
    result[:-1] += halves
    result[1:] += halves
    return result


def _trimmed(
    zero: float, low: int, body: np.ndarray, infinite: float, terms: int
) -> Lattice:
    """Spread octaves at either end that hold next to nothing on 0 and infinity."""
    law = Lattice(zero=zero, low=low, octaves=body, infinite=infinite, terms=terms)
    masses, means = body.sum(axis=1), np.sum(body * law.values, axis=1)
    kept = np.flatnonzero((masses >= _DROPPED) | (means >= _DROPPED * terms))
    first, last = kept[0], kept[-1] + 1
    return Lattice(
        zero=zero + masses[:first].sum() + masses[last:].sum(),
        low=low + int(first),
        octaves=body[first:last],
        infinite=infinite + means[:first].sum() + means[last:].sum(),
        terms=terms,
    )
