"""What an artefact tells of the missing row, all leaves together."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from artefacts.findings import PRECISION, Finding, narrow, unit
from artefacts.glm.closed_form import GlmReconstruction

_DECIMALS = 6


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """One finding, at its place.

    Attributes:
      path: where the estimator lies in the whole; empty: it is the whole.
      estimator: its class.
      finding: in the units of its own input.
      lower, upper: (features,), in the units of the whole's input; None: nothing.
      label: the label as the whole names it, or None.
      before_model: whether it belongs to a step before the model.
    """

    path: str
    estimator: str
    finding: Finding
    lower: np.ndarray | None
    upper: np.ndarray | None
    label: Any = None
    before_model: bool = False

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
      names: (features,) of the columns.
      value: (features,), float64, or object where columns are no numbers: the value
        where it is determined, else the best guess there is; NaN or None: none.
      lower, upper: (features,) float64, closed interval; infinite: nothing is told.
      determined: (features,) bool, whether the value is certain.
      sources: (features,) the field with the narrowest interval; "": none.
      y: the label or output; None: not told.
      words: those known to be in the missing text; None: rows are no texts.
      certified: whether what is stored comes out again with the row put back, and
        would not with other known rows; False where nothing tells.
      refuted: fields that no row explains: the known rows are not all others, or they
        are other ones. Then only what another field certifies is told.
      contradictions: features about which fields disagree, one sentence each.
      lines: every field that tells something.
      notes: what could not be read, and what else there is to say.
      stored: arrays that hold known rows as they are, as some part got them.
      unread: parts of which nothing could be read, with their class.
      closed_form: what `artefacts.glm` gives for a generalised linear model.
      candidates: where exactly two rows are possible (Theorem 8).
      seconds: what it took.
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
    refuted: tuple[str, ...] = ()
    contradictions: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    closed_form: GlmReconstruction | None = None
    candidates: tuple[GlmReconstruction, ...] = ()
    seconds: float = 0.0

    @property
    def x(self) -> np.ndarray:
        """`value`; of a generalised linear model without more, the closed form's."""
        return self.value

    @property
    def exact(self) -> bool:
        """Whether every feature is determined."""
        return bool(len(self.determined)) and bool(np.all(self.determined))

    @property
    def residual(self) -> float | None:
        """See `GlmReconstruction`; None for other estimators."""
        return None if self.closed_form is None else self.closed_form.residual

    @property
    def gradient_norm(self) -> float | None:
        """See `GlmReconstruction`."""
        return None if self.closed_form is None else self.closed_form.gradient_norm

    @property
    def implied_error(self) -> float | None:
        """See `GlmReconstruction`."""
        return None if self.closed_form is None else self.closed_form.implied_error

    def __iter__(self) -> Iterator[GlmReconstruction]:
        """The two candidates of Theorem 8."""
        return iter(self.candidates)

    def __len__(self) -> int:
        """How many candidates there are."""
        return len(self.candidates)

    def __getitem__(self, index: int) -> GlmReconstruction:
        """A candidate."""
        return self.candidates[index]

    def __bool__(self) -> bool:
        """An answer is one, with or without candidates."""
        return True


def merge(
    lines: tuple[Line, ...], known: np.ndarray | None, features: int
) -> dict[str, Any]:
    """All lines' bounds as one, contradictions named.

    Args:
      lines: of one artefact.
      known: (known, features) float64, columns that are no numbers NaN; None where
        rows are texts.
      features: of the input.
    Returns: the fields of an `Answer` that concern features.
    """
    lower, upper = np.full(features, -np.inf), np.full(features, np.inf)
    sources = [""] * features
    contradictions: list[str] = []
    bad = np.zeros(features, bool)
    sure = np.zeros(features, bool)
    values = np.full(features, None, dtype=object)
    for line in lines:
        if line.finding.certified is False:
            continue
        if line.finding.values is not None and len(line.finding.values) == features:
            for j, told in enumerate(line.finding.values):
                if told is None:
                    continue
                if values[j] is not None and values[j] != told:
                    bad[j] = True
                    contradictions.append(
                        f"feature {j}: {sources[j]} says {values[j]!r}, {line.field}"
                        f" says {told!r}"
                    )
                values[j], sources[j] = told, line.field
        if line.lower is None or line.upper is None:
            continue
        apart = PRECISION * unit(line.lower, line.upper, known)
        for j in range(features):
            low, high = line.lower[j], line.upper[j]
            if low == -np.inf and high == np.inf:
                continue
            gap = max(low - upper[j], lower[j] - high)
            if gap > apart[j]:
                bad[j] = True
                contradictions.append(
                    f"feature {j}: {sources[j]} says {_interval(lower[j], upper[j])},"
                    f" {line.field} says {_interval(low, high)}"
                )
                continue
            if high - low < upper[j] - lower[j]:
                sources[j] = line.field
            if gap > 0:  # rounding: keep the narrower one
                if high - low < upper[j] - lower[j]:
                    lower[j], upper[j] = low, high
                continue
            lower[j], upper[j] = max(lower[j], low), min(upper[j], high)
        if (
            line.finding.determined is not None
            and len(line.finding.determined) == features
        ):
            sure |= line.finding.determined
    lower[bad], upper[bad] = -np.inf, np.inf
    close = narrow(lower, upper, known)
    determined = (close | sure | (values != None)) & ~bad  # noqa: E711 (elementwise)
    with np.errstate(invalid="ignore"):
        middle = np.where(
            np.isfinite(lower) & np.isfinite(upper), (lower + upper) / 2, np.nan
        )
    value: np.ndarray = np.where(determined, middle, np.nan)
    if known is not None:
        value = np.where(close, _decimal(value, lower, upper, known), value)
    words = known is None or not np.isfinite(known).any(axis=0).all()
    if words or any(each is not None and not _number(each) for each in values):
        mixed = value.astype(object)
        for j, each in enumerate(values):
            mixed[j] = (
                each
                if each is not None
                else (value[j] if np.isfinite(value[j]) else None)
            )
        value = mixed
    return {
        "value": value,
        "lower": lower,
        "upper": upper,
        "determined": np.asarray(determined, bool),
        "sources": tuple(sources),
        "contradictions": tuple(contradictions),
    }


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and np.isfinite(value)


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
