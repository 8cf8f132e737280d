"""What is known of a missing row, feature by feature."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Determined:
    """What a fitted estimator tells of the row that is not among the known ones.

    Every statement is certain under the assumptions of `replay`, or isn't made.

    Attributes:
      lower: (features,), the row's values are at least these; -inf where nothing is
        told.
      upper: (features,), the row's values are at most these; +inf where nothing is
        told.
      determined: (features,), whether only one value is left. Trees work on float32:
        there it is the number whose rounding to float32 is certain, and [lower, upper]
        holds all float64 numbers that round to it. Histogram boosting works on float64.
      value: (features,), the value; NaN where it isn't determined. Of all numbers that
        round to the same float32, the one with the fewest decimal digits, which a table
        of at most six significant digits holds.
      label: the row's label as the estimator's `fit` received it, None where it isn't
        told. Of a regression: a float, up to its rounding in the stored means.
      positions: where in the training set the row can be; empty: nowhere, so the known
        rows aren't those of this estimator, or in another order.
      certified: True: every tree, fitted again with the row put back (some point of the
        interval where only that is known), is the stored one. False: no missing row
        explains the counts and thresholds, with all its values or without some. None:
        not checked, or can't be told.
      notes: what limits the answer, one line each.
    """

    lower: Float[np.ndarray, " features"]
    upper: Float[np.ndarray, " features"]
    determined: Bool[np.ndarray, " features"]
    value: Float[np.ndarray, " features"]
    label: Any = None
    positions: Int[np.ndarray, " positions"]
    certified: bool | None = None
    notes: tuple[str, ...] = ()

    @property
    def replays(self) -> bool:
        """Whether the known rows and some missing one explain the estimator."""
        return len(self.positions) > 0


def nothing(features: int, note: str, *, certified: bool | None = False) -> Determined:
    """No position replays; says why."""
    return Determined(
        lower=np.full(features, -np.inf),
        upper=np.full(features, np.inf),
        determined=np.zeros(features, bool),
        value=np.full(features, np.nan),
        positions=np.zeros(0, np.int64),
        certified=certified,
        notes=(note,),
    )
