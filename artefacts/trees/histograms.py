"""Histogram gradient boosting: the edges of its bins are midpoints of training values.

A column with at most `max_bins` distinct values has an edge halfway between every two
that follow each other (`_find_binning_thresholds`, in float64), so the edges say
whether the missing row's value is one that known rows have, and which it is if not. A
longer column has its percentiles for edges ("averaged inverted CDF": a sorted value, or
the mean of two that follow each other), which say between which known values the
missing one lies, or which it is where an edge is the value itself.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

from artefacts.trees.bounds import ContradictionError

# scikit-learn's own limit: of more rows it draws this many, and takes edges of these.
SUBSAMPLE = 200_000
# In units of the last place: how far from a solution its rounding can lead.
_ULPS = 8


@dataclasses.dataclass(frozen=True, eq=False)
class BinnedColumn:
    """What the edges of one column tell.

    Attributes:
      lower: the missing value is at least this.
      upper: the missing value is at most this.
      among: the values that are left, sorted; None: all numbers between the bounds.
      value: of the numbers that are left, where rounding of float64 alone tells them
        apart, the one with the fewest decimal digits; None: more than that is open.
    """

    lower: float
    upper: float
    among: Float[np.ndarray, " values"] | None = None
    value: float | None = None


def column(
    edges: Float[np.ndarray, " edges"],
    known: Float[np.ndarray, " known"],
    max_bins: int,
) -> BinnedColumn:
    """What the edges of a column tell of the one missing value.

    Args:
      edges: (edges,), the column's `bin_thresholds_`.
      known: (known,), the column's known values; missing ones are left out.
      max_bins: the largest number of bins, as the estimator was given it.
    Raises: ContradictionError: no value gives these edges.
    """
    known = np.sort(known[~np.isnan(known)])
    distinct = np.unique(known)
    # One more distinct value would turn midpoints into percentiles.
    if len(distinct) == max_bins:
        return BinnedColumn(-np.inf, np.inf)
    if len(distinct) > max_bins:
        return _percentiles(edges, known, max_bins)
    if np.array_equal(midpoints(distinct), edges):
        return BinnedColumn(float(distinct[0]), float(distinct[-1]), distinct)
    if len(edges) != len(distinct):
        raise ContradictionError("edges of other rows")
    return _new(edges, distinct)


def midpoints(distinct: Float[np.ndarray, " values"]) -> Float[np.ndarray, " edges"]:
    """Midpoints of neighbouring values, computed as scikit-learn does."""
    if len(distinct) < 2:
        return np.zeros(0)
    return np.lib.stride_tricks.sliding_window_view(distinct, 2).mean(axis=1)


def _new(edges: np.ndarray, distinct: np.ndarray) -> BinnedColumn:
    """The missing value is none of the known ones: solve for it."""
    if not len(distinct):
        raise ContradictionError("a column without known values")
    old = np.append(midpoints(distinct), np.nan)
    first = int(np.argmax(old != edges))
    # Place 0 is below all known values.
    for place in (first + 1, 0):
        beside = max(place - 1, 0)
        value = 2.0 * edges[beside] - distinct[beside]
        doubt = _ULPS * np.spacing(max(abs(edges[beside]), abs(distinct[beside])))
        low, high = value - doubt, value + doubt
        left = distinct[place - 1] if place else -np.inf
        right = distinct[place] if place < len(distinct) else np.inf
        if high <= left or low >= right:
            continue
        near = [x for x in _near(value, doubt) if left < x < right]
        fits = [x for x in near if _gives(edges, distinct, place, x)]
        if fits:
            shortest = min(fits, key=lambda x: len(repr(x)))
            return BinnedColumn(max(low, left), min(high, right), None, shortest)
    raise ContradictionError("edges of other rows")


def from_some(
    edges: Float[np.ndarray, " edges"],
    known: Float[np.ndarray, " known"],
    max_bins: int,
) -> BinnedColumn:
    """What some edges of a column tell; the others are gone.

    Args: as `column`.
    Raises: ContradictionError: no one value gives these edges.
    """
    distinct = np.unique(known[~np.isnan(known)])
    old = midpoints(distinct)
    new = edges[~np.isin(edges, old)]
    if not len(new) or len(distinct) >= max_bins:
        return BinnedColumn(-np.inf, np.inf)
    guesses = []
    for edge in new:
        place = int(np.searchsorted(distinct, edge))
        low = distinct[place - 1] if place else -np.inf
        high = distinct[place] if place < len(distinct) else np.inf
        # Midway between a neighbour and the value, which is on the edge's other side.
        from_low = np.isfinite(low) and edge - low < high - edge
        other = low if from_low else high
        guesses.append(2.0 * edge - other)
    doubt = _ULPS * np.spacing(max(np.abs(new).max(), np.abs(distinct).max()))
    if max(guesses) - min(guesses) > 2 * doubt:
        raise ContradictionError("edges of two new values")
    rounded = [x for x in _near(guesses[0], doubt) if abs(x - guesses[0]) <= doubt]
    value = min(rounded, key=lambda x: len(repr(x)))
    return BinnedColumn(guesses[0] - doubt, guesses[0] + doubt, None, value)


def _near(value: float, doubt: float) -> list[float]:
    """Float64 numbers around a solution, the roundest ones first."""
    steps = np.linspace(-1.0, 1.0, 8 * _ULPS + 1) * doubt
    near = {float(value + step) for step in steps}
    for digits in range(1, 17):
        rounded = float(f"{value:.{digits}g}")
        if abs(rounded - value) <= doubt:
            near.add(rounded)
    return sorted(near)


def _gives(edges: np.ndarray, distinct: np.ndarray, place: int, value: float) -> bool:
    """Whether a value at a place makes these edges, bit for bit."""
    return np.array_equal(midpoints(np.insert(distinct, place, value)), edges)


def _percentiles(edges: np.ndarray, known: np.ndarray, max_bins: int) -> BinnedColumn:
    """Between which sorted known values the missing one lies, by the percentiles."""
    rows = len(known) + 1
    wanted = np.linspace(0, 100, num=max_bins + 1)[1:-1]
    index = np.percentile(
        np.arange(rows, dtype=float), wanted, method="averaged_inverted_cdf"
    )
    low, high = np.floor(index).astype(np.int64), np.ceil(index).astype(np.int64)
    scale = 1e-12 * max(float(np.abs(known).max()), np.finfo(float).tiny)
    padded = np.concatenate([[-np.inf], known, [np.inf]])
    fits = []
    for place in range(rows):
        before, after = padded[place], padded[place + 1]
        if before == after:
            continue
            # It is the same hypothesis as beside the run of equal values.
        row = np.insert(known, place, np.nan)
        made = row[low] / 2 + row[high] / 2
        told = made[~np.isnan(made)]
        if _farthest(told, edges) > scale:
            continue
        free = edges[_distances(edges, told) > scale]
        hidden = np.isnan(made)
        # Where both ends are the missing row, the edge is its value itself.
        own = (low == place) & (high == place)
        value = None
        if len(free) > hidden.sum():
            continue
        if len(free) == 1 and (own == hidden).all():
            value = float(free[0])
            if not before <= value <= after:
                continue
        fits.append((before, after, value))
    if not fits:
        raise ContradictionError("edges of other rows")
    if len(fits) == 1 and fits[0][2] is not None:
        value = fits[0][2]
        doubt = float(np.spacing(value))
        return BinnedColumn(value - doubt, value + doubt, None, value)
    return BinnedColumn(float(min(f[0] for f in fits)), float(max(f[1] for f in fits)))


def _distances(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(values,), the distance of each value to the nearest of the others."""
    if not len(others):
        return np.full(len(values), np.inf)
    others = np.sort(others)
    at = np.searchsorted(others, values)
    below = others[np.maximum(at - 1, 0)]
    above = others[np.minimum(at, len(others) - 1)]
    return np.minimum(np.abs(values - below), np.abs(above - values))


def _farthest(values: np.ndarray, others: np.ndarray) -> float:
    """The largest such distance of any value; 0 without values."""
    return float(_distances(values, others).max()) if len(values) else 0.0
