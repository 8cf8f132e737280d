"""Project vectors off the span of the known rows, also of large sparse ones.

`direction`, `lattice`, `first_layers` and `linear_fit` use it. We compute with the
n x n matrix of inner products of n known rows of d columns, so that no d x d matrix is
needed, and for sparse inputs no dense n x d one. This squares the rows' condition
number, so a projection is repeated on its result to remove what remains in the span.
"""

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy import linalg, sparse

# A row counts as a combination of the others if less than this share of its length is
# off their span: ten times the rounding of inner products, 1e-16 of a squared length.
_DEPENDENT = 1e-7
# Repeated projections. Each multiplies the remainder in the span by 1e-16 times the
# squared condition number; two suffice up to a condition number of 1e7.
_ROUNDS = 3

Rows = Float[np.ndarray, "rows features"]
EPS = float(np.finfo(np.float64).eps)


def dense(rows: Any) -> Any:
    """Return a sparse matrix as an array, and an array as it is."""
    return rows.toarray() if hasattr(rows, "toarray") else rows


def stacked(rows: Any, more: Rows) -> Any:
    """Stack an array on rows, which may be sparse and stay so."""
    if sparse.issparse(rows):
        return sparse.csr_array(sparse.vstack([rows, more]))
    return np.vstack([rows, more])


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Basis:
    """The span of some rows, in units in which every column's largest value is 1.

    The units don't change which rows lie in the span. Without them, rounding would
    swamp columns of small values.

    Attributes:
      scale: (features,), the unit of each column.
      kept: (rows,) int, positions of rows that form a basis of the span.
      rows: (dimension, features), these rows, in the units of `scale`.
      factor: (dimension, dimension), the lower Cholesky factor of their inner products.
      beside: (vectors, features), vectors that `and_off` added, in these units.
    """

    scale: Float[np.ndarray, " features"]
    kept: Int[np.ndarray, " kept"]
    rows: Any
    factor: Float[np.ndarray, "rank rank"]
    beside: Rows

    @classmethod
    def of(cls, rows: Any) -> "Basis":
        """Prepare the projection off (rows, features), an array or a sparse matrix."""
        scaled, scale = _in_units(rows)
        kept, factor = _independent(dense(scaled @ scaled.T))
        nothing = np.zeros((0, len(scale)))
        return cls(
            scale=scale, kept=kept, rows=scaled[kept], factor=factor, beside=nothing
        )

    def and_off(self, vectors: Rows) -> "Basis":
        """Return the span of these rows and of vectors off it.

        Args:
          vectors: orthonormal vectors off the span, in the units of `scale`.
        """
        return Basis(
            scale=self.scale,
            kept=self.kept,
            rows=stacked(self.rows, vectors),
            factor=linalg.block_diag(self.factor, np.eye(len(vectors))),
            beside=np.vstack([self.beside, vectors]),
        )

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

        Args:
          scaled: vectors in the units of `scale`.
          rounds: number of repeated projections; one is enough inside a search.
        """
        coefficients = np.zeros((len(scaled), len(self)))
        off = np.asarray(scaled, np.float64)
        for _ in range(rounds):
            products = np.asarray(self.rows @ off.T)
            step = linalg.cho_solve((self.factor, True), products).T
            coefficients += step
            off = off - np.asarray((self.rows.T @ step.T).T)
        return coefficients, off

    def off(self, scaled: Rows, rounds: int = _ROUNDS) -> Rows:
        """Return the part of vectors off the span; see `split`."""
        return self.split(scaled, rounds)[1]

    @functools.cached_property
    def leverages(self) -> Float[np.ndarray, " features"]:
        """The share of a change in each column alone that stays in the span."""
        squares = np.zeros(self.features)
        # Blocks, since the solution for all columns is dense.
        block = max(1, (1 << 25) // max(len(self), 1))
        for at in range(0, self.features, block):
            rows = dense(self.rows[:, at : at + block])
            half = linalg.solve_triangular(self.factor, rows, lower=True)
            squares[at : at + block] = np.einsum("ij,ij->j", half, half)
        return np.minimum(squares, 1.0)


def _in_units(rows: Any) -> tuple[Any, np.ndarray]:
    """Scale rows to each column's largest value; columns of zeros: the median's."""
    if sparse.issparse(rows):
        rows = sparse.csr_array(rows, dtype=np.float64)
        largest = np.asarray(abs(rows).max(axis=0).todense()).ravel()
    else:
        rows = np.asarray(rows, np.float64)
        largest = np.abs(rows).max(axis=0, initial=0.0)
    filled = largest > 0
    largest[~filled] = np.median(largest[filled]) if filled.any() else 1.0
    if sparse.issparse(rows):
        return sparse.csr_array(rows @ sparse.diags_array(1 / largest)), largest
    return rows / largest, largest


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
