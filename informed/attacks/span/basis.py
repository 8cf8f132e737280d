"""Project vectors off the span of the known rows.

We compute with the n x n matrix of inner products of n known rows of d columns, so that
no d x d matrix is needed. This squares the rows' condition number, so a projection is
repeated on its result to remove what remains in the span. `direction`, `lattice`,
`first_layers` and `linear_fit` use it.
"""

import dataclasses
import functools

import numpy as np
from jaxtyping import Float, Int
from scipy import linalg

# A row counts as a combination of the others if less than this share of its length is
# off their span: ten times the root of 1e-16, the rounding of a squared length.
_DEPENDENT = 1e-7
# Projections in all. Each multiplies the remainder in the span by 1e-16 times the
# squared condition number: three leave 1e-24 of it at 1e4, and 1e-6 at 1e7.
_ROUNDS = 3

Rows = Float[np.ndarray, "rows features"]
EPS = float(np.finfo(np.float64).eps)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Basis:
    """The span of some rows, in units in which every column's largest value is 1.

    The units don't change which rows lie in the span. Without them, rounding would
    swamp columns of small values.
    """

    scale: Float[np.ndarray, " features"]  # the unit of each column
    kept: Int[np.ndarray, " kept"]  # positions of rows that form a basis of the span
    rows: Rows  # these rows, in the units of `scale`
    factor: Float[np.ndarray, "rank rank"]  # lower Cholesky factor of their products

    @classmethod
    def of(cls, rows: Rows) -> "Basis":
        """Prepare the projection off (rows, features)."""
        rows = np.asarray(rows, np.float64)
        scale = np.abs(rows).max(axis=0, initial=0.0)
        # Columns of zeros get the median's unit.
        filled = scale > 0
        scale[~filled] = np.median(scale[filled]) if filled.any() else 1.0
        scaled = rows / scale
        kept, factor = _independent(scaled @ scaled.T)
        return cls(scale=scale, kept=kept, rows=scaled[kept], factor=factor)

    def __len__(self) -> int:
        """Return the dimension of the span."""
        return int(self.rows.shape[0])

    @property
    def features(self) -> int:
        """Number of columns of the rows."""
        return len(self.scale)

    def split(
        self, scaled: Rows, rounds: int = _ROUNDS
    ) -> tuple[Float[np.ndarray, "rows rank"], Rows]:
        """Return coefficients of the nearest points of the span, and the rest off it.

        `scaled` are vectors in the units of `scale`; `rounds` counts the projections,
        of which one is enough for the steps of a search.
        """
        coefficients = np.zeros((len(scaled), len(self)))
        off = np.asarray(scaled, np.float64)
        for _ in range(rounds):
            step = linalg.cho_solve((self.factor, True), self.rows @ off.T).T
            coefficients += step
            off = off - step @ self.rows
        return coefficients, off

    def off(self, scaled: Rows, rounds: int = _ROUNDS) -> Rows:
        """Return the part of vectors off the span; see `split`."""
        return self.split(scaled, rounds)[1]

    @functools.cached_property
    def leverages(self) -> Float[np.ndarray, " features"]:
        """Of the square of a change in each column alone, the share in the span."""
        squares = np.zeros(self.features)
        # Blocks, since the solution for all columns is dense.
        block = max(1, (1 << 25) // max(len(self), 1))
        for at in range(0, self.features, block):
            rows = self.rows[:, at : at + block]
            half = linalg.solve_triangular(self.factor, rows, lower=True)
            squares[at : at + block] = np.einsum("ij,ij->j", half, half)
        return np.minimum(squares, 1.0)


def _independent(products: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Choose rows that span all, and factor their inner products (Cholesky)."""
    lengths = np.sqrt(np.diag(products))
    there = np.flatnonzero(lengths > 0)
    unit = products[np.ix_(there, there)] / np.outer(lengths[there], lengths[there])
    _, order, rank, _ = linalg.lapack.dpstrf(unit, tol=_DEPENDENT**2, lower=1)
    kept = np.sort(there[order[:rank] - 1])
    if not len(kept):
        return kept, np.zeros((0, 0))
    return kept, linalg.cholesky(products[np.ix_(kept, kept)], lower=True)
