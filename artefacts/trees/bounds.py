"""What several trees say of one row, put together; columns with few possible values.

Bounds are closed, and of the numbers that the trees compare: float32 for trees, float64
for histogram boosting. "x > t" is therefore "x >= the next such number above t".
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from shadow.checks import FieldError

Attainable = Sequence[np.ndarray | None] | str | None


class ContradictionError(Exception):
    """No row can fulfil this: the hypothesis (a position, a label) is wrong.

    Attributes:
      feature: the index of the feature that has no value left, which a missing value
        can explain; None: the contradiction isn't about a value, and nothing explains
        it.
    """

    def __init__(self, why: str, feature: int | None = None) -> None:
        super().__init__(why)
        self.feature = feature


@dataclasses.dataclass(eq=False)
class Bounds:
    """Closed bounds of one row; narrowed in place, tree after tree.

    Attributes:
      lower: (features,) float64, the row's values are at least these.
      upper: (features,) float64, the row's values are at most these.
      dtype: the type of the numbers that the trees compare.
      absent: indices of features that have no value, by hypothesis; they stay open.
    """

    lower: Float[np.ndarray, " features"]
    upper: Float[np.ndarray, " features"]
    dtype: Any = np.float32
    absent: frozenset[int] = frozenset()

    @classmethod
    def open(
        cls,
        features: int,
        dtype: Any = np.float32,
        absent: frozenset[int] = frozenset(),
    ) -> "Bounds":
        """Nothing is known."""
        lower, upper = np.full(features, -np.inf), np.full(features, np.inf)
        return cls(lower, upper, dtype, absent)

    def at_most(self, feature: int, bound: float) -> None:
        """x <= bound."""
        if feature not in self.absent and bound < self.upper[feature]:
            self.upper[feature] = _down(bound, self.dtype)
            self._check(feature)

    def above(self, feature: int, bound: float) -> None:
        """x > bound."""
        if feature not in self.absent and bound >= self.lower[feature]:
            self.lower[feature] = _up(bound, self.dtype)
            self._check(feature)

    def at_least(self, feature: int, bound: float) -> None:
        """x >= bound, a number of this dtype."""
        if feature not in self.absent and bound > self.lower[feature]:
            self.lower[feature] = bound
            self._check(feature)

    def exactly(self, feature: int, value: float) -> None:
        """x = value."""
        self.at_least(feature, value)
        self.at_most(feature, value)

    def side(self, feature: int, threshold: float, left: bool) -> None:
        """The row went left (x <= threshold) or right."""
        if left:
            self.at_most(feature, threshold)
        else:
            self.above(feature, threshold)

    @property
    def single(self) -> Bool[np.ndarray, " features"]:
        """Where one number is left."""
        return self.lower == self.upper

    def _check(self, feature: int) -> None:
        if self.lower[feature] > self.upper[feature]:
            raise ContradictionError(f"feature {feature}: no value is left", feature)


def hull(parts: Sequence[Bounds]) -> Bounds:
    """The bounds that hold whichever of several hypotheses is true."""
    return Bounds(
        np.min([part.lower for part in parts], axis=0),
        np.max([part.upper for part in parts], axis=0),
        parts[0].dtype,
        frozenset().union(*(part.absent for part in parts)),
    )


def attainable_values(
    attainable: Attainable, known: Float[np.ndarray, "known features"]
) -> list[np.ndarray | None]:
    """The values that each column can take, sorted, where the caller says so.

    Args:
      attainable: None: nothing is said; "known": every column takes only values that
        known rows have; or one array of values, or None, for each column.
      known: (known, features), the known rows.
    Raises: FieldError: another word, or not one entry a column.
    """
    features = known.shape[1]
    if attainable is None:
        return [None] * features
    if isinstance(attainable, str):
        if attainable != "known":
            raise FieldError(
                "attainable",
                "Expected {} to be None, 'known', or one array of values (or None) for"
                f" each column; got {attainable!r}.",
            )
        return [np.unique(column[~np.isnan(column)]) for column in known.T]
    if len(attainable) != features:
        raise FieldError(
            "attainable",
            f"Expected {{}} to have one entry for each of {features} columns, got"
            f" {len(attainable)}.",
        )
    return [
        None if values is None else np.unique(np.asarray(values, np.float64))
        for values in attainable
    ]


def confine(
    bounds: Bounds,
    values: Sequence[np.ndarray | None],
) -> None:
    """Narrow bounds to attainable values.

    Args:
      bounds: the missing row's bounds, narrowed in place.
      values: for each column, the values that it can take; None: any number.
    Raises: ContradictionError: no attainable value is left.
    """
    for feature, allowed in enumerate(values):
        if allowed is not None:
            left = within(bounds, feature, allowed)
            if not len(left):
                raise ContradictionError(f"feature {feature}: no attainable value left")
            bounds.at_least(feature, float(left[0]))
            bounds.at_most(feature, float(left[-1]))


def within(
    bounds: Bounds, feature: int, allowed: np.ndarray
) -> Float[np.ndarray, " left"]:
    """Those of the allowed values, as trees see them, that are within the bounds."""
    seen = allowed.astype(bounds.dtype).astype(np.float64)
    return seen[(seen >= bounds.lower[feature]) & (seen <= bounds.upper[feature])]


def originals(
    bounds: Bounds, values: Sequence[np.ndarray | None]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(lower, upper, value) of the float64 numbers before they were rounded.

    Where a column's attainable values are given, the value is one of these as it is.
    """
    lower, upper = bounds.lower.copy(), bounds.upper.copy()
    if bounds.dtype == np.float32:
        finite = np.isfinite(lower)
        below = np.nextafter(lower.astype(np.float32), np.float32(-np.inf))
        lower[finite] = (lower / 2 + below.astype(np.float64) / 2)[finite]
        finite = np.isfinite(upper)
        over = np.nextafter(upper.astype(np.float32), np.float32(np.inf))
        upper[finite] = (upper / 2 + over.astype(np.float64) / 2)[finite]
    value = np.full(len(lower), np.nan)
    for feature in map(int, np.flatnonzero(bounds.single)):
        number = bounds.lower[feature]
        allowed = values[feature]
        if allowed is not None:
            same = allowed[allowed.astype(bounds.dtype) == number]
            if len(same) == 1:
                lower[feature] = upper[feature] = value[feature] = same[0]
                continue
        value[feature] = float(np.format_float_positional(bounds.dtype(number)))
    return lower, upper, value


def _down(bound: float, dtype: Any) -> float:
    """The largest number of a dtype that is at most `bound`."""
    number = dtype(bound)
    return float(np.nextafter(number, dtype(-np.inf)) if number > bound else number)


def _up(bound: float, dtype: Any) -> float:
    """The smallest number of a dtype that is above `bound`."""
    number = dtype(bound)
    return float(np.nextafter(number, dtype(np.inf)) if number <= bound else number)
