"""A row completed from its direction, with the evidence for it."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

# Decimal digits by which equations must outnumber what is unknown before a row counts
# as certain: one wrong row in a billion, had the others been drawn at random.
SURE = 9.0
# Of a row's largest entry: a value that is known less closely is an estimate.
PRECISION = 1e-6
# The volume of a ball of radius r sqrt(m) in m dimensions is below this times r, to the
# power of m (Stirling).
_BALL = float(np.sqrt(2 * np.pi * np.e))


def digits(equations: int, distance: float) -> float:
    """Count the decimal digits to which all equations together agree with a grid.

    Rows of the grid that have nothing to do with the span lie evenly around it, one a
    unit of volume. As many of them come as near as the volume of a ball of that radius
    says, in as many dimensions as there are equations.

    Args:
      equations: how many there are more than unknowns.
      distance: root mean square of what is left of them, in steps of the grid.
    """
    chance = min(_BALL * max(distance, 1e-12), 1.0)
    return -equations * float(np.log10(chance))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Completion:
    """A complete row, and the evidence for it.

    Attributes:
      row: (features,), the missing row.
      certified: whether equations that weren't needed to find the row agree with it,
        given the premise. Of bags of words it is what the row adds to known ones that
        it may hold whole.
      determined: (features,) bool, the columns that the equations settle.
      by: how it was completed: "levels", "sparsity", "training".
      why: what the certificate rests on, or why there is none, in a sentence.
      premise: what the certificate takes for granted of the row and no equation shows.
        Neither sign nor length of a direction is known, so a multiple or a mirror image
        of the row satisfies the same equations.
      error: of the row's largest entry: how far the row may be off where it is
        certified.
    """

    row: Float[np.ndarray, " features"]
    certified: bool
    determined: Bool[np.ndarray, " features"]
    by: str
    why: str
    error: float = 0.0
    premise: str = ""
