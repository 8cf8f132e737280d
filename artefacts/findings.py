"""What a stored field tells of the missing row: the words that readers speak.

A *leaf* is a fitted estimator without parts. A *reader* looks at one kind of leaf and
answers with *findings*, in the units of what that leaf's `fit` received. Box are
closed intervals; where both ends agree to rounding the feature is determined.
"""

import dataclasses
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float

Box = tuple[np.ndarray, np.ndarray]


class ReconstructionImpossibleError(ValueError):
    """The release doesn't determine the target; the message says why."""


class NoTraceError(ReconstructionImpossibleError):
    """This release holds nothing of the target where others may hold it."""


class LimitError(ReconstructionImpossibleError):
    """A limit of this tool: the release may determine the target all the same."""


class OtherRowsError(ReconstructionImpossibleError):
    """A stored count says that the known rows are not all others."""


# Of a column's grain: a value whose interval is narrower is called determined. If this
# were finer, the rounding of means would leave values open that are told; if it were
# coarser, neighbours of the value would be called it.
PRECISION = 1e-6
EPS = float(np.finfo(np.float64).eps)
EPS32 = float(np.finfo(np.float32).eps)
# Binary digits that pixels and other numbers on a coarse grid have at most.
_FEW_DIGITS = 16
# Grains from the middle of a column: a value farther out is no value of the column's
# own kind, so that an interval counts by its distance, to the same six digits.
_FAR = 10.0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Leaf:
    """A fitted estimator without parts, and what is known of its training set.

    Attributes:
      estimator: the fitted estimator, as it was released.
      known: (known, features), the known rows as its own `fit` received them: float64,
        or object for raw categories; a list of texts for a vectoriser, and a
        sparse matrix behind it.
      labels: (known,), the known rows' labels as its own `fit` received them; None:
        there are none.
      path: where the estimator lies in the whole, as "pipeline.scaler"; empty: it is
        the whole.
      weights: (known,), the known rows' sample weights; None: all are 1.
      target_weight: the missing row's sample weight.
      position: the missing row's index among all rows, 0 .. known; None: not told.
      label: the missing row's label, where the adversary is told; None: not told.
      attainable: values that columns can take, where that is known; see
        `trees.replay`.
      retrain: whether training may be run again some hundred times, which takes
        minutes.
      candidate: (features,), the missing row, where the steps before this one have
        already determined it.
    """

    estimator: Any
    known: Any
    labels: np.ndarray | None
    path: str = ""
    weights: np.ndarray | None = None
    target_weight: float = 1.0
    position: int | None = None
    label: Any = None
    attainable: Any = None
    retrain: bool = False
    candidate: np.ndarray | None = None

    @property
    def count(self) -> int:
        """Rows of the training set: one more than are known."""
        return self._known + 1

    @property
    def sample_weights(self) -> Float[np.ndarray, " known"]:
        """Sample weights of the known rows; ones where there are none."""
        if self.weights is None:
            return np.ones(self._known)
        return np.asarray(self.weights, np.float64)

    @property
    def _known(self) -> int:
        """Number of known rows, which may be a sparse matrix."""
        return len(self.known) if isinstance(self.known, list) else self.known.shape[0]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Finding:
    """What stored fields tell of the missing row, in the units of their leaf's input.

    Attributes:
      field: the name of the stored field, or of several, with commas between them.
      tells: what the field tells of the missing row, for the page, one sentence.
      lower, upper: (features,) float64, closed interval; infinite where nothing is
        told; None: nothing is told of any feature.
      estimate: (features,), a best guess that is not certain; NaN: none.
      values: (features,) object, the exact value of features that are no numbers; None
        where not told.
      determined: (features,) bool, which values are certain; None: those whose interval
        is narrower than `PRECISION` of the column's grain.
      words: the words that are known to be in the missing text; None: rows are no
        texts.
      label: the missing row's label, as the leaf's `fit` received it; None: not told.
      named: positions of the rows of a gallery that may be the missing one; None: no
        gallery was given, or nothing here ranks one.
      certified: True: the stored fields come out again with the row put back, which
        they would not with another one; False: with no row, so that the known rows are
        not the right ones; None: nothing here to tell by.
      needed: whether predictions need the field, so that stripping leaves it.
      notes: what limits the finding, or what more would need, one sentence each.
    """

    field: str
    tells: str
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    estimate: np.ndarray | None = None
    values: np.ndarray | None = None
    determined: np.ndarray | None = None
    words: frozenset[str] | None = None
    label: Any = None
    named: tuple[int, ...] | None = None
    certified: bool | None = None
    needed: bool = True
    notes: tuple[str, ...] = ()


def refuted(field: str, tells: str = "fits no row", *, needed: bool = True) -> Finding:
    """A field that no row explains: the known rows are not the right ones."""
    return Finding(field=field, tells=tells, certified=False, needed=needed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Removed:
    """What `sanitise` did with a field.

    Attributes:
      field: the stored field, with its path.
      action: what was done: "removed", "zeroed", or "kept: " and the reason.
      helps: whether an adversary who knows all other rows loses anything by it; None:
        untested.
      why: why that is safe, or what the field tells, one sentence.
    """

    field: str
    action: str
    helps: bool | None
    why: str


def spread(known: np.ndarray) -> Float[np.ndarray, " features"]:
    """The scale of every column: standard deviation, or size where it is constant.

    Args:
      known: (known, features), the known rows; NaN: a missing value.
    """
    columns = np.asarray(known, np.float64)
    present = np.isfinite(columns)
    filled = np.where(present, columns, 0.0)
    count = np.maximum(present.sum(axis=0), 1)
    mean = filled.sum(axis=0) / count
    away = np.where(present, columns - mean, 0.0)
    deviation = np.sqrt((away**2).sum(axis=0) / count)
    size = np.abs(filled).max(axis=0, initial=0.0)
    scale = np.where(deviation > 1e-9 * size, deviation, size)
    return np.where(scale > 0, scale, 1.0)


def grain(known: np.ndarray) -> Float[np.ndarray, " features"]:
    """`spread` that a few rows far from all others do not widen.

    The least of the standard deviation, that without the farthest row, and the median
    distance from the median (1.48 of it) of rows that are away from it.

    Args:
      known: (known, features), the known rows; NaN: a missing value.
    """
    columns = np.array(known, np.float64)
    scale = spread(columns)
    for j, column in enumerate(columns.T):
        there = column[np.isfinite(column)]
        if len(there) < 3:
            continue
        away = np.abs(there - np.median(there))
        scale[j] = min(scale[j], *spread(np.delete(there, away.argmax())[:, None]))
        if (away > 0).any():
            scale[j] = min(scale[j], 1.4826 * float(np.median(away[away > 0])))
    return scale


def narrow(
    lower: np.ndarray, upper: np.ndarray, known: np.ndarray | None
) -> np.ndarray:
    """Whether intervals are so narrow that their values are determined.

    That is `PRECISION` of a column's grain, or of the distance from the column's middle
    where the interval is far out: of a value 1e9 spreads away nine digits are more than
    nobody knowing it could tell.

    Args:
      lower, upper: (features,), ends of the intervals.
      known: (known, features), the known rows, NaN where a value is missing; None: rows
        are texts, and the unit is 1.
    Returns: (features,) bool.
    """
    with np.errstate(invalid="ignore"):
        width = upper - lower
        return width <= PRECISION * unit(lower, upper, known)


def unit(lower: np.ndarray, upper: np.ndarray, known: np.ndarray | None) -> np.ndarray:
    """A column's grain, or for what is far out its distance from the middle."""
    if known is None:
        return np.ones(len(lower))
    columns = np.asarray(known, np.float64)
    scale = grain(columns)
    with warnings.catch_warnings():
        # numpy warns of columns without any number; their middle is 0.
        warnings.simplefilter("ignore")
        middle = np.nan_to_num(np.nanmedian(columns, axis=0))
    with np.errstate(invalid="ignore"):
        away = np.minimum(np.abs(lower - middle), np.abs(upper - middle))
        far = np.isfinite(upper - lower) & (away > _FAR * scale)
    return np.where(far, away, scale)


def single_precision(known: np.ndarray) -> bool:
    """Whether all numbers are of single precision, and not simply whole or halves.

    A table of these may have been trained on in single precision.
    """
    columns = np.asarray(known)
    if columns.dtype.kind not in "f":
        return False
    columns = columns[np.isfinite(columns)].astype(np.float64)
    with np.errstate(over="ignore"):
        same = np.array_equal(columns, columns.astype(np.float32).astype(np.float64))
    # Whole numbers, and pixels as shares of 255 steps, need few binary digits; of
    # measurements in single precision some need all 24, wherever their point is.
    digits = np.frexp(columns)[0] * 2.0**_FEW_DIGITS
    whole = np.array_equal(columns, np.round(columns))
    return same and not whole and not np.array_equal(digits, np.round(digits))


def two_valued(known: np.ndarray, row: np.ndarray) -> np.ndarray:
    """(features,) bool, columns of two values, the missing row's with the known ones.

    Their second moments follow from their means, so that they confirm nothing. That of
    a column of one value does: it is zero for no other.
    """
    found, room = [], 1e-6 * spread(known)
    for column, x, near in zip(known.T, row, room, strict=True):
        values = np.unique(column[np.isfinite(column)])
        new = np.isfinite(x) and not (np.abs(values - x) <= near).any()
        found.append(len(values) + new == 2)
    return np.array(found, bool)


def trained_in_single(estimator: Any) -> bool:
    """Whether an estimator stores statistics in single precision.

    The known rows may then be more precise than what it was fitted to.
    """
    found = []
    for value in vars(estimator).values():
        arrays = value if isinstance(value, list) else [value]
        if isinstance(value, np.ndarray) and value.dtype == object:
            arrays = list(value.ravel())
        found += [np.asarray(a) for a in arrays if isinstance(a, np.ndarray)]
    return any(a.dtype == np.float32 or single_precision(a) for a in found)


def nothing(features: int) -> tuple[np.ndarray, np.ndarray]:
    """Box that tell nothing."""
    return np.full(features, -np.inf), np.full(features, np.inf)


def around(value: np.ndarray, error: np.ndarray | float) -> dict[str, Any]:
    """Box `value` +- `error`; nothing where `value` isn't finite."""
    value = np.asarray(value, np.float64)
    error = np.broadcast_to(np.abs(error), value.shape)
    good = np.isfinite(value) & np.isfinite(error)
    return {
        "lower": np.where(good, value - error, -np.inf),
        "upper": np.where(good, value + error, np.inf),
    }
