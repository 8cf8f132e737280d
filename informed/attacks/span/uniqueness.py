"""Before an integer row is certified, check that no other row explains the direction.

`lattice` calls `possible`. A direction shows neither length nor sign, so every s z +
sum m_i k_i, of the result z and known rows k_i, has the same one; those on the grid are
*rivals*. Combinations with one or two known rows are tried, after an estimate of their
number by chance. Combinations with more, and sums of missing rows, are only estimated.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float

from informed.attacks.span.columns import Columns
from informed.attacks.span.completion import SURE

# Factors s of the row itself: its mirror image, its double and its half.
_FACTORS = (1.0, -1.0, 2.0, 0.5)
# Combinations whose frequency on the grid is estimated: s, and the known rows' signs.
_BY_CHANCE = ((1, (1, -1)), (1, (1, 1, -1, -1)), (-1, (1, 1)), (2, (-1,)))
# Random combinations for this estimate; combinations that choose the columns to test
# first; number of these columns; combinations tested at once, for memory.
_DRAWN, _SAMPLED, _FIRST, _PAIRS = 128, 32, 48, 1 << 22


def possible(
    row: Float[np.ndarray, " features"],
    rows: Float[np.ndarray, "rows features"],
    columns: Columns,
    *,
    sums: bool = False,
) -> bool:
    """Return whether another row of the grid may have the same direction.

    `sums`: whether the row may be the sum of two missing ones, as happens if training
    gave them equal weight. All columns are discrete.
    """
    terms = [*_BY_CHANCE, (0, (1, 1))] if sums else _BY_CHANCE
    if not len(rows):
        return False
    likely = any(_by_chance(row, rows, columns, s, signs) for s, signs in terms)
    return likely or any(_tried(row, rows, columns))


def _tried(row: np.ndarray, rows: np.ndarray, columns: Columns) -> Iterator[bool]:
    """Yield, for every combination of few terms, whether it is on the grid."""
    for factor in _FACTORS:
        base = factor * row
        if factor != 1:
            yield bool(_on_grid(base[None], columns).any())
        half = 0.5 if factor == 0.5 else 1.0
        for sign in (1.0, -1.0):
            yield _one(base, sign * half, rows, columns)
            if half == 1:
                yield _two(base, sign, rows, columns)


def _one(base: np.ndarray, share: float, rows: np.ndarray, columns: Columns) -> bool:
    """Return whether the base plus a share of a row is on the grid."""
    there = np.flatnonzero(rows.any(axis=1))
    if abs(share) == 1:
        some = _telling(base + share * rows[:_SAMPLED], columns)
    else:
        # Half a row is always in range but seldom whole, so any columns will do.
        some = np.arange(min(len(base), _FIRST))
    moved = base[some] + share * rows[:, some][there]
    near = there[_fits(moved, columns, some).all(axis=1)]
    return bool(_on_grid(base + share * rows[near], columns).any())


def _two(base: np.ndarray, sign: float, rows: np.ndarray, columns: Columns) -> bool:
    """Return whether the base, plus a row, plus or minus another is on the grid."""
    picked = np.random.default_rng(0).integers(len(rows), size=(2, _SAMPLED))
    first = _telling(base + rows[picked[0]] + sign * rows[picked[1]], columns)
    block = max(1, _PAIRS // len(rows))
    for at in range(0, len(rows), block):
        i, j = np.indices((min(block, len(rows) - at), len(rows))).reshape(2, -1)
        i, j = i[i + at != j] + at, j[i + at != j]
        for column in first:
            moved = base[column] + rows[i, column] + sign * rows[j, column]
            near = columns.inside(moved, column)
            i, j = i[near], j[near]
        for here, other in zip(i, j, strict=True):
            change = rows[here] + sign * rows[other]
            if change.any() and _on_grid((base + change)[None], columns).any():
                return True
    return False


def _telling(moved: np.ndarray, columns: Columns) -> np.ndarray:
    """Choose the columns in which these rows leave the grid most often."""
    return np.argsort(columns.inside(moved, slice(None)).sum(axis=0))[:_FIRST]


def _fits(values: np.ndarray, columns: Columns, where: Any) -> np.ndarray:
    """Return which values are whole and in range, in the columns `where`."""
    steps = values / columns.step[where]
    near = np.abs(steps - np.round(steps)) < 1e-6
    return np.asarray(columns.inside(values, where) & near)


def _on_grid(rows: np.ndarray, columns: Columns) -> np.ndarray:
    """Return which rows are on the grid: in range, whole, and valid one-hots."""
    good = _fits(rows, columns, slice(None))
    for group in columns.groups:
        good[:, group] &= (np.abs(rows[:, group].sum(axis=1) - 1) < 1e-6)[:, None]
    return np.asarray(good.all(axis=1))


def _by_chance(
    row: np.ndarray,
    rows: np.ndarray,
    columns: Columns,
    factor: int,
    signs: tuple[int, ...],
) -> bool:
    """Return whether a combination of so many terms may be on the grid by chance.

    The expected number is that of combinations times the probability of staying on the
    grid, as if columns and one-hots were independent.
    """
    rng = np.random.default_rng(0)
    picked = rows[rng.integers(len(rows), size=(_DRAWN, len(signs)))]
    moved = factor * row + np.einsum("t,ktj->kj", np.asarray(signs, float), picked)
    good = columns.inside(moved, slice(None))
    free = np.ones(len(row), bool)
    digits = 0.0
    for group in columns.groups:
        free[group] = False
        one = good[:, group].all(axis=1) & (np.abs(moved[:, group].sum(1) - 1) < 1e-6)
        digits -= np.log10((one.sum() + 0.5) / (_DRAWN + 0.5))
    stays = (good[:, free].sum(axis=0) + 0.5) / (_DRAWN + 0.5)
    digits -= float(np.log10(stays).sum())
    return bool(digits < len(signs) * np.log10(len(rows)) + SURE)
