"""Complete a direction to a sparse non-negative row, such as a document's word counts.

`missing_rows` calls `complete`; `lattice` starts from `least` for one-hots. The row is
z = t w + V^T c, with the direction w off the span and the n known rows V. It has n + 1
unknowns, of which t is a scale. Most of the d entries are zero, so we minimise a
weighted sum of entries, none negative: a linear program in c.

The certificate: any point can make as many entries zero as it has unknowns. Here every
unknown is determined more than once, and all equations agree: without any one equation
and its repetitions, the others give the same row. In terms of least squares, no
equation has a leverage of one. A sum of two documents is sparse as well; `missing_rows`
tests for it by other outputs, by integer entries and by equal weights.

If the missing document contains a whole known document, the latter lies in the span,
and minimisation drops it. No equation shows this, and the certificate says so.
"""

import dataclasses
from typing import Any

import numpy as np
from scipy import linalg, optimize, sparse

from informed.attacks.span.completion import SURE, Completion
from informed.attacks.span.direction import Direction

# Entries below this share of the largest count as zero: far above the rounding of 400
# known documents (1e-13), and far below a word's weight. For a less accurate direction
# the limit is this many of its errors.
_ZERO, _ERRORS = 1e-9, 10.0
# All other entries must be at least this many times that limit.
_CLEAR = 10.0
# Smallest distance of every equation's leverage from one.
_LEVERAGE = 1e-6
# The linear program's tolerance for zero, as a share of the largest entry.
_NEARLY = 1e-6
# Rounding in columns where the direction is zero, as a share of the column's unit.
_NOTHING = 1e-13
# Ridge added to the diagonal, and least squared length of a row: shares of the largest.
_RIDGE, _TINY = 1e-14, 1e-24


def complete(direction: Direction) -> Completion | None:
    """Complete the sparse non-negative row, up to its length.

    Args:
      direction: the direction of one missing row.
    Returns: a row of length 1 in the original units of the columns, with the better
      sign; None: there is more than one missing row, there are too few columns, or no
      non-negative row has this direction.
    """
    if direction.rank != 1 or direction.equations <= 0 or not len(direction.basis):
        return None
    zero = max(_ZERO, _ERRORS * direction.error)
    rows = sparse.csc_array(direction.basis.rows)
    rows.data[np.abs(rows.data) <= _NOTHING] = 0.0
    rows.eliminate_zeros()
    signed = [least(rows, sign * direction.vectors[0]) for sign in (1.0, -1.0)]
    judged = [_judged(direction, rows, row, zero) for row in signed if row is not None]
    if not judged:
        return None
    sure = [completion for completion in judged if completion.certified]
    # With several missing rows, each sign may give one of them.
    if len(sure) == 1 or (sure and len(direction.basis.beside)):
        return sure[0]
    if sure:
        why = "both signs of the direction have an answer"
        none = np.zeros(rows.shape[1], bool)
        judged = [
            dataclasses.replace(completion, certified=False, why=why, determined=none)
            for completion in sure
        ]
    return max(judged, key=lambda completion: int((completion.row == 0).sum()))


def least(rows: Any, off: np.ndarray) -> np.ndarray | None:
    """Minimise the sum of off + V^T c, no entry negative; None: infeasible.

    Entries are weighted by the inverse of the number of known rows that use their
    column. Otherwise a document that quotes a known one loses the shared words.

    The unknowns are c, one per known row; with the entries of z as unknowns the same
    program takes ten times as long.

    Args:
      rows: (rank, features), sparse by columns; V.
      off: (features,), a direction off the span of V.
    """
    used = np.flatnonzero(np.diff(rows.indptr) > 0)
    idle = np.delete(off, used)
    if (idle < -_ZERO * np.abs(off).max()).any():
        return None
    some = rows[:, used]
    cost = 1 / np.diff(some.indptr)
    solution = optimize.linprog(
        np.asarray(some @ cost).ravel(),
        A_ub=-some.T,
        b_ub=off[used],
        bounds=(None, None),
        method="highs",
    )
    if solution.status != 0:
        return None
    here = off + rows.T @ solution.x
    # Least squares make the nearly zero entries as small as possible.
    zero = used[np.abs(here[used]) <= _NEARLY * np.abs(here).max()]
    some = rows[:, zero]
    products = (some @ some.T).toarray()
    size = np.sqrt(np.maximum(np.diag(products), _TINY * np.diag(products).max()))
    unit = products / np.outer(size, size) + _RIDGE * np.eye(len(size))
    moved = linalg.solve(unit, -(some @ here[zero]) / size, assume_a="pos")
    return here + np.asarray(rows.T @ (moved / size))


def _judged(
    direction: Direction, rows: Any, here: np.ndarray, zero: float
) -> Completion:
    """Return the completion, certified if the zero entries determine the row."""
    scale = direction.basis.scale
    size = float(np.abs(here).max())
    nothing = np.abs(here) <= zero * size
    row = np.where(nothing, 0.0, here) * scale
    row = row / np.linalg.norm(row)
    certified, why = False, ""
    if (here < -zero * size).any():
        why = "no sparse row without negative entries lies in the span"
    else:
        # Columns that no known row uses are read directly, and determine no unknown.
        used = nothing & (np.diff(rows.indptr) > 0)
        more = int(used.sum()) - rows.shape[0]
        most, alike = _leverage(rows[:, np.flatnonzero(used)])
        digits = -more * np.log10(zero)
        settled = bool(more > 0 and most < 1 - _LEVERAGE and digits > SURE)
        clear = float(here[~nothing].min(initial=size)) > _CLEAR * zero * size
        certified = settled and clear
        if settled and not clear:
            why = (
                "the weights are rounded too coarsely to tell small entries from none:"
                f" to {direction.error:.0e}"
            )
        elif certified:
            why = (
                f"{int(used.sum())} entries are zero together, {more} more than there"
                f" are unknowns, and each unknown is settled twice ({alike} that say"
                " the same count once); a known document that it holds whole would not"
                " show"
            )
        else:
            why = "too few entries are zero to settle every unknown twice"
    return Completion(
        row=row,
        certified=certified,
        determined=np.full(len(row), certified),
        by="sparsity",
        why=why,
        error=zero,
        premise="none of its values is negative",
    )


def _leverage(columns: Any) -> tuple[float, int]:
    """Return the largest leverage of any equation, and how many equations repeat.

    Args:
      columns: (unknowns, equations), sparse.
    """
    lengths = np.sqrt(np.asarray(columns.multiply(columns).sum(axis=0))).ravel()
    unit = sparse.csc_array(columns @ sparse.diags_array(1 / lengths))
    # Equal columns have equal products with random numbers; others don't, to 1e-9.
    rng = np.random.default_rng(0)
    marks = np.abs(unit.T @ rng.standard_normal((unit.shape[0], 2)))
    _, first = np.unique(np.round(marks, 9), axis=0, return_index=True)
    distinct = np.sort(first)
    once = unit[:, distinct]
    products = (once @ once.T).toarray()
    try:
        factor = linalg.cholesky(products, lower=True)
    except linalg.LinAlgError:
        # No equation determines some unknown.
        return 1.0, unit.shape[1] - len(distinct)
    half = linalg.solve_triangular(factor, once.toarray(), lower=True)
    return float((half**2).sum(axis=0).max()), unit.shape[1] - len(distinct)
