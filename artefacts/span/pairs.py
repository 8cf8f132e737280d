"""Two missing rows of whole numbers out of one direction.

With one output two missing rows leave the direction of a mixture, a z_1 + b z_2. Every
column of it takes one of the values that two rows' values make, and where there are
many more columns than known rows that settles both rows and the ratio of a and b
(`messages`).

Not where a / b is a ratio of small whole numbers, as of two support vectors at their
bound: z_1 + z_2 is also z_3 + 3 z_4, of other rows. Of any other ratio no two pairs of
rows of the grid make the same mixture: a = k a' + l b' and b = m a' + n b' with whole
numbers, and both rows stay in their range only if these are a permutation.
"""

from typing import Any

import numpy as np

from artefacts.span import columns as values
from artefacts.span import messages
from artefacts.span.completion import SURE, Completion, digits
from artefacts.span.direction import Direction
from artefacts.span.levels import FEWEST
from artefacts.span.space import Space
from artefacts.walk import dense

# Errors of the direction, in one column, by which values have to differ.
_APART = 30.0
# How near the ratio of shares may be to one of whole numbers, and how large these are
# that count, in ranges of the columns.
_NEAR, _LARGE = 1e-5, 4
# Of the larger: how small one row's part off the span of the other one may be.
_DISTINCT = 1e-6


def complete(direction: Direction, known: Any) -> list[Completion]:
    """Both rows, where they are certain; else none.

    Args:
      direction: of one output.
      known: (known, features), the rows that its basis was made of.
    """
    columns = values.of(known)
    if columns is None or not columns.discrete.all() or direction.rank != 1:
        return []
    space = Space(direction, np.asarray(dense(known), np.float64), columns)
    if space.equations < FEWEST or not messages.fits(space, 2):
        return []
    for found in messages.searched(space, 2):
        rows = np.stack([space.columns.rounded(row) for row in found.rows])
        why = _sure(space, rows)
        if why:
            return [
                Completion(
                    row=row,
                    certified=True,
                    determined=np.ones(len(row), bool),
                    by="levels",
                    why=why,
                )
                for row in rows
            ]
    return []


def _sure(space: Space, rows: np.ndarray) -> str:
    """What says that two rows of the grid are the missing ones; "": nothing does."""
    scaled = rows / space.scale
    off = space.basis.off(scaled)
    sizes = np.linalg.svd(off, compute_uv=False)
    if not sizes[-1] > _DISTINCT * sizes[0]:
        return ""
    shares = np.linalg.lstsq(off.T, space.along, rcond=None)[0]
    shares /= np.abs(shares).max()
    if _whole(float(np.abs(shares).min()), space.columns):
        return ""
    mixed = shares @ scaled
    apart = _apart(space, shares, mixed)
    error = space.error * float(np.linalg.norm(shares @ off))
    error /= np.sqrt(space.equations)
    if not (apart > _APART * error).all():
        return ""
    if not space.within_error(mixed * space.scale, apart):
        return ""
    # In steps of the finer of both; the ratio is one more unknown.
    distance = space.distance(mixed * space.scale) / np.abs(shares).min()
    told = digits(space.equations - 1, distance)
    if told <= 2 * space.columns.digits + SURE:
        return ""
    for row, other in (rows, rows[::-1]):
        if not space.unique(row, other[None], sums=True):
            return ""
    return (
        f"of two rows in one direction {space.equations - 1} equations more than"
        f" unknowns hold to {told / (space.equations - 1):.1f} digits each"
    )


def _whole(ratio: float, columns: values.Columns) -> bool:
    """Whether a ratio is one of small whole numbers."""
    below = np.arange(1, _LARGE * len(columns.levels) + 1)
    return bool((np.abs(below * ratio - np.round(below * ratio)) <= _NEAR).any())


def _apart(space: Space, shares: np.ndarray, mixed: np.ndarray) -> np.ndarray:
    """How far every column's value is from the nearest that another pair makes."""
    columns = space.columns
    levels = np.where(columns.levels <= columns.high, columns.levels, np.nan)
    one, two = (levels * (columns.step / space.scale) * share for share in shares)
    distances = np.abs(one[:, None] + two[None] - mixed).reshape(-1, len(mixed))
    # The nearest is the pair itself.
    distances = np.sort(np.nan_to_num(distances, nan=np.inf), axis=0)
    return np.asarray(distances[1])
