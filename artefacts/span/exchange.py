"""Whether a row is one of several that equations can't tell apart: exchanges."""

import numpy as np
from jaxtyping import Float

from artefacts.span.columns import Columns

# Exchanges that say which columns are looked at first, how many of these there are, and
# exchanges that are looked at together, for memory.
_SAMPLED, _FIRST, _PAIRS = 64, 48, 1 << 22


def possible(
    row: Float[np.ndarray, " features"],
    rows: Float[np.ndarray, "rows features"],
    columns: Columns,
) -> bool:
    """Whether the row plus one of `rows`, or less one, or both, is on the grid as well.

    All of these are as far from the rows' span.

    Args:
      row: of the grid.
      columns: what values they take; all are discrete.
    """
    # Columns in which random exchanges leave the grid most often come first.
    picked = np.random.default_rng(0).integers(len(rows), size=(2, _SAMPLED))
    moved = row + rows[picked[0]] - rows[picked[1]]
    first = np.argsort(columns.inside(moved, slice(None)).sum(axis=0))[:_FIRST]
    # One-hots sum to one, and with a row more they wouldn't.
    for sign in () if columns.groups else (1.0, -1.0):
        inside = columns.inside(row[first] + sign * rows[:, first], first).all(axis=1)
        left = rows[inside & rows.any(axis=1)]
        if columns.inside(row + sign * left, slice(None)).all(axis=1).any():
            return True
    block = max(1, _PAIRS // len(rows))
    for at in range(0, len(rows), block):
        i, j = np.indices((min(block, len(rows) - at), len(rows))).reshape(2, -1)
        i, j = i[i + at != j] + at, j[i + at != j]
        for column in first:
            moved = row[column] + rows[i, column] - rows[j, column]
            left = columns.inside(moved, column)
            i, j = i[left], j[left]
        for here, other in zip(i, j, strict=True):
            change = rows[here] - rows[other]
            if change.any() and columns.inside(row + change, slice(None)).all():
                return True
    return False
