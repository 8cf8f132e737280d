"""From a direction to a row of whole numbers: rounding and projecting in turns.

The row lies in the span of the known rows and the direction read, n + 1 dimensions of
d, and on a grid. A row on which both agree is certain if the d - n - 1 equations that
are left hold to more digits than it takes to say which row of the grid it is, and if
they hold as well as the direction is known: a value altered in one known row leaves one
column that doesn't.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from artefacts.findings import PRECISION
from artefacts.span import columns as values
from artefacts.span import sparse as bags
from artefacts.span.basis import Basis
from artefacts.span.columns import Columns
from artefacts.span.completion import SURE, Completion, digits
from artefacts.span.direction import Direction
from artefacts.walk import dense

# Rounds of rounding and projecting. Rows that are found take ten, seldom forty.
_ROUNDS = 200
# Lengths off the span that are tried, as multiples of what the columns' variance says;
# both signs of each.
_LENGTHS = (1.0, 0.75, 1.35)
# Of a column's step: where less of a change in one column is off the span, in length,
# than this, equations don't settle that column.
_SETTLED = 1e-3
# Equations more than unknowns, at least: a grid of a few columns has rows such as zeros
# that lie in any span.
_FEWEST = 20
# Rounding of projections, of a row's length.
_EXACT = 1e-12
# Errors of the direction, all columns together and in one column: of independent noise
# the largest of ten thousand is 4 times its deviation, and twice that leaves room. The
# tests have every error below its estimate.
_NORM, _COLUMN = 2.0, 8.0
# Of a step: a column that is farther off may as well have the next level.
_DOUBT = 0.3
# Exchanges of known rows that say which columns are looked at first, how many of these
# there are, and exchanges that are looked at together, for memory.
_SAMPLED, _FIRST, _PAIRS = 64, 48, 1 << 22


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
    space = _Space(direction, rows, columns)
    if space.equations < _FEWEST:
        return None
    best, distance = None, np.inf
    for start in space.starts():
        row = space.searched(start)
        off = space.distance(row)
        # Known rows are on the grid and in the span as well, and no answer.
        if off < distance and not space.known(row):
            best, distance = row, off
        if best is not None and space.sure(best, distance):
            break
    if best is None:
        return None
    sure = space.sure(best, distance)
    one = sure and not space.exchangeable(best)
    whole, settled = space.extended(best)
    certified = one and bool(settled.all())
    if one and not certified:
        why = "columns that aren't whole numbers aren't settled by those that are"
    elif certified:
        why = (
            f"{space.equations} equations more than unknowns hold to"
            f" {digits(space.equations, distance) / space.equations:.1f} digits each"
        )
    elif sure:
        why = "exchanging known rows gives another row that is as good"
    else:
        why = "no row of such values lies in the span: are the known rows the others?"
    return Completion(
        row=whole,
        certified=certified,
        determined=settled,
        by="levels",
        why=why,
        error=0.0 if grid.all() else PRECISION,
    )


class _Space:
    """The discrete columns of the span of the known rows and the direction."""

    def __init__(
        self, direction: Direction, rows: np.ndarray, columns: Columns
    ) -> None:
        grid = columns.discrete
        self._rows, self._grid = rows, grid
        self._whole = grid.all()
        if self._whole:
            self._basis, w = direction.basis, direction.vectors[0]
        else:
            self._basis = Basis(rows[:, grid])
            # The direction is known up to a point of the span, in any columns.
            full = direction.vectors[0] * direction.basis.scale
            w = self._basis.off((full[grid] / self._basis.scale)[None])[0]
            size = float(np.linalg.norm(w))
            w = w / size if size > 0 else w
        self._direction, self._w = direction, w
        self._scale = self._basis.scale
        self._some = dataclasses.replace(
            columns.part(grid), groups=_inside(columns.groups, grid)
        )
        self.equations = len(w) - len(self._basis) - 1

    def starts(self) -> Iterator[np.ndarray]:
        """The known mean, and the length off the span that variances let expect.

        Of one-hots then the row of the least sum, as in `sparse`: each group's sum of
        one tells how long it is.
        """
        here = self._rows[:, self._grid] / self._scale
        mean, variance = here.mean(axis=0), here.var(axis=0)
        expected = np.sqrt(
            variance.sum() * max(1 - len(self._basis) / len(self._w), 1e-6)
        )
        for length in _LENGTHS:
            for sign in (1.0, -1.0):
                yield mean + sign * length * expected * self._w
        if not self._some.groups or (self._some.low < 0).any():
            return
        spanning = sparse.csc_array(self._basis.rows)
        for sign in (1.0, -1.0):
            found = bags.least(spanning, sign * self._w)
            if found is not None:
                sums = [(found * self._scale)[g].sum() for g in self._some.groups]
                yield found / np.median(sums)

    def off(self, row: np.ndarray, rounds: int = 1) -> np.ndarray:
        """What of a row, in units, is off the span and the direction."""
        left = self._basis.off(row[None], rounds)[0]
        return left - (left @ self._w) * self._w

    def searched(self, start: np.ndarray) -> np.ndarray:
        """The row of the grid where rounding and projecting settle."""
        near = self._some.rounded(start * self._scale)
        for _ in range(_ROUNDS):
            before, scaled = near, near / self._scale
            near = self._some.rounded((scaled - self.off(scaled)) * self._scale)
            if np.array_equal(near, before):
                break
        return near

    def distance(self, row: np.ndarray) -> float:
        """How far a row is from the span and the direction, an equation, in steps."""
        off = self.off(row / self._scale, rounds=3) * self._scale / self._some.step
        return float(np.linalg.norm(off) / np.sqrt(self.equations))

    def sure(self, row: np.ndarray, distance: float) -> bool:
        """Whether equations outnumber what is unknown, by digits, and all hold."""
        enough = digits(self.equations, distance) > self._some.digits + SURE
        return enough and self.within_error(row)

    def within_error(self, row: np.ndarray) -> bool:
        """Whether what is off the span is the direction's error, in every column.

        And whether it leaves no doubt of any column's level.
        """
        scaled = row / self._scale
        off = self.off(scaled, rounds=3)
        length = abs(float(scaled @ self._w))
        expected = self._direction.error * length + _EXACT * np.linalg.norm(scaled)
        each = expected / np.sqrt(self.equations)
        steps = self._some.step / self._scale
        return bool(
            np.linalg.norm(off) <= _NORM * expected
            and np.abs(off).max() <= _COLUMN * each
            and np.all(np.abs(off) <= _DOUBT * steps)
        )

    def known(self, row: np.ndarray) -> bool:
        """Whether it is a known row, or lies in their span."""
        scaled = row / self._scale
        off = self._basis.off(scaled[None])[0]
        return bool(np.linalg.norm(off) <= 1e-6 * np.linalg.norm(scaled))

    def exchangeable(self, row: np.ndarray) -> bool:
        """Whether the row plus one known row less another is on the grid as well.

        All of these are as far from the span.
        """
        rows, some = self._rows[:, self._grid], self._some
        # Columns in which random exchanges leave the grid most often come first.
        picked = np.random.default_rng(0).integers(len(rows), size=(2, _SAMPLED))
        moved = row + rows[picked[0]] - rows[picked[1]]
        first = np.argsort(some.inside(moved, slice(None)).sum(axis=0))[:_FIRST]
        block = max(1, _PAIRS // len(rows))
        for at in range(0, len(rows), block):
            i, j = np.indices((min(block, len(rows) - at), len(rows))).reshape(2, -1)
            i, j = i[i + at != j] + at, j[i + at != j]
            for column in first:
                moved = row[column] + rows[i, column] - rows[j, column]
                left = some.inside(moved, column)
                i, j = i[left], j[left]
            for here, other in zip(i, j, strict=True):
                change = rows[here] - rows[other]
                if change.any() and some.inside(row + change, slice(None)).all():
                    return True
        return False

    def extended(self, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The row in all columns, and which of them are settled."""
        settled = 1 - self._basis.leverages - self._w**2 > _SETTLED**2
        if self._whole:
            return row, settled
        basis, full = self._direction.basis, self._direction.vectors[0]
        # Coefficients from the discrete columns alone give the others.
        spanning = np.vstack([dense(basis.rows), full])
        equations = spanning[:, self._grid].T
        wanted = row / basis.scale[self._grid]
        found, _, rank, _ = np.linalg.lstsq(equations, wanted, rcond=1e-10)
        whole = (spanning.T @ found) * basis.scale
        whole[self._grid] = row
        error = self._direction.error * float(np.linalg.norm(whole / basis.scale))
        found_all = rank == equations.shape[1] and error <= PRECISION
        determined = np.full(len(whole), found_all)
        determined[self._grid] = settled
        return whole, determined


def _inside(groups: tuple, grid: np.ndarray) -> tuple:
    """Positions of one-hots among the discrete columns."""
    place = np.cumsum(grid) - 1
    return tuple(place[group] for group in groups)
