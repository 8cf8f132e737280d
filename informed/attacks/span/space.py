"""The columns of whole numbers in the span of the known rows and a direction."""

import functools

import numpy as np
from jaxtyping import Float

from informed.attacks.span import uniqueness
from informed.attacks.span.basis import Basis, dense
from informed.attacks.span.columns import Columns
from informed.attacks.span.completion import PRECISION, SURE, digits
from informed.attacks.span.direction import Direction

# Of a column's step: where less of a change in one column is off the span, in length,
# than this, equations don't settle that column.
_SETTLED = 1e-3
# Rounding of projections, of a row's length.
_EXACT = 1e-12
# Errors of the direction, all columns together and in one column: of independent noise
# the largest of ten thousand is 4 times its deviation, and twice that leaves room. The
# tests have every error below its estimate.
_NORM, _COLUMN = 2.0, 8.0
# Of a step: a column that is farther off may as well have the next level.
_DOUBT = 0.3


class Space:
    """The columns of whole numbers, as far as known rows and a direction span them.

    Attributes:
      columns: what values these columns take.
      basis: the known rows' span in them;  scale: its units.
      along: (features,), the direction off that span, of length one, in these units.
      rows: (known, features), the known rows in them.
      equations: how many more there are than unknowns.
      error: of the direction.
    """

    def __init__(
        self,
        direction: Direction,
        rows: Float[np.ndarray, "known features"],
        columns: Columns,
    ) -> None:
        """Restrict a direction to the columns that are discrete.

        Args:
          direction: of one missing row, or of a mixture.
          rows: the known ones, that its basis was made of.
        """
        grid = columns.discrete
        self._grid, self._whole = grid, grid.all()
        self.rows = rows if self._whole else rows[:, grid]
        if self._whole:
            self.basis, self.along = direction.basis, direction.vectors[0]
        else:
            self.basis = Basis(self.rows)
            # Directions are known up to a point of the span, in any columns.
            full = np.vstack([direction.basis.beside, direction.vectors])
            some = (full * direction.basis.scale)[:, grid] / self.basis.scale
            upper, _ = np.linalg.qr(self.basis.off(some).T)
            self.basis = self.basis.and_off(upper.T[:-1])
            self.along = upper.T[-1]
        self._direction, self.error = direction, direction.error
        self.scale = self.basis.scale
        self.columns = columns.part(grid)
        self.equations = len(self.along) - len(self.basis) - 1

    @functools.cached_property
    def mean(self) -> Float[np.ndarray, " features"]:
        """The known rows' mean, in units."""
        return self.rows.mean(axis=0) / self.scale

    @functools.cached_property
    def expected(self) -> float:
        """The length off the span that the known rows' variances let expect."""
        squares = np.einsum("ij,ij->j", self.rows, self.rows) / len(self.rows)
        variance = np.maximum(squares / self.scale**2 - self.mean**2, 0.0)
        left = max(1 - len(self.basis) / len(self.along), 1e-6)
        return float(np.sqrt(variance.sum() * left))

    def off(self, row: np.ndarray, rounds: int = 1) -> np.ndarray:
        """What of a row, in units, is off the span and the direction."""
        left = self.basis.off(row[None], rounds)[0]
        return left - (left @ self.along) * self.along

    def distance(self, row: np.ndarray) -> float:
        """How far a row is from the span and the direction, an equation, in steps."""
        off = self.off(row / self.scale, rounds=3) * self.scale / self.columns.step
        return float(np.linalg.norm(off) / np.sqrt(self.equations))

    def sure(self, row: np.ndarray, distance: float) -> bool:
        """Whether equations outnumber what is unknown, by digits, and all hold."""
        enough = digits(self.equations, distance) > self.columns.digits + SURE
        return enough and self.within_error(row)

    def within_error(self, row: np.ndarray, steps: np.ndarray | None = None) -> bool:
        """Whether what is off the span is the direction's error, in every column.

        And whether it leaves no doubt of any column's level.

        Args:
          steps: in units, to the nearest other value of each column; None: a step.
        """
        scaled = row / self.scale
        off = self.off(scaled, rounds=3)
        length = np.linalg.norm(np.vstack([self.basis.beside, self.along]) @ scaled)
        expected = self.error * length + _EXACT * np.linalg.norm(scaled)
        each = expected / np.sqrt(self.equations)
        steps = self.columns.step / self.scale if steps is None else steps
        return bool(
            np.linalg.norm(off) <= _NORM * expected
            and np.abs(off).max() <= _COLUMN * each
            and np.all(np.abs(off) <= _DOUBT * steps)
        )

    def unique(
        self, row: np.ndarray, others: np.ndarray | None = None, *, sums: bool = False
    ) -> bool:
        """Whether no other row of the grid is as far from the span, as far as is tried.

        Args:
          others: (rows, features), further rows that may be exchanged for known ones.
          sums: whether it may be the sum of two rows.
        """
        middle = self.columns.step * (self.columns.low + self.columns.high)
        scaled = middle / self.scale
        left = np.linalg.norm(self.basis.off(scaled[None]))
        if left <= _EXACT * 1e3 * np.linalg.norm(scaled) and not self.columns.groups:
            # The span holds the row's mirror image.
            return False
        rows = self.rows if others is None else np.vstack([self.rows, others])
        return not uniqueness.possible(row, rows, self.columns, sums=sums)

    def known(self, row: np.ndarray) -> bool:
        """Whether it is a known row, or lies in their span."""
        scaled = row / self.scale
        off = self.basis.off(scaled[None])[0]
        return bool(np.linalg.norm(off) <= 1e-6 * np.linalg.norm(scaled))

    def extended(self, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The row in all columns, and which of them are settled."""
        settled = 1 - self.basis.leverages - self.along**2 > _SETTLED**2
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
