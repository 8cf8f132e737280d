"""The missing training row, as far as a fitted model gives it away."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from informed.attacks.closed_form.theorems import GlmReconstruction

EPS = float(np.finfo(np.float64).eps)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RowReconstruction:
    """What a fitted linear model tells of the one row that is not known.

    Attributes:
      value: (features,) float64, the row in the units of the known rows. Behind a
        vectoriser: one value a word of its vocabulary.
      y: the row's label or output; None: nothing decides it.
      certified: whether the model itself confirms `value`: equations hold that a wrong
        known row would violate, as `why` says. It does not cover `y`.
      error: (features,), how far `value` may be off, given that the known rows are the
        right ones; infinity where nothing bounds it.
      by: what read the row: "scaler means", "span" or "closed form".
      why: what the certificate rests on, or why there is none.
      words: the words of the missing text, where rows are texts; else None.
      candidates: the two possible rows of a model without intercept (Theorem 8).
    """

    value: Float[np.ndarray, " features"]
    y: Any = None
    certified: bool = False
    error: Float[np.ndarray, " features"]
    by: str
    why: str
    words: frozenset[str] | None = None
    candidates: tuple[GlmReconstruction, ...] = ()


def spread(known: np.ndarray) -> Float[np.ndarray, " features"]:
    """Each column's standard deviation; its size where it is constant; never zero."""
    deviation = known.std(axis=0)
    size = np.abs(known).max(axis=0, initial=0.0)
    scale = np.where(deviation > 1e-9 * size, deviation, size)
    return np.where(scale > 0, scale, 1.0)
