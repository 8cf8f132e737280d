"""Estimators that store order statistics: extremes, medians, quantiles, bin edges.

As a function of the missing value x alone, each of them is piecewise linear, with bends
at known values. What is stored therefore leaves a union of points and intervals for x:
one point where x is an extreme or next to the median, else an interval.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from artefacts.findings import (
    EPS,
    EPS32,
    Finding,
    Leaf,
    refuted,
    single_precision,
    spread,
    trained_in_single,
)
from artefacts.readers.moments import check_count, from_mean, settled
from artefacts.registry import register

# Of the size of a column: only what misses by more than this is refuted, since training
# may have been in single precision.
_LOOSE = 1e-6
Interval = tuple[float, float]
Statistic = Callable[[float], float]


def preimage(
    f: Statistic, bends: Sequence[float], stored: float, slack: float
) -> list[Interval]:
    """Where a piecewise linear f takes the stored value, up to `slack`.

    Args:
      f: a function of one real number, linear between neighbouring bends and beyond
        them.
      bends: where the slope of f may change, at least one number.
      stored: the value that f takes.
      slack: how far rounding may have moved the stored value.
    Returns: disjoint closed intervals, in order, which contain every solution.
    """
    points = sorted(set(bends))
    span = max(points[-1] - points[0], abs(points[0]), 1.0)
    ends = [points[0] - span, *points, points[-1] + span]
    values = [f(each) for each in ends]
    found: list[Interval] = []
    for i in range(len(ends) - 1):
        a, b, fa, fb = ends[i], ends[i + 1], values[i], values[i + 1]
        first, last = i == 0, i == len(ends) - 2
        # f is flat here: all of the piece, or nothing.
        if abs(fb - fa) <= 4 * EPS * max(abs(fa), abs(fb)):
            if abs(fa - stored) <= slack or abs(fb - stored) <= slack:
                found.append((-np.inf if first else a, np.inf if last else b))
            continue
        slope = (fb - fa) / (b - a)
        at = a + (stored - fa) / slope
        wide = slack / abs(slope)
        low, high = at - wide, at + wide
        low = low if first else max(low, a)
        high = high if last else min(high, b)
        if low <= high:
            found.append((low, high))
    return _joined(found)


def _joined(parts: list[Interval]) -> list[Interval]:
    """Touching intervals as one."""
    joined: list[Interval] = []
    for low, high in sorted(parts):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined


def both(left: list[Interval], right: list[Interval]) -> list[Interval]:
    """What lies in both unions of intervals."""
    parts = [
        (max(a, c), min(b, d))
        for a, b in left
        for c, d in right
        if max(a, c) <= min(b, d)
    ]
    return _joined(parts)


def percentile(known: np.ndarray, q: float) -> tuple[Statistic, list[float]]:
    """numpy's linear percentile of the known values and x, as a function of x.

    Args:
      known: (known,), the known values of one column, sorted.
      q: the share of values below the percentile, in [0, 1].
    Returns: the function, and where it bends.
    """
    place = q * len(known)
    k = min(int(np.floor(place)), len(known))
    share = place - k

    def value(index: int) -> float:
        if index < 0:
            return -np.inf
        return float(known[index]) if index < len(known) else np.inf

    def statistic(x: float) -> float:
        low = min(max(x, value(k - 1)), value(k))
        if share == 0:
            return low
        high = min(max(x, value(k)), value(k + 1))
        return (1 - share) * low + share * high

    bends = [value(k - 1), value(k), value(k + 1)]
    return statistic, [each for each in bends if np.isfinite(each)]


class Told:
    """What stored statistics leave for every feature of the missing row."""

    def __init__(self, leaf: Leaf) -> None:
        self.known = np.asarray(leaf.known, np.float64)
        self.scale = spread(self.known)
        self.eps = EPS
        if single_precision(leaf.known) or trained_in_single(leaf.estimator):
            self.eps = EPS32
        features = self.known.shape[1]
        self.left: list[list[Interval]] = [[(-np.inf, np.inf)]] * features
        # The same with room for single precision, and for places of quantiles between
        # values that are far apart: what leaves nothing here is refuted.
        self.loose: list[list[Interval]] = [[(-np.inf, np.inf)]] * features
        self.columns = [np.sort(column[np.isfinite(column)]) for column in self.known.T]
        # Columns where values are missing, so that x may be. A statistic that isn't
        # that of the known values alone shows that x is there.
        self.holes = np.array(~np.isfinite(self.known).all(axis=0))

    def add(
        self,
        j: int,
        f: Statistic,
        bends: Sequence[float],
        stored: float,
        alone: float,
        *,
        quantile: bool = False,
        room: int = 4,
        size: float = 0.0,
    ) -> None:
        """Feature j takes a value of a statistic.

        Args:
          f, bends, stored: see `preimage`.
          alone: f of the known values alone.
          quantile: whether f is computed, not one of the values or its size.
          room: roundings that may have moved the stored value, of the column's size.
          size: of other numbers that it was computed from.
        """
        of_column = float(np.abs(self.columns[j]).max(initial=0.0))
        size = max(abs(stored), of_column, size)
        # The place of a quantile between two values is rounded too.
        slack = (16 + len(self.columns[j]) if quantile else room) * self.eps * size
        self.left[j] = both(self.left[j], preimage(f, bends, stored, slack))
        loose = preimage(f, bends, stored, max(slack, _LOOSE * size))
        # The statistic is that of the known values: x may be missing.
        if abs(alone - stored) <= slack:
            loose = [(-np.inf, np.inf)]
        if abs(alone - stored) > max(slack, _LOOSE * size):
            self.holes[j] = False
        self.loose[j] = both(self.loose[j], loose)

    def finding(self, field: str, tells: str, *, needed: bool = True) -> Finding:
        """What all statistics leave; features whose x may be missing stay open."""
        for j, parts in enumerate(self.left):
            # Rounding explains it, or x is missing: nothing is told.
            if not parts and self.loose[j]:
                self.left[j] = [(-np.inf, np.inf)]
        empty = [j for j, parts in enumerate(self.left) if not parts]
        if empty:
            return refuted(
                field,
                f"no value of feature {empty[0]} gives what is stored",
                needed=needed,
            )
        lower = np.array([parts[0][0] for parts in self.left])
        upper = np.array([parts[-1][1] for parts in self.left])
        lower[self.holes], upper[self.holes] = -np.inf, np.inf
        return Finding(
            field=field, tells=tells, lower=lower, upper=upper, needed=needed
        )


def _smallest(column: np.ndarray) -> tuple[Statistic, list[float]]:
    """The minimum with x."""
    least = float(column[0])
    return lambda x: min(x, least), [least]


def _largest(column: np.ndarray) -> tuple[Statistic, list[float]]:
    """The maximum with x."""
    most = float(column[-1])
    return lambda x: max(x, most), [most]


def _larger(most: float, x: float) -> float:
    """The largest size with x."""
    return max(abs(x), most)


_EXTREMES = "the exact value where x is an extreme, else that it lies between them"


def min_max_scaler(leaf: Leaf) -> list[Finding]:
    """`data_min_`, `data_max_`, or what `scale_` and `min_` say of them."""
    scaler, told = leaf.estimator, Told(leaf)
    check_count(leaf, getattr(scaler, "n_samples_seen_", None))
    low, high = getattr(scaler, "data_min_", None), getattr(scaler, "data_max_", None)
    field, room = "data_min_, data_max_", 4
    (a, b), stripped = scaler.feature_range, low is None
    if low is None or high is None:
        # Of divisions by `scale_`, which of constant columns is that of a range of 1.
        field, room = "scale_, min_", 64
        low, high = (a - scaler.min_) / scaler.scale_, (b - scaler.min_) / scaler.scale_
    for j, column in enumerate(told.columns):
        ranged = abs(scaler.scale_[j] - (b - a)) > _LOOSE * (b - a)
        if stripped and column[0] == column[-1] and not ranged:
            continue
        # Both ends were divided by the range.
        size, ends = max(abs(float(low[j])), abs(float(high[j]))), column[[0, -1]]
        for f, end, alone in (
            (_smallest(column), float(low[j]), float(ends[0])),
            (_largest(column), float(high[j]), float(ends[1])),
        ):
            told.add(j, *f, end, alone, room=room, size=size)
    return [told.finding(field, _EXTREMES)]


def max_abs_scaler(leaf: Leaf) -> list[Finding]:
    """`max_abs_`, or `scale_`: the value up to its sign where x is the extreme."""
    scaler, told = leaf.estimator, Told(leaf)
    check_count(leaf, getattr(scaler, "n_samples_seen_", None))
    stored = getattr(scaler, "max_abs_", None)
    field = "scale_" if stored is None else "max_abs_"
    stored = scaler.scale_ if stored is None else stored
    for j, column in enumerate(told.columns):
        most = float(np.abs(column).max(initial=0.0))
        if most == 0 and field == "scale_" and stored[j] == 1:  # of all zeros
            continue
        if not np.isfinite(stored[j]):  # of a column without a value
            continue
        size = functools.partial(_larger, most)
        told.add(j, size, [-most, 0.0, most], float(stored[j]), most)
    return [told.finding(field, "the size where x is the extreme, else a bound of it")]


def robust_scaler(leaf: Leaf) -> list[Finding]:
    """`center_`, the median, and `scale_`, a distance of two quantiles."""
    scaler, told = leaf.estimator, Told(leaf)
    for j, column in enumerate(told.columns):
        if scaler.center_ is not None:
            alone = float(np.median(column))
            told.add(
                j,
                *percentile(column, 0.5),
                float(scaler.center_[j]),
                alone,
                quantile=True,
            )
        if scaler.scale_ is None or scaler.unit_variance:
            continue
        low, high = (percentile(column, q / 100) for q in scaler.quantile_range)

        def width(x: float, low: Any = low, high: Any = high) -> float:
            return high[0](x) - low[0](x)

        stored = float(scaler.scale_[j])
        # A scale of 1 stands for a constant column as well.
        if stored != 1.0:
            ends = np.quantile(column, np.asarray(scaler.quantile_range) / 100)
            alone = float(ends[1] - ends[0])
            told.add(j, width, [*low[1], *high[1]], stored, alone, quantile=True)
    return [
        told.finding("center_, scale_", "an interval, and the value next to the median")
    ]


def quantile_transformer(leaf: Leaf) -> list[Finding]:
    """`quantiles_`: with as many of them as rows, they are the rows' values."""
    transformer, told = leaf.estimator, Told(leaf)
    if transformer.subsample is not None and leaf.count > transformer.subsample:
        return []
    for j, column in enumerate(told.columns):
        stored = transformer.quantiles_[:, j]
        for i in _near(column, transformer.references_, stored):
            q = float(transformer.references_[i])
            alone = float(np.quantile(column, q))
            told.add(j, *percentile(column, q), float(stored[i]), alone, quantile=True)
    return [
        told.finding(
            "quantiles_", "every quantile that lies next to x bounds it or gives it"
        )
    ]


def _near(column: np.ndarray, places: np.ndarray, stored: np.ndarray) -> range:
    """Indices of the quantiles that can tell something: those around x.

    Quantiles far below x are as if it were infinite, those far above as if it were the
    least of all.
    """
    least = np.quantile(np.append(column, column[0] - 1.0), places)
    most = np.quantile(np.append(column, column[-1] + 1.0), places)
    slack = 1e-9 * max(float(np.ptp(column)), float(np.abs(column).max()) * 1e-3)
    below = np.abs(stored - most) > slack
    above = np.abs(stored - least) > slack
    first = int(np.argmax(below)) if below.any() else len(stored)
    last = len(stored) - 1 - int(np.argmax(above[::-1])) if above.any() else -1
    low, high = sorted((first, last))
    return range(max(low - 2, 0), min(high + 3, len(stored)))


def bins(leaf: Leaf) -> list[Finding]:
    """`bin_edges_`: the outer ones are the extremes."""
    model, told = leaf.estimator, Told(leaf)
    if model.subsample is not None and leaf.count > model.subsample:
        return []
    for j, column in enumerate(told.columns):
        edges = model.bin_edges_[j]
        if not np.all(np.isfinite(edges)):
            continue
        told.add(j, *_smallest(column), float(edges[0]), float(column[0]))
        told.add(j, *_largest(column), float(edges[-1]), float(column[-1]))
    return [told.finding("bin_edges_", _EXTREMES)]


def simple_imputer(leaf: Leaf) -> list[Finding]:
    """`statistics_`: a mean gives x, a median bounds it; x may also be missing.

    Where the statistic is that of the known rows alone, x is missing or equal to it:
    nothing is told.
    """
    imputer = leaf.estimator
    if imputer.strategy not in ("mean", "median"):
        return []
    if not isinstance(imputer.missing_values, (int, float, np.number)):
        return []
    known = np.asarray(leaf.known, np.float64)
    blank = np.where(known == imputer.missing_values, np.nan, known)
    leaf = dataclasses.replace(leaf, known=blank)
    told = Told(leaf)
    stored = np.asarray(imputer.statistics_, np.float64)
    tells = "an interval, and the value next to the median, if x isn't missing"
    if imputer.strategy == "mean":
        row, error = from_mean(leaf, stored, told.known)
        error = settled(leaf, error, None)
        tells = "its mean times the number of values, less the known ones, is x"
    for j, column in enumerate(told.columns):
        if not len(column) or not np.isfinite(stored[j]):
            continue
        own = column.mean() if imputer.strategy == "mean" else np.median(column)
        if abs(own - stored[j]) <= 1e-9 * told.scale[j]:
            continue
        if imputer.strategy == "mean":
            told.left[j] = [(row[j] - error[j], row[j] + error[j])]
        else:
            told.add(
                j, *percentile(column, 0.5), float(stored[j]), float(own), quantile=True
            )
    # A statistic that moved shows that x is there, whatever is missing of known rows.
    told.holes = np.zeros(len(told.columns), bool)
    return [told.finding("statistics_", tells)]


register("MinMaxScaler", min_max_scaler)
register("MaxAbsScaler", max_abs_scaler)
register("RobustScaler", robust_scaler)
register("QuantileTransformer", quantile_transformer)
register("KBinsDiscretizer", bins)
register("SimpleImputer", simple_imputer)
