"""Rows of whole numbers out of a direction: approximate message passing.

A direction w is what one missing row, or a mixture of two, has off the span of the
known rows:

    w = P (a_1 z_1 + a_2 z_2),

d - n equations for d columns, each of which takes few values, that the known rows tell
how often. In turns the equations correct all columns at once, and each column's values
get the probabilities that its correction leaves them. What a step has taken from the
step before is taken off again (the extrinsic mean), so that errors stay independent:
without that, rounding and projecting in turns settles on wrong rows from n / d of 0.2
on, and never separates two rows. With it, genotypes come back at n / d of 0.4, and at
0.5 no longer.

Source: Rangan, Schniter and Fletcher, "Vector approximate message passing" (IEEE Trans.
Inf. Theory 65, 2019), with the projection as the linear step, and the shares a fitted
by least squares in every round.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from artefacts.span.space import Space

# Rounds. Rows that are found take five to thirty.
_ROUNDS = 60
# Rounds before shares are fitted: before, estimates are too coarse to tell them.
_FIXED = 2
# Shares of rows in the direction: where they grow beyond it there are no such rows.
_DIVERGED = 1e30
# Of the new message, what is taken; and of its variance, what the last may leave.
_DAMPING, _MOST = 0.7, 0.95
# Of the direction: less that is left of it is rounding.
_DONE = 1e-10
# Rounds without progress, and how much is progress.
_PATIENCE, _PROGRESS = 12, 0.98
# Cells of all columns' values together that are looked at: 64 MiB of numbers.
_LARGEST = 1 << 23
# Of two rows: ratios of their shares to begin with.
_RATIOS = (-1.0, 1.0, -0.6, 0.6, -0.3, 0.3)


class Found(NamedTuple):
    """Where a search settled.

    Attributes:
      rows: (count, features), in the columns' own units, expected values.
      shares: (count,), what each row has in the direction.
      left: what of the direction they don't explain, of its length.
    """

    rows: Float[np.ndarray, "count features"]
    shares: Float[np.ndarray, " count"]
    left: float


def fits(space: Space, count: int) -> bool:
    """Whether the known rows differ, and all columns' values fit into memory."""
    if not space.expected > 0:
        return False
    few = space.columns.high - space.columns.low + 1
    return float(few.max()) ** count * len(few) <= _LARGEST


def searched(space: Space, count: int) -> Iterator[Found]:
    """Search from several beginnings.

    Args:
      count: rows that the direction is a mixture of, one or two.
    """
    values = _Values(space, count)
    ratios = [()] if count == 1 else [(ratio,) for ratio in _RATIOS]
    for ratio in ratios:
        shares = np.array([1.0, *ratio])
        shares /= np.linalg.norm(shares) * space.expected
        for sign in (1.0, -1.0):
            yield _settled(space, values, sign * shares)


class _Values:
    """What each column may be, and how often the known rows are."""

    def __init__(self, space: Space, count: int) -> None:
        columns, known = space.columns, len(space.rows)
        levels = columns.levels
        most = len(levels)
        rows = np.round(space.rows / columns.step)
        often = np.stack([(rows == level).sum(axis=0) for level in levels])
        # Half a row more of every level: one that no known row has is rare.
        log = np.log((often + 0.5) / (known + 0.5 * most))
        log[levels > columns.high] = -np.inf
        combined = np.indices((most,) * count).reshape(count, -1)
        # (count, combinations, features), in units of the space; and of how often each
        # stands there the logarithm, (combinations, features).
        self.levels = (levels * (columns.step / space.scale))[combined]
        self.log = log[combined].sum(axis=0)

    def expected(
        self, near: np.ndarray, variance: float, shares: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Expected rows, and the mean variance of their mixture.

        Args:
          near: (features,), the mixture, off by independent errors of that variance.
        """
        mixed = np.einsum("i,i...->...", shares, self.levels)
        chance = self.log - (near - mixed) ** 2 / (2 * variance)
        chance = np.exp(chance - chance.max(axis=0))
        chance /= chance.sum(axis=0)
        rows = np.einsum("kj,ikj->ij", chance, self.levels)
        spread = np.einsum("kj,kj->j", chance, (mixed - shares @ rows) ** 2)
        return rows, float(spread.mean())


def _settled(space: Space, values: _Values, shares: np.ndarray) -> Found:
    """Messages from one beginning until nothing moves."""
    # Equations of each column.
    free = 1 - len(space.basis) / len(space.along)
    # Of each equation of the direction.
    noise = space.error**2 / (len(space.along) * free)
    mean = shares.sum() * space.mean
    best, since = np.inf, 0
    for turn in range(_ROUNDS):
        missing = space.along - space.basis.off(mean[None], rounds=1)[0]
        variance = max(float(missing @ missing) / (len(missing) * free) - noise, 1e-30)
        gain = variance / (variance + noise)
        near = mean + gain / free * missing
        here = max(variance * (1 / (gain * free) - 1), 1e-30)
        rows, spread = values.expected(near, here, shares)
        off = space.basis.off(rows, rounds=1)
        left = float(np.linalg.norm(shares @ off - space.along))
        since = 0 if left < _PROGRESS * best else since + 1
        best = min(best, left)
        if left < max(_DONE, space.error) or since > _PATIENCE:
            break
        if turn >= _FIXED:
            shares = np.linalg.lstsq(off.T, space.along, rcond=None)[0]
            if not np.abs(shares).max() < _DIVERGED:
                break
        taken = min(spread / here, _MOST)
        message = (shares @ rows - taken * near) / (1 - taken)
        mean = message if not turn else _DAMPING * message + (1 - _DAMPING) * mean
    return Found(rows * space.scale, shares, left)
