"""Reconstruct the unknown training row from the means that a `StandardScaler` stores.

`pipelines` calls `read` and returns its row. With n known rows k_i, unknown row x, mean
m and variance v of all n + 1, per column:

    x = (n + 1) m - sum_i k_i,        g = sum_i (k_i - m)^2 + (x - m)^2 - (n + 1) v = 0.

The second equation is not needed to find x, so it can confirm it. If a known value w is
too large by d, x is too small by d and g = 2 d (w - x - d). If |g| <= t, the bound on
its rounding, then

    |d| <= t / |w - x|, or 4 sqrt(t) where (w - x)^2 < 4 t.

The certificate has two blind spots. One wrong known value passes if d = w - x: it then
equals the true value of the missing row. Columns of few values make that likely and are
not certified. Two or more wrong values of one column pass if their effects on g cancel,
which takes one coincidence to the last digits.
"""

from typing import Any

import numpy as np

from informed.attacks.closed_form.linear import RowReconstruction, spread
from informed.attacks.closed_form.objectives import EPS

# Share of a column's spread. A column is certified if a wrong known value that fits the
# variance would move the row by less.
_PRECISION = 1e-3
# If two rows of a column are more likely than this to share a value, a wrong known
# value may equal the missing one.
_MOST_ALIKE = 0.1


def read(scaler: Any, known: np.ndarray) -> RowReconstruction | None:
    """Compute the unknown row, without a label, from the means of a scaler.

    Args:
      scaler: fitted to the known rows and the unknown one.
    Returns: None if the scaler stores no means.
    """
    if getattr(scaler, "mean_", None) is None:
        return None
    count = len(known) + 1
    mean = np.asarray(scaler.mean_, np.float64)
    total = known.astype(np.longdouble).sum(axis=0)
    row = (count * mean.astype(np.longdouble) - total).astype(np.float64)
    # Bound on rounding for any order of summation.
    rounding = 2 * (count + 2) * EPS * (np.abs(known).sum(axis=0) + np.abs(row))
    variance = getattr(scaler, "var_", None)
    error = np.full(len(row), np.inf)
    if variance is not None:
        error = _error(known, row, mean, np.asarray(variance, np.float64), rounding)
    open_columns = np.flatnonzero(~np.isfinite(error))
    certified = not len(open_columns)
    if certified:
        why = "its variances hold with the row in every column"
    elif variance is None:
        why = "it stores no variances to confirm the means by"
    else:
        some = ", ".join(map(str, open_columns[:8])) + ", ..." * (len(open_columns) > 8)
        why = f"its variances do not confirm columns {some}"
    return RowReconstruction(
        value=row,
        certified=certified,
        error=np.maximum(error, rounding),
        by="scaler means",
        why=f"the scaler's means less the known rows; {why}",
    )


def _error(
    known: np.ndarray,
    row: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    rounding: np.ndarray,
) -> np.ndarray:
    """Bound the error from one wrong known value; infinity: not confirmed."""
    away = np.abs(row - mean)
    squares = ((known - mean) ** 2).sum(axis=0) + away**2
    count = len(known) + 1
    g = np.abs(squares - count * variance)
    tolerance = 4 * (count + 2) * EPS * squares + (2 * away + rounding) * rounding
    gap = np.abs(known - row).min(axis=0)
    near = gap**2 < 4 * tolerance
    error = np.where(near, 4 * np.sqrt(tolerance), tolerance / np.where(near, 1.0, gap))
    sure = (g <= tolerance) & (error <= _PRECISION * spread(known))
    moved = np.abs(row - known[0]) > rounding
    return np.where(sure & ~_few_values(known, moved), error, np.inf)


def _few_values(known: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Return, per column, whether two of its rows are likely to share a value."""
    few = []
    for column, other in zip(known.T, moved, strict=True):
        _, counts = np.unique(column, return_counts=True)
        alike = float((counts**2).sum()) / len(column) ** 2
        # A wrong value changes the variance of a column that is constant, row included.
        few.append((len(counts) > 1 or bool(other)) and alike > _MOST_ALIKE)
    return np.array(few, bool)
