"""Detect discrete columns of known rows: whole numbers, decimals, bytes and one-hots.

The missing row is assumed to take such values too: `lattice` completes the row's
direction by these columns, and `guess_search` rounds a guess to them. `lattice` and
`span_attack` call `of`.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

# Steps of columns that aren't whole numbers: bytes scaled to [0, 1], and decimals.
_BYTE = 1 / 255
_STEPS = (_BYTE, 0.1, 0.01)
# Largest number of values for a column to count as discrete: those of one byte.
_MOST_LEVELS = 256
# Columns of a smaller range share one, because one may lack a rare value of the others.
_ALIKE = 4


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """Which columns are discrete, with their steps and ranges, and one-hot groups."""

    discrete: Bool[np.ndarray, " features"]  # which columns hold multiples of a step
    step: Float[np.ndarray, " features"]  # the step of each; 1 for other columns
    low: Float[np.ndarray, " features"]  # the range of each, in steps
    high: Float[np.ndarray, " features"]
    # Positions of the columns of each one-hot, exactly one of which is 1.
    groups: tuple[Int[np.ndarray, " _"], ...] = ()

    def rounded(self, row: Float[np.ndarray, " features"]) -> np.ndarray:
        """Round discrete columns to their nearest values; other columns stay."""
        near = self.step * np.clip(np.round(row / self.step), self.low, self.high)
        out = np.where(self.discrete, near, row)
        for group in self.groups:
            out[group] = 0.0
            out[group[np.argmax(row[group])]] = 1.0
        return out

    def part(self, where: Bool[np.ndarray, " features"]) -> "Columns":
        """Select some columns; a one-hot must be selected completely or not at all."""
        place = np.cumsum(where) - 1
        return Columns(
            groups=tuple(place[group] for group in self.groups if where[group].all()),
            discrete=self.discrete[where],
            step=self.step[where],
            low=self.low[where],
            high=self.high[where],
        )

    @property
    def digits(self) -> float:
        """Decimal digits needed to index all possible rows."""
        free = self.discrete.copy()
        for group in self.groups:
            free[group] = False
        levels = np.log10((self.high - self.low + 1)[free])
        return float(levels.sum() + sum(np.log10(len(group)) for group in self.groups))

    def inside(self, values: np.ndarray, where: Any) -> np.ndarray:
        """Return which values are in the range of their columns, given by `where`."""
        room = 1e-9 * self.step[where]
        low, high = (self.step[where] * end[where] for end in (self.low, self.high))
        return np.asarray((values >= low - room) & (values <= high + room))


def of(known: Any) -> Columns | None:
    """Detect discrete columns of known rows (known, features); None: there are none."""
    rows = np.asarray(known, np.float64)
    features = rows.shape[1]
    step = np.ones(features)
    discrete = (rows == np.round(rows)).all(axis=0)
    ends = np.stack([rows.min(axis=0), rows.max(axis=0)])
    for unit in _STEPS:
        # Testing smallest and largest values first is 100 times faster: most fail.
        rest = np.flatnonzero(~discrete & _multiples(ends, unit))
        rest = rest[_multiples(rows[:, rest], unit)]
        step[rest], discrete[rest] = unit, True
    varying = ends[1] > ends[0]
    if 2 * (step[varying] == _BYTE).sum() > varying.sum():
        # Images: a pixel that is only 0 or 1 in the known rows has byte levels too.
        step[discrete & (ends[0] >= 0) & (ends[1] <= 1)] = _BYTE
    low, high = (ends / step).round()
    discrete &= high - low < _MOST_LEVELS
    if not discrete.all():
        # A constant column doesn't show what other values it may take.
        discrete &= high > low
    if not discrete.any():
        return None
    # Columns of one step share a range; of whole numbers, small ranges only.
    for unit in np.unique(step[discrete]):
        alike = discrete & (step == unit)
        if unit == 1:
            alike &= (low >= 0) & (high < _ALIKE)
        if alike.any():
            low[alike], high[alike] = low[alike].min(), high[alike].max()
    return Columns(
        discrete=discrete,
        step=step,
        low=low,
        high=high,
        groups=_one_hots(rows, discrete & (step == 1) & (low == 0) & (high == 1)),
    )


def _multiples(rows: np.ndarray, unit: float) -> np.ndarray:
    """Return which columns hold multiples of a unit, to single precision."""
    apart = np.abs(rows - np.round(rows / unit) * unit)
    return np.asarray(apart.max(axis=0, initial=0) < 1e-7)


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
            # Categories that no known row has belong to the one-hot too.
            while end < features and binary[end] and not rows[:, end].any():
                end += 1
            groups.append(np.arange(at, end))
            at = end
        else:
            at += 1
    return tuple(groups)
