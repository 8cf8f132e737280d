"""What an artefact tells of the missing row, all leaves together."""

import dataclasses
from typing import Any

import numpy as np

from artefacts.findings import PRECISION, Finding, narrow, nothing, unit
from artefacts.glm.closed_form import GlmReconstruction

# Digits after the point that are tried: tables of measurements have few, and with more
# of them an interval would hold a decimal number by chance.
_DECIMALS = 6


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """One finding, at its place.

    Attributes:
      path: where the estimator lies in the whole, as `sanitise` names it; empty: it is
        the whole.
      estimator: the name of the class of the estimator that holds the field.
      finding: what the field tells, in the units of that estimator's own input.
      lower, upper: (features,), bounds of the missing row in the units of the whole's
        input; None: nothing is told of any feature.
      label: the missing row's label, as the whole names it; None: not told.
      before_model: whether the estimator is a step before the model of a pipeline.
      reach: the features of the whole that the estimator was fitted to, as they are or
        by way of steps before it; None: not known.
    """

    path: str
    estimator: str
    finding: Finding
    lower: np.ndarray | None
    upper: np.ndarray | None
    label: Any = None
    before_model: bool = False
    reach: np.ndarray | None = None

    @property
    def field(self) -> str:
        """The stored field with its path."""
        return f"{self.path}.{self.finding.field}" if self.path else self.finding.field


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """What is told of the missing row, in the units of the estimator's input.

    Everything rests on the known rows being all others. `certified` says whether the
    artefact itself confirms that.

    Attributes:
      names: (features,), names of the columns; numbers where they have none.
      value: (features,), float64, or object where columns are no numbers: the value
        where it is determined, else the best guess there is; NaN or None: none.
      lower, upper: (features,) float64, closed interval; infinite: nothing is told.
      determined: (features,) bool, whether the value is certain.
      sources: (features,), the path of the field whose interval is the narrowest; "":
        no field tells anything.
      y: the missing row's label or output; None: not told.
      words: the words that are known to be in the missing text; None: rows are no
        texts.
      named: positions of the gallery's rows that the missing one may be; empty: none of
        them fits; None: no gallery, or nothing here ranks one.
      certified: whether what is stored comes out again with the row put back, and
        would not with other known rows; False where nothing tells.
      refuted: fields that no row explains: the known rows are not all others, or they
        are other ones. Then only what another field certifies is told.
      contradictions: features about which fields disagree, one sentence each.
      lines: every field that tells something, each at its place in the artefact.
      notes: what could not be read and why, and what limits the answer, one sentence
        each.
      stored: paths of arrays that hold known rows as they are, as some part got them.
      unread: paths of parts of which nothing could be read, with their class.
      closed_form: what `artefacts.glm` gives for a generalised linear model.
      candidates: the two rows that are possible where there is no intercept (Theorem
        8); empty elsewhere.
    """

    names: tuple[str, ...]
    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    determined: np.ndarray
    sources: tuple[str, ...]
    y: Any
    certified: bool
    words: frozenset[str] | None = None
    named: tuple[int, ...] | None = None
    refuted: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    closed_form: GlmReconstruction | None = None
    candidates: tuple[GlmReconstruction, ...] = ()

    @property
    def x(self) -> np.ndarray:
        """`value`; of a generalised linear model without more, the closed form's."""
        return self.value

    @property
    def exact(self) -> bool:
        """Whether every feature is determined."""
        return bool(len(self.determined)) and bool(np.all(self.determined))

    @property
    def implied_error(self) -> float | None:
        """The relative error of x that follows from it; None: that can't be told."""
        return None if self.closed_form is None else self.closed_form.implied_error


class _Merged:
    """All lines' bounds as one, narrowed line after line; contradictions named."""

    def __init__(self, known: np.ndarray | None, features: int) -> None:
        self.known, self.features = known, features
        self.lower, self.upper = nothing(features)
        self.sources = [""] * features
        self.contradictions: list[str] = []
        self.bad = np.zeros(features, bool)
        self.sure = np.zeros(features, bool)
        self.values = np.full(features, None, dtype=object)

    def add(self, line: Line) -> None:
        """What one line says of every feature."""
        values, sure = line.finding.values, line.finding.determined
        if values is not None and len(values) == self.features:
            self._add_values(line, values)
        if line.lower is None or line.upper is None:
            return
        self._add_bounds(line, line.lower, line.upper)
        if sure is not None and len(sure) == self.features:
            self.sure |= sure

    def _add_values(self, line: Line, values: np.ndarray) -> None:
        """Exact values of features that are no numbers."""
        for j, told in enumerate(values):
            if told is None:
                continue
            before = self.values[j]
            if before is not None and before != told:
                self._clash(j, line, repr(before), repr(told))
            self.values[j], self.sources[j] = told, line.field

    def _add_bounds(self, line: Line, lower: np.ndarray, upper: np.ndarray) -> None:
        """What intervals have in common; those too far apart contradict each other."""
        apart = PRECISION * unit(lower, upper, self.known)
        for j, (low, high) in enumerate(zip(lower, upper, strict=True)):
            if low == -np.inf and high == np.inf:
                continue
            gap = max(low - self.upper[j], self.lower[j] - high)
            if gap > apart[j]:
                before = _interval(self.lower[j], self.upper[j])
                self._clash(j, line, before, _interval(low, high))
                continue
            narrower = high - low < self.upper[j] - self.lower[j]
            if narrower:
                self.sources[j] = line.field
            if gap > 0:
                # They miss each other by no more than rounding: the narrower one stays.
                if narrower:
                    self.lower[j], self.upper[j] = low, high
                continue
            self.lower[j] = max(self.lower[j], low)
            self.upper[j] = min(self.upper[j], high)

    def _clash(self, j: int, line: Line, before: str, told: str) -> None:
        self.bad[j] = True
        self.contradictions.append(
            f"feature {j}: {self.sources[j]} says {before}, {line.field} says {told}"
        )


def merge(
    lines: tuple[Line, ...], known: np.ndarray | None, features: int
) -> dict[str, Any]:
    """All lines' bounds as one, contradictions named.

    Args:
      lines: all lines of one artefact.
      known: (known, features) float64, the known rows, NaN in columns that are no
        numbers; None where rows are texts.
      features: how many features the whole's input has.
    Returns: the fields of an `Answer` that concern features.
    """
    told = _Merged(known, features)
    for line in lines:
        if line.finding.certified is not False:
            told.add(line)
    lower, upper, values, bad = told.lower, told.upper, told.values, told.bad
    lower[bad], upper[bad] = -np.inf, np.inf
    close = narrow(lower, upper, known)
    named = np.array([each is not None for each in values], bool)
    determined = (close | told.sure | named) & ~bad
    # The middle of an interval that is rounding, or the one decimal number in it.
    finite = np.isfinite(lower) & np.isfinite(upper)
    with np.errstate(invalid="ignore"):
        middle = np.where(finite, (lower + upper) / 2, np.nan)
    value: np.ndarray = np.where(determined, middle, np.nan)
    if known is not None:
        value = np.where(close, _decimal(value, lower, upper, known), value)
    for j in np.flatnonzero(named & ~close & ~bad):
        if _number(values[j]):
            value[j] = float(values[j])
    words = known is None or not np.isfinite(known).any(axis=0).all()
    if words or any(each is not None and not _number(each) for each in values):
        numbers = [each if np.isfinite(each) else None for each in value]
        value = value.astype(object)
        value[:] = [
            number if each is None else each
            for each, number in zip(values, numbers, strict=True)
        ]
    return {
        "value": value,
        "lower": lower,
        "upper": upper,
        "determined": np.asarray(determined, bool),
        "sources": tuple(told.sources),
        "contradictions": tuple(told.contradictions),
    }


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and bool(np.isfinite(value))


def _interval(low: float, high: float) -> str:
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"


def _decimal(
    value: np.ndarray, lower: np.ndarray, upper: np.ndarray, known: np.ndarray
) -> np.ndarray:
    """The one decimal number in the interval, where all known values are decimals.

    The interval is rounding; written as the known values are, x is one of few numbers.
    """
    out = value.copy()
    for j in range(len(value)):
        if not np.isfinite(value[j]):
            continue
        column = known[np.isfinite(known[:, j]), j]
        for digits in range(_DECIMALS + 1):
            if np.array_equal(np.round(column, digits), column):
                near = round(float(value[j]), digits)
                wide = upper[j] - lower[j]
                if lower[j] <= near <= upper[j] and wide < 1e-3 * 10.0**-digits:
                    out[j] = near
                break
    return out
