"""The last few wrong pixels: combinations of moves on the lattice of levels.

A search that ends near the answer leaves a few pixels one level off. One move alone
seldom helps: with kinks, what a run misses the aim by says little. So every single move
is run; what moves do together is predicted as the sum of what they do alone, and the
most promising combinations are run as well. Outputs are weighted by how far they are
from being additive: a move up and the same move down should cancel. Then the same again
around the best image that has not been a centre yet, even if it is worse than the last.

Source: ours; a beam search for the closest vector, with a tabu list.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from informed.attacks.inversion.clouds import CloudState, Function, distance_to, squares

_LEAST_SHARE = 1e-3  # of the median square, added to every output's
_DIGITS = 6  # of coordinates, to know a centre again


def search(
    runs: Function,
    aim: Float[np.ndarray, " outputs"],
    found: CloudState,
    neighbours: Function,
    *,
    explained: Callable[[np.ndarray], bool] = lambda residual: False,
    rounds: int = 8,
    width: int = 128,
    depth: int = 8,
) -> CloudState:
    """The point of the lattice around `found` whose outputs are nearest to `aim`.

    Args:
      runs: us (points, unknowns) -> (points, outputs), float64.
      aim: the wanted outputs.
      found: where to begin.
      neighbours: u (unknowns,) -> (points, unknowns), the first the nearest point of
        the lattice, the others one move away from it.
      explained: whether a residual is nothing but rounding, which ends the search.
      rounds: centres, at most.
      width: combinations of each size that are run.
      depth: moves in a combination, at most.
    Returns: `found`, or what is nearer.
    """
    u, value = found.u, found.value
    nearest, least = (u, value), distance_to(value, aim)
    visited: set[bytes] = set()
    for _ in range(rounds):
        if explained(value - aim):
            break
        beside = neighbours(u)
        outputs = runs(beside)
        there = np.atleast_1d(np.isfinite(outputs).all(axis=1))
        if not there[0]:
            break
        u, value, visited = beside[0], outputs[0], {*visited, _key(beside[0])}
        beside, outputs = beside[there], outputs[there]
        moves, changes = beside[1:] - u, outputs[1:] - value
        deviations = _not_additive(moves, changes)
        sets = combinations(
            changes / deviations, (value - aim) / deviations, width, depth
        )
        if sets:
            together = np.array([u + moves[list(each)].sum(axis=0) for each in sets])
            beside = np.concatenate([beside, together])
            outputs = np.concatenate([outputs, runs(together)])
        away = squares((outputs - aim) / deviations)
        fresh = [_key(each) not in visited for each in beside]
        away = np.where(fresh, away, np.inf)
        best = int(np.argmin(away))
        plain = np.sqrt(squares(outputs - aim))
        closest = int(np.argmin(plain))
        if plain[closest] < least:
            nearest, least = (beside[closest], outputs[closest]), plain[closest]
            if explained(outputs[closest] - aim):
                break
        if not np.isfinite(away[best]):
            break
        u, value = beside[best], outputs[best]
    return dataclasses.replace(found, u=nearest[0], value=nearest[1])


def combinations(
    changes: Float[np.ndarray, "moves outputs"],
    residual: Float[np.ndarray, " outputs"],
    width: int,
    depth: int,
) -> list[tuple[int, ...]]:
    """Sets of two moves and more whose changes add up to minus the residual, nearly.

    Args:
      changes: of the outputs, by each move alone.
      residual: of the outputs, where no move is made.
      width: sets kept of each size.
      depth: moves in a set, at most.
    """
    gram, slope = changes @ changes.T, changes @ residual
    count = len(slope)
    sets: list[tuple[int, ...]] = [()]
    scores, along = np.zeros(1), np.zeros((1, count))
    kept: list[tuple[int, ...]] = []
    for size in range(1, min(depth, count) + 1):
        after = scores[:, None] + 2 * (slope + along) + np.diag(gram)
        for row, each in enumerate(sets):
            after[row, list(each)] = np.inf
        found: dict[tuple[int, ...], tuple[int, int]] = {}
        # The same set comes out once for each of its moves.
        most = min(width * size, after.size)
        for flat in np.argsort(after, axis=None, kind="stable")[:most]:
            row, move = divmod(int(flat), count)
            if np.isfinite(after[row, move]) and len(found) < width:
                found.setdefault(tuple(sorted((*sets[row], move))), (row, move))
        rows = [row for row, _ in found.values()]
        moves = [move for _, move in found.values()]
        scores = after[rows, moves]
        along = along[rows] + gram[moves]
        sets = list(found)
        if size > 1:
            kept += sets
    return kept


def _not_additive(
    moves: Float[np.ndarray, "moves unknowns"],
    changes: Float[np.ndarray, "moves outputs"],
) -> Float[np.ndarray, " outputs"]:
    """Of every output, how far opposite moves are from cancelling; > 0."""
    size = np.linalg.norm(moves, axis=1)
    pairs = []
    for i, move in enumerate(moves):
        opposite = np.linalg.norm(moves[i + 1 :] + move, axis=1) < 1e-3 * size[i]
        pairs += [(i, i + 1 + int(j)) for j in np.flatnonzero(opposite)]
    if not pairs:
        return np.ones(changes.shape[1])
    left, right = np.array(pairs).T
    apart = np.mean((changes[left] + changes[right]) ** 2, axis=0)
    apart += _LEAST_SHARE * np.median(apart)
    return np.sqrt(np.maximum(apart, np.finfo(np.float64).tiny))


def _key(u: np.ndarray) -> bytes:
    return np.round(u, _DIGITS).tobytes()
