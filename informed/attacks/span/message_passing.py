"""Rows of whole numbers out of a direction: approximate message passing.

A direction w is what the missing row has off the span of the known rows, w = P a z:
d - n equations for d columns, each of which takes few values, with frequencies that the
known rows show. In turns the equations correct all columns at once, and each column's
values get the probabilities that its correction leaves them. What a step has taken from
the step before is subtracted again (the extrinsic mean), so errors stay independent.
Without that, rounding and projecting in turns settles on wrong rows from n / d of 0.2
on. With it, genotypes come back at n / d of 0.4, and at 0.5 no longer.

Source: Rangan, Schniter and Fletcher, "Vector approximate message passing" (IEEE Trans.
Inf. Theory 65, 2019), with the projection as the linear step, and the share a fitted by
least squares in every round.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from informed.attacks.span.space import Space

# Rounds. A search that succeeds takes five to thirty.
_ROUNDS = 60
# Rounds before the share is fitted: before, estimates are too coarse.
_FIXED = 2
# A share beyond it has diverged.
_DIVERGED = 1e30
# Of the new message, what is taken; and of its variance, what the last may leave.
_DAMPING, _MOST = 0.7, 0.95
# Of the direction: less that is left of it is rounding.
_DONE = 1e-10
# Rounds without progress, and how much is progress.
_PATIENCE, _PROGRESS = 12, 0.98
# Values of all columns together, at most: 64 MiB of numbers.
_LARGEST = 1 << 23


def fits(space: Space) -> bool:
    """Whether the known rows differ, and all columns' values fit into memory."""
    if not space.expected > 0:
        return False
    few = space.columns.high - space.columns.low + 1
    return float(few.max()) * len(few) <= _LARGEST


def searched(space: Space) -> Iterator[Float[np.ndarray, " features"]]:
    """Search with both signs of the direction.

    Returns: expected rows, in units of the space.
    """
    columns, known = space.columns, len(space.rows)
    levels = columns.levels
    rows = np.round(space.rows / columns.step)
    often = np.stack([(rows == level).sum(axis=0) for level in levels])
    # Half a row more of every level: one that no known row has is rare.
    log = np.log((often + 0.5) / (known + 0.5 * len(levels)))
    log[levels > columns.high] = -np.inf
    values = levels * (columns.step / space.scale)
    for sign in (1.0, -1.0):
        yield _settled(space, values, log, sign / space.expected)


def _settled(
    space: Space, values: np.ndarray, log: np.ndarray, share: float
) -> np.ndarray:
    """Pass messages from one beginning until nothing moves.

    Args:
      values: (levels, features), what each column may be, in units of the space.
      log: (levels, features), logarithms of how often the known rows have them.
      share: what the row has in the direction, to begin with.
    """
    # Equations of each column.
    free = 1 - len(space.basis) / len(space.along)
    # Of each equation of the direction.
    noise = space.error**2 / (len(space.along) * free)
    mean = share * space.mean
    best, since = np.inf, 0
    for turn in range(_ROUNDS):
        missing = space.along - space.basis.off(mean[None], rounds=1)[0]
        variance = max(float(missing @ missing) / (len(missing) * free) - noise, 1e-30)
        gain = variance / (variance + noise)
        near = mean + gain / free * missing
        here = max(variance * (1 / (gain * free) - 1), 1e-30)
        row, uncertain = _expected(values, log, near, here, share)
        off = space.basis.off(row[None], rounds=1)[0]
        rest = float(np.linalg.norm(share * off - space.along))
        since = 0 if rest < _PROGRESS * best else since + 1
        best = min(best, rest)
        if rest < max(_DONE, space.error) or since > _PATIENCE:
            break
        if turn >= _FIXED:
            share = float(off @ space.along) / max(float(off @ off), 1e-300)
            if not abs(share) < _DIVERGED:
                break
        taken = min(uncertain / here, _MOST)
        message = (share * row - taken * near) / (1 - taken)
        mean = message if not turn else _DAMPING * message + (1 - _DAMPING) * mean
    return row


def _expected(
    values: np.ndarray, log: np.ndarray, near: np.ndarray, variance: float, share: float
) -> tuple[np.ndarray, float]:
    """The expected row, and the mean variance of its share of the direction.

    Args:
      near: (features,), share x row, off by independent errors of that variance.
    """
    mixed = share * values
    chance = log - (near - mixed) ** 2 / (2 * variance)
    chance = np.exp(chance - chance.max(axis=0))
    chance /= chance.sum(axis=0)
    row = (chance * values).sum(axis=0)
    return row, float((chance * (mixed - share * row) ** 2).sum(axis=0).mean())
