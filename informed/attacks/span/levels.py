"""From a direction to a row of whole numbers: rounding and projecting in turns.

The row lies in the span of the known rows and the direction read, n + 1 dimensions of
d, and on a grid. A row on which both agree is certain if the d - n - 1 equations that
are left hold to more digits than it takes to say which row of the grid it is, and if
they hold as well as the direction is known: a value altered in one known row leaves one
column that doesn't.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from informed.attacks.span import columns as values
from informed.attacks.span import message_passing
from informed.attacks.span import sparse as bags
from informed.attacks.span.basis import dense
from informed.attacks.span.completion import PRECISION, Completion, digits
from informed.attacks.span.direction import Direction
from informed.attacks.span.space import Space

# Rounds of rounding and projecting. Rows that are found take ten, seldom forty.
_ROUNDS = 200
# Equations more than unknowns, at least: a grid of a few columns has rows such as zeros
# that lie in any span.
FEWEST = 20


def complete(direction: Direction, known: Any) -> Completion | None:
    """The row of the grid on which rounding and projection agree.

    Args:
      direction: of one missing row.
      known: (known, features), the rows that its basis was made of.
    Returns: the best that was found; None: no columns are discrete, or too few.
    """
    columns = values.of(known)
    if columns is None or direction.rank != 1:
        return None
    rows = np.asarray(dense(known), np.float64)
    grid = columns.discrete
    space = Space(direction, rows, columns)
    if space.equations < FEWEST:
        return None
    best, distance = None, np.inf
    for start in _starts(space):
        row = _rounded(space, start)
        off = space.distance(row)
        # Known rows are on the grid and in the span as well, and no answer.
        if off < distance and not space.known(row):
            best, distance = row, off
        if best is not None and space.sure(best, distance):
            break
    if best is None:
        return None
    sure = space.sure(best, distance)
    whole, settled = space.extended(best)
    # Several missing rows are looked at together (`several`).
    single = direction.outputs.shape[1] == 1
    equal = sure and single and direction.equal(whole[None])
    one = sure and space.unique(best, sums=equal)
    # With one output an error of a known row's measurements would not show.
    certified = one and bool(settled.all()) and bool(grid.all() or direction.alone)
    if one and not certified and settled.all():
        why = "with one output another error of a known row may be in what is measured"
    elif one and not certified:
        why = "columns that aren't whole numbers aren't settled by those that are"
    elif certified:
        why = (
            f"{space.equations} equations more than unknowns hold to"
            f" {digits(space.equations, distance) / space.equations:.1f} digits each"
        )
    elif sure:
        why = "known rows make another row of it that may be as good"
    else:
        why = "no row of such values lies in the span: are the known rows the others?"
    return Completion(
        row=whole,
        certified=certified,
        determined=settled,
        by="levels",
        why=why,
        error=0.0 if grid.all() else PRECISION,
        premise="each of its values is one that the known rows' columns take",
    )


def _starts(space: Space) -> Iterator[np.ndarray]:
    """Where rounding begins, in units: what is cheap first.

    The known mean, at the length off the span that variances let expect. What messages
    tell. Of one-hots the row of the least sum, as in `sparse`: each group's sum of one
    tells how long it is.
    """
    for sign in (1.0, -1.0):
        yield space.mean + sign * space.expected * space.along
    if message_passing.fits(space):
        yield from message_passing.searched(space)
    groups = space.columns.groups
    if not groups or (space.columns.low < 0).any():
        return
    spanning = sparse.csc_array(space.basis.rows)
    for sign in (1.0, -1.0):
        least = bags.least(spanning, sign * space.along)
        if least is not None:
            yield least / np.median([(least * space.scale)[g].sum() for g in groups])


def _rounded(space: Space, start: np.ndarray) -> np.ndarray:
    """The row of the grid where rounding and projecting settle."""
    near = space.columns.rounded(start * space.scale)
    for _ in range(_ROUNDS):
        before, scaled = near, near / space.scale
        near = space.columns.rounded((scaled - space.off(scaled)) * space.scale)
        if np.array_equal(near, before):
            break
    return near
