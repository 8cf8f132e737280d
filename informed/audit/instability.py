"""Whether training is chaotic: twins of a record lead to unrelated weights.

Such training may withstand the attacks here, and nothing bounds what another attack
would find. A twin of a record lies a small part of the way to another public record.
The measure is how far a weight moves from the record's model to its twin's, over what
that part of the way would be worth if weights moved in proportion. It is about 1 for
smooth training, and a few for ReLU and for Adam, whose kinks cancel out along the way.
In chaos it grows up to one over the part (100 for a hundredth of the way), because the
twin's model is then as far off as that of any other record.

The *typical* weight counts, the median one. In the norm of theta the wildest weights
count, while an attack reads the tame ones: by `benchmarks.chaos` the growth of the
typical weight tells what can be inverted, that of the norm doesn't.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from shadow.data import Examples

PAIRS = 8
# How far a record is moved towards another one, as a share of the way: the first
# decides, the second tells the exponent.
PARTS = (1e-2, 1e-4)
# Growth above which training counts as chaotic: in `benchmarks.chaos` all below 5 were
# inverted, of those above 10 three of 26.
_CHAOTIC = 7.0
# Share of the distance between models of two records from which on growth says
# nothing, as it can't go on.
_SATURATED = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Instability:
    """How much further the typical weight moves than a small change is worth.

    Attributes:
      growth: at a hundredth of the way, the median over weights and pairs of records.
      exponent: ln of the growth, at a ten-thousandth of the way if it is larger there:
        the finite-time Lyapunov exponent, over the whole training.
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
        """The exponent, as a sentence says it."""
        return f"{'at least ' if self.saturated else ''}{self.exponent:.1f}"

    @property
    def finding(self) -> tuple[str, str]:
        """What a pre-flight says of chaotic training, and what to do."""
        return (
            f"chaotic, exponent {self.words} over the training: a record that"
            " withstands is protected by instability, not by design. A hundredth of the"
            " way to another record moves the typical weight"
            f" {self.growth:.0f} times as far as in proportion",
            "don't rely on it: a longer search or another release may tell; noise in"
            " training has a bound",
        )


def trainings(public: Examples) -> int:
    """Return how many models `measure` trains."""
    return min(PAIRS, len(public) // 2) * (2 + len(PARTS))


def measure(runs: Callable, public: Examples, pairs: int = PAIRS) -> Instability | None:
    """Train on public records and on their near twins, and compare the weights.

    Args:
      runs: of A, a `shadow.parallel.Runs`; equal arguments have to give equal weights.
      public: records, at least two.
      pairs: of records, at most.
    Returns: None where the weights say nothing of the record.
    """
    pairs = min(pairs, len(public) // 2)
    images = public.images[: 2 * pairs].astype(np.float64)
    here, there = images[:pairs], images[pairs:]
    places = [here, there, *(here + part * (there - here) for part in PARTS)]
    weights = runs(
        np.concatenate(places)[:, None],
        np.tile(public.labels[:pairs], len(places))[:, None],
        np.zeros(pairs * len(places), int),
    )
    thetas = np.asarray(weights, np.float64).reshape(len(places), pairs, -1)
    if not np.isfinite(thetas).all():
        return None
    far, *near = np.abs(thetas[1:] - thetas[0])
    if not far.any():
        return None
    # Of the weights that tell two records apart, the median share of the way.
    growths = [
        float(
            np.median(
                [
                    np.median(some[way > 0] / way[way > 0])
                    for some, way in zip(moved, far, strict=True)
                    if way.any()
                ]
            )
        )
        / part
        for moved, part in zip(near, PARTS, strict=True)
    ]
    return Instability(
        growth=growths[0],
        exponent=math.log(max(*growths, np.finfo(float).tiny)),
        saturated=growths[-1] * PARTS[-1] > _SATURATED,
    )
