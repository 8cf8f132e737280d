"""Place the right record in a gallery that somebody has.

Who has a gallery in which the record is needs no picture of it: a guess that is nearest
to the right record, among all others, names it.

Checked: tests/informed/metrics/test_judging.py (ranks by hand).
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from shadow.data import Examples

# Records whose distances to all guesses are taken at once: 4,096 of 784 pixels are
# 25 MB in float64.
_ROWS = 4096
# Guesses that are placed at once: distances to 60,000 records are then 100 MB.
_GUESSES = 200
# Of squared lengths: distances by products that differ by less are equal.
_ROUNDING = 1e-12


def distances(
    guesses: np.ndarray, records: np.ndarray
) -> Float[np.ndarray, "guesses records"]:
    """Return squared Euclidean distances of all pairs, by products of matrices."""
    one = guesses.reshape(len(guesses), -1).astype(np.float64)
    lengths = np.sum(one**2, axis=1)
    parts = [np.empty((len(one), 0))]
    for start in range(0, len(records), _ROWS):
        other = records[start : start + _ROWS].reshape(-1, one.shape[1])
        other = other.astype(np.float64)
        squares = lengths[:, None] + np.sum(other**2, axis=1)[None]
        apart = squares - 2 * one @ other.T
        # What is rounding is no distance.
        parts.append(np.where(apart > _ROUNDING * squares, apart, 0.0))
    return np.concatenate(parts, axis=1)


def placed(
    guesses: np.ndarray, truth: Examples, others: Examples
) -> dict[str, Any] | None:
    """Place the right records by their distance to the guesses.

    Args:
      guesses: (attempted, ...); NaN where there is none, which places it last.
      truth: the targets.
      others: what the gallery holds beside the target; copies of it don't count. What
        is as near as the target stands before it.
    Returns: first, how often it stands first; median_rank; size of the gallery; None
      without guesses.
    """
    count = len(guesses)
    if not count:
        return None
    flat = guesses.reshape(count, -1).astype(np.float64)
    targets = truth.images[:count].reshape(count, -1).astype(np.float64)
    ranks = np.full(count, len(others) + 1)
    given = np.flatnonzero(np.isfinite(flat).all(axis=1))
    for rows in np.array_split(given, -(-len(given) // _GUESSES)) if len(given) else ():
        apart = np.sum((flat[rows] - targets[rows]) ** 2, axis=1)
        nearer = distances(flat[rows], others.images) <= apart[:, None]
        copies = distances(targets[rows], others.images) == 0
        ranks[rows] = 1 + np.sum(nearer & ~copies, axis=1)
    return {
        "first": int((ranks == 1).sum()),
        "median_rank": float(np.median(ranks)),
        "size": len(others) + 1,
    }
