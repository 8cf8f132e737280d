"""A completed missing row, with the evidence that it is the right one.

`lattice` and `guess_search` return it to `span_attack`, `lattice` also to `linear_fit`.
"""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

# Decimal digits by which equations must exceed the unknowns before a row counts as
# certain: if other rows were random, one in a billion would fit.
SURE = 9.0
# Share of a row's largest entry: a value with a larger error is only an estimate.
PRECISION = 1e-6
# What every certificate by levels assumes; see `Completion.premise`.
PREMISE = "each of its values is one that the known rows' columns take"
# The volume of a ball of radius r sqrt(m) in m dimensions is below this times r, to the
# power of m (Stirling).
_BALL = float(np.sqrt(2 * np.pi * np.e))


def digits(equations: int, distance: float) -> float:
    """Return the decimal digits to which all equations together agree with a grid.

    Grid rows that are unrelated to the span lie evenly around it, so the expected
    number at most this far away is the volume of a ball of this radius, with a
    dimension per equation. The result is minus its log10.

    Args:
      equations: number of equations minus number of unknowns.
      distance: root mean square residual of the equations, in steps of the grid.
    """
    chance = min(_BALL * max(distance, 1e-12), 1.0)
    return -equations * float(np.log10(chance))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Completion:
    """A complete row, and the evidence for it."""

    row: Float[np.ndarray, " features"]
    # Whether equations that weren't needed to find the row agree with it, given the
    # premise.
    certified: bool
    determined: Bool[np.ndarray, " features"]  # the columns that equations determine
    why: str  # what the certificate rests on, or why there is none, in a sentence
    error: float = 0.0  # of a certified row: a bound, as a share of its largest entry
    # What the certificate assumes about the row that no equation shows. Multiples and
    # mirror images of the row satisfy the same equations.
    premise: str = ""
