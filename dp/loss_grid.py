"""Privacy loss distributions on an even grid: delta of epsilon, and epsilon of delta.

`mechanisms` and `published` call `epsilon`, `delta` and `curve`, `poisson` and
`allocation` call `composed`.

The privacy loss of a pair of distributions is log(upper / lower), drawn from the upper
one. dp-accounting composes its distribution over the steps of training; here

    delta(epsilon) = infinite + sum over losses l > epsilon of P(l) (1 - e^(epsilon-l))

holds between the points of the grid too. dp-accounting computes the same in a loop over
all epsilons, which was 70 % of the time to compute an epsilon. `epsilon`, `delta` and
`curve` round up by the floating-point error of composition.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from dp import domain
from dp.domain import Number

# PrivacyLossDistribution; importing it takes a second, and closed forms don't need it.
Distribution = Any
TAIL = 1e-15  # probability that dp-accounting may cut off at either end
LONGEST = 4e6  # points of a distribution; beyond, its grid is made coarser
# Error of composition by FFT: the least, and per step. Against the closed form of full
# batches it was at most 1e-15 for 1,000 steps, 1e-13 for 10,000, 5e-11 for a million.
_ROUND_OFF, _ROUND_OFF_A_STEP = 1e-14, 4e-16
# Points of `curve`. Between two of them `bounds.dual` is too large by at most
# (3e-3)^2 / 8 of itself.
_EPSILONS = np.concatenate([np.linspace(-20, -3, 200), np.arange(-3, 40, 3e-3)])


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LossGrid:
    """The distribution of a privacy loss on multiples of a spacing.

    Attributes:
      spacing: the distance of two losses, in nats.
      first: the least loss is `first * spacing`.
      masses: the probability of each loss.
      infinite: the probability of an infinite loss.
    """

    spacing: float
    first: int
    masses: Float[np.ndarray, " losses"]
    infinite: float

    @functools.cached_property
    def _tails(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return losses l_k, sums of P(l), and of P(l) e^(l_k - l), over l >= l_k."""
        from scipy import signal  # a third of a second, which closed forms don't need

        backwards = self.masses[::-1]
        upper = np.cumsum(backwards)[::-1]
        lower = signal.lfilter([1.0], [1.0, -math.exp(-self.spacing)], backwards)
        losses = (self.first + np.arange(len(upper))) * self.spacing
        return losses, upper, lower[::-1]

    def deltas(self, epsilons: Float[np.ndarray, " many"]) -> np.ndarray:
        """Return delta at every epsilon; epsilons may be negative."""
        losses, upper, lower = self._tails
        k = np.searchsorted(losses, epsilons)
        at = np.minimum(k, len(losses) - 1)
        with np.errstate(over="ignore"):
            gaps = np.exp(np.minimum(epsilons - losses[at], 0.0))
        inside = np.where(k < len(losses), upper[at] - lower[at] * gaps, 0.0)
        return self.infinite + inside

    def epsilon(self, delta: Number) -> float:
        """Return the least epsilon >= 0 with that delta; infinite where none has it."""
        losses, upper, lower = self._tails
        deltas = self.infinite + upper - lower
        above = np.flatnonzero(~(deltas <= delta))  # NaN counts as too much
        if self.infinite > delta or (above.size and np.isnan(deltas[above]).any()):
            return math.inf
        k = above[-1] + 1 if above.size else 0
        excess = self.infinite + upper[k] - delta if k < len(losses) else 0.0
        if excess > 0:
            at = float(losses[k]) + math.log(excess / lower[k])
        else:
            at = float(losses[k - 1]) if k else 0.0
        return max(0.0, at + 1e-12 * abs(at))


def composed(one: Distribution, times: int) -> Distribution:
    """Return the privacy losses of so many steps or epochs, each with losses `one`."""
    return one if times == 1 else one.self_compose(times, tail_mass_truncation=TAIL)


@functools.lru_cache(maxsize=32)
def grids(distribution: Distribution) -> tuple[LossGrid, LossGrid]:
    """Return the losses of dp-accounting's distribution: (of removal, of addition).

    For removal the upper distribution is training with the target, the lower without.
    """
    remove = _grid(distribution._pmf_remove)
    return remove, remove if distribution._symmetric else _grid(distribution._pmf_add)


def _grid(pmf: Any) -> LossGrid:
    dense = pmf.to_dense_pmf()
    return LossGrid(
        spacing=float(dense._discretization),
        first=int(dense._lower_loss),
        masses=np.asarray(dense._probs, float),
        infinite=float(dense._infinity_mass),
    )


@functools.lru_cache(maxsize=32)
def curve(
    distribution: Distribution, steps: int = 1, *, removal: bool = False
) -> tuple[Float[np.ndarray, " many"], Float[np.ndarray, " many"]]:
    """Return (epsilons, deltas) of a privacy loss distribution, for `bounds.dual`.

    Below a bound of about 1e-12 (1e-9 for a million steps) the rounding of its
    composition hides the truth; the bound stays valid there, but `bounds.renyi` is
    sharper.

    Args:
      steps: the number of steps that were composed; 1 if it isn't known. Then only a
        delta below 0, which exact arithmetic can't give, shows rounding.
      removal: whether to use the loss of removal alone, which suffices for
        reconstruction. False: the larger delta of removal and addition.
    """
    deltas = _deltas(grids(distribution)[: 1 if removal else 2], _EPSILONS)
    largest = deltas.max(axis=0) + _rounding(deltas, steps)
    return _EPSILONS, np.clip(largest, 0, 1)


def epsilon(distribution: Distribution, steps: int, delta: Number) -> float:
    """Return the least epsilon at delta, rounded up by the error of composition.

    Infinite where that error is more than delta.
    """
    least = float(domain.between("delta", delta, 0, 1)) - rounding(distribution, steps)
    if not least > 0:
        return math.inf
    return max(one.epsilon(least) for one in grids(distribution))


def delta(distribution: Distribution, steps: int, epsilon: Number) -> float:
    """Return the least delta at epsilon, rounded up by the error of composition."""
    at = np.array([domain.one_epsilon(epsilon)])
    largest = float(_deltas(grids(distribution), at).max())
    return min(1.0, largest + rounding(distribution, steps))


def rounding(distribution: Distribution, steps: int) -> float:
    """Bound by how much a delta of `steps` composed steps may be too small.

    That is the floating-point error of composition, which pessimistic rounding of the
    grid doesn't cover.
    """
    return _rounding(_deltas(grids(distribution), _EPSILONS), steps)


def _deltas(of: tuple[LossGrid, ...], epsilons: np.ndarray) -> np.ndarray:
    """Return deltas; where all mass overflows there are NaNs, and 1 is always valid."""
    return np.nan_to_num([one.deltas(epsilons) for one in of], nan=1.0)


def _rounding(deltas: np.ndarray, steps: int) -> float:
    """Bound the rounding of deltas; one below 0 shows it."""
    steps = domain.integer("steps", steps, 1)
    negative = -4 * float(deltas.min())
    return max(_ROUND_OFF, steps * _ROUND_OFF_A_STEP, negative)
