"""What a completion of a direction to a whole row says of itself."""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

# Decimal digits by which equations must outnumber what is unknown before a row counts
# as certain: one wrong row in a billion, had the others been drawn at random.
SURE = 9.0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Completion:
    """A row, or the name of one.

    Attributes:
      row: (features,), the missing row.
      certified: whether equations that weren't needed to find the row agree with it.
      determined: (features,) bool, the columns that the equations settle.
      by: how it was completed: "levels", "sparsity", "gallery".
      why: what the certificate rests on, or why there is none, in a sentence.
      error: of the row's largest entry: how far the row may be off where it is
        certified.
    """

    row: Float[np.ndarray, " features"]
    certified: bool
    determined: Bool[np.ndarray, " features"]
    by: str
    why: str
    error: float = 0.0
