"""Projections off the span of the known rows, dense or sparse.

Everything goes through the n x n matrix of inner products of the known rows, so that
no matrix of d x d, and of a sparse input no dense n x d, is ever made. That matrix has
the square of the rows' condition number; a projection is therefore done more than once,
each time on what the time before left over.
"""

import copy
import functools
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import linalg, sparse

# A row counts as a combination of the others where less than this of its length is off
# their span. Inner products are exact to 1e-16 of a squared length, whose root is 1e-8;
# ten times that keeps rounding out.
_DEPENDENT = 1e-7
# Projections that follow one another. Each divides what is left of the span by the
# inverse of 1e-16 times the squared condition number; two are enough up to 1e7.
_ROUNDS = 3

Rows = Float[np.ndarray, "rows features"]
EPS = float(np.finfo(np.float64).eps)


def dense(rows: Any) -> Any:
    """Return a sparse matrix as an array, and an array as it is."""
    return rows.toarray() if hasattr(rows, "toarray") else rows


class Basis:
    """The span of some rows, in units in which every column's largest value is 1.

    Which rows lie in the span doesn't depend on the units of the columns, and columns
    of very different size would lose the small ones to rounding.

    Attributes:
      scale: (features,), the unit of each column.
      kept: (rows,) int, positions of rows that span the same as all of them.
      rows: (dimension, features), rows that span it, in the units of `scale`.
      beside: (vectors, features), what `and_off` added, in the units of `scale`.
    """

    def __init__(self, rows: Any) -> None:
        """Prepare the projection.

        Args:
          rows: (rows, features), an array or a sparse matrix of SciPy's.
        """
        scaled, self.scale = _in_units(rows)
        products = dense(scaled @ scaled.T)
        self.kept, self._factor = _independent(products)
        self.rows = scaled[self.kept]
        self.beside: Rows = np.zeros((0, len(self.scale)))

    def and_off(self, vectors: Rows) -> "Basis":
        """The span of these rows and of vectors off it.

        Args:
          vectors: in the units of `scale`, orthonormal, and off the span.
        """
        more = copy.copy(self)
        more.__dict__.pop("leverages", None)
        more.beside = np.vstack([self.beside, vectors])
        stack = sparse.vstack if sparse.issparse(self.rows) else np.vstack
        more.rows = stack([self.rows, vectors])
        if sparse.issparse(more.rows):
            more.rows = sparse.csr_array(more.rows)
        more._factor = linalg.block_diag(self._factor, np.eye(len(vectors)))
        return more

    def __len__(self) -> int:
        """The dimension of the span."""
        return int(self.rows.shape[0])

    @property
    def features(self) -> int:
        """Number of columns."""
        return len(self.scale)

    def split(
        self, scaled: Rows, rounds: int = _ROUNDS
    ) -> tuple[Float[np.ndarray, "rows rank"], Rows]:
        """Coefficients of the nearest points of the span, and what is left off it.

        Args:
          scaled: vectors in the units of `scale`.
          rounds: projections that follow one another; one is enough inside a search.
        """
        found = np.zeros((len(scaled), len(self)))
        left = np.asarray(scaled, np.float64)
        for _ in range(rounds):
            step = self._solve(left)
            found += step
            left = left - np.asarray((self.rows.T @ step.T).T)
        return found, left

    def off(self, scaled: Rows, rounds: int = _ROUNDS) -> Rows:
        """What is left of vectors off the span; see `split`."""
        return self.split(scaled, rounds)[1]

    @functools.cached_property
    def leverages(self) -> Float[np.ndarray, " features"]:
        """Of each column: the share of a change in it alone that stays in the span."""
        whole = np.zeros(self.features)
        # Blocks, since the solution for all columns is dense.
        block = max(1, (1 << 25) // max(len(self), 1))
        for at in range(0, self.features, block):
            rows = dense(self.rows[:, at : at + block])
            half = linalg.solve_triangular(self._factor, rows, lower=True)
            whole[at : at + block] = np.einsum("ij,ij->j", half, half)
        return np.minimum(whole, 1.0)

    def _solve(self, scaled: Rows) -> Float[np.ndarray, "rows rank"]:
        products = np.asarray(self.rows @ scaled.T)
        return linalg.cho_solve((self._factor, True), products).T


def _in_units(rows: Any) -> tuple[Any, np.ndarray]:
    """Rows in units of each column's largest value; columns of zeros: the median's."""
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
    """Rows that span all, and the lower Cholesky factor of their inner products."""
    lengths = np.sqrt(np.diag(products))
    there = np.flatnonzero(lengths > 0)
    unit = products[np.ix_(there, there)] / np.outer(lengths[there], lengths[there])
    _, order, rank, _ = linalg.lapack.dpstrf(unit, tol=_DEPENDENT**2, lower=1)
    kept = np.sort(there[order[:rank] - 1])
    if not len(kept):
        return kept, np.zeros((0, 0))
    return kept, linalg.cholesky(products[np.ix_(kept, kept)], lower=True)
