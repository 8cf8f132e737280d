"""Whether training is chaotic: twins of a record lead to unrelated weights.

Such training may withstand the attacks here, and nothing bounds what another attack
would find. The record's way to another public record is the measure: how far do the
weights move on a small part of that way, in units of what this part of the way would be
worth if they moved in proportion? About 1 for smooth training; a few for ReLU and for
Adam, whose kinks cancel out along the way; as much as one over the part in chaos, where
models of a record and of its twin are as far apart as models of two records.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from shadow.data import Examples

PAIRS = 8
PARTS = (1e-2, 1e-4)  # of the way: what decides; what tells the exponent
_CHAOTIC = 10.0  # full batches stay below 6 on digits and MNIST, kinked or not
_SATURATED = 0.1  # of the distance between models of two records


@dataclasses.dataclass(frozen=True, kw_only=True)
class Instability:
    """How much further the weights move than a small change is worth.

    Attributes:
      growth: at a hundredth of the way, the median over pairs of records.
      exponent: ln of the growth at a ten-thousandth of the way: the finite-time
        Lyapunov exponent, over the whole training.
      saturated: the exponent is at least that; differences can't grow further.
    """

    growth: float
    exponent: float
    saturated: bool

    @property
    def chaotic(self) -> bool:
        """Whether small changes move the weights like large ones."""
        return self.growth >= _CHAOTIC

    @property
    def words(self) -> str:
        """The exponent, for a sentence."""
        return f"{'at least ' if self.saturated else ''}{self.exponent:.1f}"


def trainings(public: Examples) -> int:
    """How many `measure` runs."""
    return _pairs(public) * (2 + len(PARTS))


def measure(runs: Callable, public: Examples) -> Instability | None:
    """Train on public records and on their near twins.

    Args:
      runs: of A, a `shadow.parallel.Runs`; equal arguments have to give equal weights.
      public: records, at least two.
    Returns: None where the weights say nothing of the record.
    """
    pairs = _pairs(public)
    images = public.images[: 2 * pairs].astype(np.float64)
    here, there = images[:pairs], images[pairs:]
    places = [here, there, *(here + part * (there - here) for part in PARTS)]
    found = runs(
        np.concatenate(places)[:, None],
        np.tile(public.labels[:pairs], len(places))[:, None],
        np.zeros(pairs * len(places), int),
    )
    thetas = np.asarray(found, np.float64).reshape(len(places), pairs, -1)
    whole, *small = np.linalg.norm(thetas[1:] - thetas[0], axis=2)
    if not np.isfinite(thetas).all() or not np.median(whole):
        return None
    growths = [
        _typical(moved, whole) / part for moved, part in zip(small, PARTS, strict=True)
    ]
    return Instability(
        growth=growths[0],
        exponent=math.log(max(*growths, np.finfo(float).tiny)),
        saturated=bool(growths[-1] * PARTS[-1] > _SATURATED),
    )


def _pairs(public: Examples) -> int:
    return min(PAIRS, len(public) // 2)


def _typical(
    moved: Float[np.ndarray, " pairs"], whole: Float[np.ndarray, " pairs"]
) -> float:
    """The median share of the whole way, over the pairs whose weights differ."""
    return float(np.median(moved[whole > 0] / whole[whole > 0]))
