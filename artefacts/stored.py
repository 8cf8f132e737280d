"""Rows in any array of an estimator, whether or not a reader knows the field.

An array of which all rows but one are known ones holds the missing row: a tree of
neighbours inside Isomap, members of a bag, an estimator of one's own.
"""

import numpy as np
from scipy.spatial import cKDTree

from artefacts import contents
from artefacts.findings import EPS, Finding, Leaf, around, spread

# Of a column's spread: what the rounding of a step before may change of a value.
_SAME = 1e-9
_MAY_BE_A_MEAN = (
    "a row beside known ones; it may be the missing row, or a mean of several"
)
_TELLS = "a stored row that is not among the known ones, as it is"


def read(leaf: Leaf) -> list[Finding]:
    """The one stored row that isn't known, over all arrays; else nothing.

    It is certified where every known row is stored as well: one that isn't may be any.
    """
    known = contents.numbers(leaf.known)
    if known is None or known.shape[1] < 2 or len(known) < 2:
        return []
    scale = spread(known)
    tree = cKDTree(np.nan_to_num(known / scale, nan=1e30))
    first = tree.query(tree.data)[1]
    met: set[int] = set()
    new: dict[str, np.ndarray] = {}
    for path, array in contents.arrays(leaf.estimator):
        if array.ndim != 2 or array.dtype.kind not in "fiu":
            continue
        if array.shape[1] != known.shape[1] or len(array) < 2:
            continue
        rows = np.asarray(array, np.float64)
        points = np.nan_to_num(rows / scale, nan=1e30)
        near = tree.query(points, distance_upper_bound=_SAME * np.sqrt(rows.shape[1]))[
            1
        ]
        found = near < len(known)
        own = {int(first[each]) for each in near[found]}
        if len(own) < 2 or 2 * found.sum() < len(rows):
            continue
        met |= own
        for row in rows[~found]:
            if not any(_equal(row, other, scale) for other in new.values()):
                new[f"{path} ({len(new)})" if path in new else path] = row
        if len(new) > 1:
            # Several rows are missing, or the known rows are other ones.
            return []
    if len(new) != 1:
        return []
    ((path, row),) = new.items()
    every = {int(each) for each in first}
    if 2 * len(met) <= len(every):
        # Of cluster centres all but one can be known rows by themselves.
        return [Finding(field=path, tells=_MAY_BE_A_MEAN, estimate=row, certified=None)]
    return [
        Finding(
            field=path,
            tells=_TELLS,
            certified=True if met == every else None,
            **around(row, 4 * EPS * np.abs(row)),
        )
    ]


def _equal(row: np.ndarray, other: np.ndarray, scale: np.ndarray) -> bool:
    off = np.abs(row - other) / scale
    return bool(np.all((off <= _SAME) | (np.isnan(row) & np.isnan(other))))
