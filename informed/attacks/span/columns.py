"""The discrete values that each column takes in the known rows: levels and one-hots."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from informed.attacks.span.basis import dense

# Steps of columns that aren't whole: bytes as numbers of [0, 1], and few decimals.
_BYTE = 1 / 255
_STEPS = (_BYTE, 0.1, 0.01)
# Values per column up to which whole numbers are levels: those of one byte.
_MOST_LEVELS = 256
# Spans of values that differ by less share one range: a rare value may be missing in a
# column of genotypes while other columns have it.
_ALIKE = 4


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Columns of whole numbers, after division by a step, and one-hots among them.

    Attributes:
      discrete: (features,) bool, which columns hold multiples of a step.
      step: (features,), the step of each discrete column; 1 elsewhere.
      low, high: (features,) in steps, the range of each discrete column.
      groups: one array of positions a one-hot, of which exactly one column is 1.
    """

    discrete: Bool[np.ndarray, " features"]
    step: Float[np.ndarray, " features"]
    low: Float[np.ndarray, " features"]
    high: Float[np.ndarray, " features"]
    groups: tuple[Int[np.ndarray, " _"], ...] = ()

    def rounded(self, row: Float[np.ndarray, " features"]) -> np.ndarray:
        """Return the nearest row of such values; columns that aren't discrete stay."""
        near = self.step * np.clip(np.round(row / self.step), self.low, self.high)
        out = np.where(self.discrete, near, row)
        for group in self.groups:
            out[group] = 0.0
            out[group[np.argmax(row[group])]] = 1.0
        return out

    def part(self, where: Bool[np.ndarray, " features"]) -> "Columns":
        """Select some columns, of every one-hot all or none."""
        place = np.cumsum(where) - 1
        return Columns(
            groups=tuple(place[group] for group in self.groups if where[group].all()),
            discrete=self.discrete[where],
            step=self.step[where],
            low=self.low[where],
            high=self.high[where],
        )

    @property
    def levels(self) -> Float[np.ndarray, "levels features"]:
        """All values in steps, the lowest first; above `high` in shorter columns."""
        return self.low + np.arange(int((self.high - self.low).max()) + 1)[:, None]

    @property
    def digits(self) -> float:
        """Decimal digits that say which of all possible rows it is."""
        free = self.discrete.copy()
        for group in self.groups:
            free[group] = False
        levels = np.log10((self.high - self.low + 1)[free])
        return float(levels.sum() + sum(np.log10(len(group)) for group in self.groups))

    def inside(self, values: np.ndarray, where: Any) -> np.ndarray:
        """Say which values are in the range of their column, one of `where`."""
        room = 1e-9 * self.step[where]
        low, high = (self.step[where] * end[where] for end in (self.low, self.high))
        return np.asarray((values >= low - room) & (values <= high + room))


def of(known: Any) -> Columns | None:
    """Read the values that columns take off the known rows; None: none is discrete.

    Args:
      known: (known, features), an array or a sparse matrix.
    """
    rows = np.asarray(dense(known), np.float64)
    features = rows.shape[1]
    step = np.ones(features)
    discrete = (rows == np.round(rows)).all(axis=0)
    ends = np.stack([rows.min(axis=0), rows.max(axis=0)])
    for unit in _STEPS:
        # Most columns fail by their ends, which takes a hundredth of the time.
        rest = np.flatnonzero(~discrete & _multiples(ends, unit))
        rest = rest[_multiples(rows[:, rest], unit)]
        step[rest], discrete[rest] = unit, True
    varying = ends[1] > ends[0]
    if 2 * (step[varying] == _BYTE).sum() > varying.sum():
        # Pictures: a pixel of which the known rows show 0 and 1 alone is one as well.
        step[discrete & (ends[0] >= 0) & (ends[1] <= 1)] = _BYTE
    low, high = (ends / step).round()
    discrete &= high - low < _MOST_LEVELS
    if not discrete.all():
        # What a column of one value would take otherwise, nothing tells.
        discrete &= high > low
    if not discrete.any():
        return None
    low, high = _shared(discrete, step, low, high)
    return Columns(
        discrete=discrete,
        step=step,
        low=low,
        high=high,
        groups=_one_hots(rows, discrete & (step == 1) & (low == 0) & (high == 1)),
    )


def _multiples(rows: np.ndarray, unit: float) -> np.ndarray:
    """Say which columns hold multiples of a unit, to single precision."""
    apart = np.abs(rows - np.round(rows / unit) * unit)
    return np.asarray(apart.max(axis=0, initial=0) < 1e-7)


def _shared(
    discrete: np.ndarray, step: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Share one range among all columns of small ranges, and one among bytes."""
    low, high = low.copy(), high.copy()
    for unit in np.unique(step[discrete]):
        alike = discrete & (step == unit)
        if unit == 1:
            alike &= (low >= 0) & (high < _ALIKE)
        if alike.any():
            low[alike], high[alike] = low[alike].min(), high[alike].max()
    return low, high


def _one_hots(rows: np.ndarray, binary: np.ndarray) -> tuple[np.ndarray, ...]:
    """Find runs of binary columns of which exactly one is 1 in every known row."""
    groups, at, features = [], 0, len(binary)
    while at < features:
        total, end = np.zeros(len(rows)), at
        while end < features and binary[end]:
            total += rows[:, end]
            end += 1
            if (total > 1).any() or (total == 1).all():
                break
        if end - at > 1 and (total == 1).all():
            # Categories that no known row has belong to the run as well.
            while end < features and binary[end] and not rows[:, end].any():
                end += 1
            groups.append(np.arange(at, end))
            at = end
        else:
            at += 1
    return tuple(groups)
