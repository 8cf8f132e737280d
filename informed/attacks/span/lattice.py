"""Find a missing row of whole numbers (genotypes, pixels in bytes) from its direction.

The row lies on a grid, and in the (n + 1)-dimensional span of the n known rows and the
direction, out of d dimensions. We alternate rounding and projection, from the known
rows' mean and then from what message passing expects. The result is `sure` if the
remaining d - n - 1 equations hold to more digits than index a row of the grid, and all
to the direction's precision: one wrong value in a known row would violate one of them.
`certified` also needs that no combination with known rows is another solution
(`uniqueness`), that all columns are settled, and that a single output can't hide an
error or a sum of rows. `linear_fit` and `span_attack` call `complete`.

Message passing. The direction is w = a P z: the missing row z, projected off the span
by P, times an unknown factor a (the *share*): d - n equations for d columns of few
values, with frequencies estimated from the known rows. We alternate two steps: the
equations correct all columns at once, and each column's values get posterior
probabilities. What a step received from the previous one is subtracted (the extrinsic
mean), so that errors stay independent. Rounding and projecting alone ends at wrong rows
for n / d above 0.2.

Source: Rangan, Schniter and Fletcher 2019, "Vector approximate message passing", with
the projection as the linear step, and the share fitted after the first rounds.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import optimize, sparse

from informed.attacks.span import columns as values
from informed.attacks.span import uniqueness
from informed.attacks.span.basis import Basis
from informed.attacks.span.columns import Columns
from informed.attacks.span.completion import (
    PRECISION,
    PREMISE,
    SURE,
    Completion,
    digits,
)
from informed.attacks.span.direction import Direction

# Rounds of rounding and projecting. Successful searches take ten, seldom forty.
_ROUNDS = 200
# Smallest number of equations minus unknowns: a grid of a few columns has rows, such as
# zeros, that lie in any span.
FEWEST = 20
# The equations don't determine a column if changing it by a step changes the part off
# the span by less than this.
_SETTLED = 1e-3
# Rounding of projections, relative to a row's length.
_EXACT = 1e-12
# Largest residual, in errors of the direction: its norm, and in one column. The largest
# of ten thousand independent normal errors is 4 standard deviations.
_NORM, _COLUMN = 2.0, 8.0
# A column that is farther than this from a level, in steps, may have the next level.
_DOUBT = 0.3
# Rounds of message passing. Successful searches take five to thirty.
_MESSAGES = 60
# Rounds before the share is fitted, because early estimates are too coarse.
_FIXED = 2
# A larger share has diverged.
_DIVERGED = 1e30
# Weight of the new message; largest share of its variance that the last one may leave.
_DAMPING, _MOST = 0.7, 0.95
# A remainder below this share of the direction is rounding.
_DONE = 1e-10
# Stop after this many rounds that don't reduce the remainder by this factor.
_PATIENCE, _PROGRESS = 12, 0.98
# Largest number of values of all columns together: 64 MiB.
_LARGEST = 1 << 23


def complete(direction: Direction, known: Any) -> Completion | None:
    """Complete the row of the grid on which rounding and projection agree.

    Args:
      direction: the direction of one missing row off the rows known (known, features).
    Returns: its best row, with whether it is certified and why; None: no columns are
      discrete, or too few, or only known rows were reached.
    """
    columns = values.of(known)
    if columns is None or direction.rank != 1:
        return None
    grid = columns.discrete
    lattice = Lattice(direction, np.asarray(known, np.float64), columns)
    if lattice.equations < FEWEST:
        return None
    best, distance, sure = None, np.inf, False
    for start in _starts(lattice):
        row = _rounded(lattice, start)
        apart = lattice.distance(row)
        # Known rows are on the grid and in the span too, but aren't the target.
        if apart < distance and not lattice.spanned(row):
            best, distance, sure = row, apart, lattice.sure(row, apart)
        if sure:
            break
    if best is None:
        return None
    row, settled = lattice.extended(best)
    equal = sure and direction.equal(row[None])
    unique = sure and lattice.unique(best, sums=equal)
    # With one output, an error in a known row's columns off the grid would not show.
    certified = unique and bool(settled.all()) and bool(grid.all() or direction.alone)
    # Between rows of equal weight, a wrong value of a known row may have moved.
    certified = certified and not equal
    if certified:
        count = lattice.equations
        why = f"{count} equations more than unknowns hold to"
        why += f" {digits(count, distance) / count:.1f} digits each"
    elif unique and equal:
        why = "known rows of its weight may have given it some of their values"
    elif unique and settled.all():
        why = "with one output another error of a known row may be in what is measured"
    elif unique:
        why = "columns that aren't whole numbers aren't settled by those that are"
    elif sure:
        why = "known rows make another row of it that may be as good"
    else:
        why = "no row of such values lies in the span: are the known rows the others?"
    return Completion(
        row=row,
        certified=certified,
        determined=settled,
        why=why,
        error=0.0 if grid.all() else PRECISION,
        premise=PREMISE,
    )


class Lattice:
    """The discrete columns, with the span of the known rows and the direction in them.

    `along` (features,) is the direction off the span, of length one; vectors are in the
    units `scale` of the span's `basis`.
    """

    def __init__(
        self, direction: Direction, rows: np.ndarray, columns: Columns
    ) -> None:
        """Restrict a direction and the known rows to the discrete columns."""
        grid = columns.discrete
        self._grid, self._all = grid, grid.all()
        self.rows = rows if self._all else rows[:, grid]
        if self._all:
            self.basis, self.along = direction.basis, direction.vectors[0]
        else:
            self.basis = Basis.of(self.rows)
            # In a subset of columns, a direction is known up to a point of the span.
            full = direction.vectors[:1] * direction.basis.scale
            along = self.basis.off(full[:, grid] / self.basis.scale)[0]
            self.along = along / max(float(np.linalg.norm(along)), 1e-300)
        self._direction, self.error = direction, direction.error
        self.scale = self.basis.scale
        self.columns = columns.part(grid)
        # Number of equations minus number of unknowns.
        self.equations = len(self.along) - len(self.basis) - 1
        self.mean = self.rows.mean(axis=0) / self.scale
        squares = np.einsum("ij,ij->j", self.rows, self.rows) / len(self.rows)
        variance = np.maximum(squares / self.scale**2 - self.mean**2, 0.0)
        share = max(1 - len(self.basis) / len(self.along), 1e-6)
        # The expected length off the span, by the known rows' variances.
        self.expected = float(np.sqrt(variance.sum() * share))

    def off(self, row: np.ndarray, rounds: int = 1) -> np.ndarray:
        """Return the part of a row, in units, off the span and the direction."""
        off = self.basis.off(row[None], rounds)[0]
        return off - (off @ self.along) * self.along

    def distance(self, row: np.ndarray) -> float:
        """Measure a row's distance from span and direction, per equation, in steps."""
        off = self.off(row / self.scale, rounds=3) * self.scale / self.columns.step
        return float(np.linalg.norm(off) / np.sqrt(self.equations))

    def sure(self, row: np.ndarray, distance: float) -> bool:
        """Return whether the equations exceed the unknowns, in digits, and all hold.

        They hold if the residual is within the direction's error in every column, and
        leaves no doubt about any column's level.
        """
        if not digits(self.equations, distance) > self.columns.digits + SURE:
            return False
        scaled = row / self.scale
        off = self.off(scaled, rounds=3)
        length = abs(float(self.along @ scaled))
        expected = self.error * length + _EXACT * np.linalg.norm(scaled)
        return bool(
            np.linalg.norm(off) <= _NORM * expected
            and np.abs(off).max() <= _COLUMN * expected / np.sqrt(self.equations)
            and np.all(np.abs(off) <= _DOUBT * self.columns.step / self.scale)
        )

    def unique(self, row: np.ndarray, *, sums: bool) -> bool:
        """Return whether a limited search shows no other row of the grid as near.

        `sums`: whether `row` may be the sum of two rows.
        """
        middle = self.columns.step * (self.columns.low + self.columns.high)
        scaled = middle / self.scale
        off = np.linalg.norm(self.basis.off(scaled[None]))
        if off <= _EXACT * 1e3 * np.linalg.norm(scaled) and not self.columns.groups:
            # The span holds the row's mirror image.
            return False
        return not uniqueness.possible(row, self.rows, self.columns, sums=sums)

    def spanned(self, row: np.ndarray) -> bool:
        """Return whether a row is a known one, or lies in their span."""
        scaled = row / self.scale
        off = self.basis.off(scaled[None])[0]
        return bool(np.linalg.norm(off) <= 1e-6 * np.linalg.norm(scaled))

    def extended(self, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the row in all columns, and which columns the equations determine."""
        settled = 1 - self.basis.leverages - self.along**2 > _SETTLED**2
        if self._all:
            return row, settled
        basis, full = self._direction.basis, self._direction.vectors[0]
        # Coefficients fitted in the discrete columns give the others.
        spanning = np.vstack([basis.rows, full])
        equations = spanning[:, self._grid].T
        wanted = row / basis.scale[self._grid]
        solution, _, rank, _ = np.linalg.lstsq(equations, wanted, rcond=1e-10)
        extended = (spanning.T @ solution) * basis.scale
        extended[self._grid] = row
        error = self._direction.error * float(np.linalg.norm(extended / basis.scale))
        solved = rank == equations.shape[1] and error <= PRECISION
        determined = np.full(len(extended), solved)
        determined[self._grid] = settled
        return extended, determined


def _starts(lattice: Lattice) -> Iterator[np.ndarray]:
    """Yield starts for the rounding, in units, cheap ones first."""
    for sign in (1.0, -1.0):
        yield lattice.mean + sign * lattice.expected * lattice.along
    yield from messages(lattice)
    groups = lattice.columns.groups
    if not groups or (lattice.columns.low < 0).any():
        return
    for sign in (1.0, -1.0):
        row = _of_least_sum(lattice.basis.rows, sign * lattice.along)
        if row is not None:
            # Its length follows from the groups, which sum to one.
            yield row / np.median([(row * lattice.scale)[g].sum() for g in groups])


def _of_least_sum(rows: np.ndarray, off: np.ndarray) -> np.ndarray | None:
    """Minimise the sum of off + V^T c, no entry negative; None: infeasible.

    Entries are weighted by the inverse of the number of known rows V that have them.
    """
    used = (rows != 0).any(axis=0)
    some = sparse.csc_array(rows[:, used])
    solution = optimize.linprog(
        np.asarray(some @ (1 / np.diff(some.indptr))).ravel(),
        A_ub=-some.T,
        b_ub=off[used],
        bounds=(None, None),
        method="highs",
    )
    return off + solution.x @ rows if solution.status == 0 else None


def _rounded(lattice: Lattice, start: np.ndarray) -> np.ndarray:
    """Alternate rounding and projection until the row of the grid settles."""
    near = lattice.columns.rounded(start * lattice.scale)
    for _ in range(_ROUNDS):
        before, scaled = near, near / lattice.scale
        projected = (scaled - lattice.off(scaled)) * lattice.scale
        near = lattice.columns.rounded(projected)
        if np.array_equal(near, before):
            break
    return near


def messages(lattice: Lattice) -> Iterator[Float[np.ndarray, " features"]]:
    """Yield expected rows, in units, by message passing with both signs.

    There are none if the known rows are equal, or the values don't fit into memory.
    """
    columns, known = lattice.columns, len(lattice.rows)
    few = columns.high - columns.low + 1
    if not (lattice.expected > 0 and float(few.max()) * len(few) <= _LARGEST):
        return
    levels = columns.low + np.arange(int(few.max()))[:, None]
    rows = np.round(lattice.rows / columns.step)
    often = np.stack([(rows == level).sum(axis=0) for level in levels])
    # Half a row is added to every level: levels that no known row has are rare.
    log = np.log((often + 0.5) / (known + 0.5 * len(levels)))
    log[levels > columns.high] = -np.inf
    scaled = levels * (columns.step / lattice.scale)
    for sign in (1.0, -1.0):
        yield _passed(lattice, scaled, log, sign / lattice.expected)


def _passed(
    lattice: Lattice, levels: np.ndarray, log: np.ndarray, share: float
) -> np.ndarray:
    """Pass messages from one `share` until they converge; return the expected row.

    `levels` (levels, features) are possible values of each column, in units, `log` the
    logarithms of their frequencies in the known rows.
    """
    # Equations per column.
    free = 1 - len(lattice.basis) / len(lattice.along)
    # Error variance per equation of the direction.
    noise = lattice.error**2 / (len(lattice.along) * free)
    mean = share * lattice.mean
    best, since = np.inf, 0
    for turn in range(_MESSAGES):
        # The linear step: equations correct all columns at once.
        missing = lattice.along - lattice.basis.off(mean[None], rounds=1)[0]
        variance = max(float(missing @ missing) / (len(missing) * free) - noise, 1e-30)
        gain = variance / (variance + noise)
        near = mean + gain / free * missing
        here = max(variance * (1 / (gain * free) - 1), 1e-30)
        # Posteriors of columns: `near` is share x row, with errors of variance `here`.
        mixed = share * levels
        chance = log - (near - mixed) ** 2 / (2 * here)
        chance = np.exp(chance - chance.max(axis=0))
        chance /= chance.sum(axis=0)
        row = (chance * levels).sum(axis=0)
        uncertain = float((chance * (mixed - share * row) ** 2).sum(axis=0).mean())
        off = lattice.basis.off(row[None], rounds=1)[0]
        rest = float(np.linalg.norm(share * off - lattice.along))
        since = 0 if rest < _PROGRESS * best else since + 1
        best = min(best, rest)
        if rest < max(_DONE, lattice.error) or since > _PATIENCE:
            break
        if turn >= _FIXED:
            share = float(off @ lattice.along) / max(float(off @ off), 1e-300)
            if not abs(share) < _DIVERGED:
                break
        # The extrinsic mean: subtract the incoming message.
        taken = min(uncertain / here, _MOST)
        message = (share * row - taken * near) / (1 - taken)
        mean = message if not turn else _DAMPING * message + (1 - _DAMPING) * mean
    return row
