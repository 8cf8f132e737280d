"""Where missing rows went in each tree: node counts minus those of the known rows.

A leaf that holds one row more than the known ones of its bag holds the missing one. The
path from the root to it says on which side of each threshold the row lies. With several
missing rows a leaf may hold any of those that were drawn; what is said of one of them
is what is true under every assignment.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from artefacts.trees.bounds import Bounds, ContradictionError
from artefacts.trees.grown import Grown
from artefacts.trees.neighbours import narrow

# Entries of the table of positions and known rows that is made at once; bounds memory.
_AT_ONCE = 1 << 22


def surviving(
    tree: Grown,
    leaves: Int[np.ndarray, " known"],
    bag: Int[np.ndarray, " rows"],
    positions: Int[np.ndarray, " positions"],
    live: Bool[np.ndarray, " known"],
) -> Bool[np.ndarray, " positions"]:
    """Which positions of the one missing row explain a tree's counts.

    Args:
      tree: a tree whose counts are stored.
      leaves: (known,), the leaf that each known row falls into.
      bag: (rows,), how often each row of the training set was drawn; 0: it isn't in the
        tree.
      positions: the indices in the training set at which the missing row is tried.
      live: (known,), which known rows have a weight above zero.
    """
    known = len(leaves)
    nodes = np.flatnonzero(tree.leaf)
    assert tree.count is not None
    place = np.zeros((known, len(nodes)), np.float32)
    place[np.arange(known), np.searchsorted(nodes, leaves)] = 1.0
    kept = np.empty(len(positions), bool)
    step = max(1, _AT_ONCE // max(known, 1))
    for start in range(0, len(positions), step):
        some = positions[start : start + step]
        index = np.arange(known) + (np.arange(known) >= some[:, None])
        inside = ((bag > 0)[index] & live).astype(np.float32)
        # Sums of small integers are exact in floating point.
        more = tree.count[nodes] - inside @ place
        drawn = bag[some] > 0
        kept[start : start + step] = (
            (more >= 0).all(1) & (more <= 1).all(1) & (more.sum(1) == drawn)
        )
    return kept


def places(
    tree: Grown,
    leaves: Int[np.ndarray, " known"],
    bag: Int[np.ndarray, " known"],
    own: Int[np.ndarray, " missing"],
    *,
    multiplicities: bool = True,
) -> list[list[int]]:
    """The leaves that each missing row can be in.

    Args:
      tree: a tree whose counts are stored.
      leaves: (known,), the leaf that each known row falls into.
      bag: (known,), how often each known row was drawn.
      own: (missing,), how often each missing row was drawn.
      multiplicities: whether the tree's weights are the numbers of draws.
    Returns: for each missing row, leaves; none if it wasn't drawn.
    Raises: ContradictionError: no assignment gives the tree's counts.
    """
    assert tree.count is not None
    nodes = len(tree.count)
    more = tree.count - np.bincount(leaves[bag > 0], minlength=nodes)
    more[~tree.leaf] = 0
    present = np.flatnonzero(own > 0)
    candidates = np.flatnonzero(more)
    if (more < 0).any() or more.sum() != len(present):
        raise ContradictionError("counts of other rows")
    found: list[list[int]] = [[] for _ in own]
    if not len(present):
        return found
    heavier = None
    if multiplicities and tree.weight is not None:
        heavier = tree.weight - np.bincount(leaves, weights=bag, minlength=nodes)
    for choice in itertools.product(candidates, repeat=len(present)):
        chosen = np.asarray(choice)
        counts = np.bincount(chosen, minlength=nodes)
        if (counts[candidates] != more[candidates]).any():
            continue
        if heavier is not None:
            weights = np.bincount(chosen, weights=own[present], minlength=nodes)
            if (np.abs(weights - heavier)[candidates] > 1e-6).any():
                continue
        for row, leaf in zip(present, choice, strict=True):
            found[row].append(int(leaf))
    if not all(found[row] for row in present):
        raise ContradictionError("weights of other rows")
    return [sorted(set(each)) for each in found]


def follow(
    tree: Grown,
    known: Float[np.ndarray, "known features"],
    bag: Int[np.ndarray, " known"],
    placed: list[list[int]],
    bounds: list[Bounds],
) -> None:
    """Narrow each missing row's bounds by its path through a tree.

    Args:
      tree: a tree, with or without counts.
      known: (known, features), the known rows as the tree compares them, as float64.
      bag: (known,), how often each known row was drawn.
      placed: for each missing row, the leaves that it can be in, from `places`.
      bounds: for each missing row its bounds, narrowed in place.
    Raises: ContradictionError: no value of a row gives this tree.
    """
    through = [{node for leaf in each for node in tree.path(leaf)} for each in placed]
    for row, each in enumerate(placed):
        if not each:
            continue
        path = _shared(tree, each)
        inside = np.flatnonzero(bag > 0)
        for node, child in itertools.pairwise(path):
            feature, threshold = int(tree.feature[node]), float(tree.threshold[node])
            on_left = bool(child == tree.left[node])
            column = known[inside, feature]
            left = tree.goes_left(node, column)
            alone = not any(
                node in others for i, others in enumerate(through) if i != row
            )
            if feature in bounds[row].absent:
                if on_left != bool(tree.missing_left[node]):
                    raise ContradictionError("rows without a value go elsewhere")
            elif np.isinf(threshold):
                # Such a node splits off the rows without a value.
                if not on_left:
                    raise ContradictionError("no missing value is assumed", feature)
            elif tree.midpoints and alone:
                narrow(
                    bounds[row],
                    feature,
                    threshold,
                    on_left,
                    _extreme(column[left], np.max, -np.inf),
                    _extreme(column[~left], np.min, np.inf),
                )
            else:
                bounds[row].side(feature, threshold, on_left)
            inside = inside[left if on_left else ~left]


def _shared(tree: Grown, leaves: list[int]) -> list[int]:
    """The path from the root that all of these leaves have in common."""
    paths = [tree.path(leaf) for leaf in leaves]
    shared = []
    for nodes in zip(*paths, strict=False):
        if len(set(nodes)) > 1:
            break
        shared.append(nodes[0])
    return shared


def _extreme(
    column: np.ndarray, choose: Callable[[np.ndarray], Any], empty: float
) -> float:
    """The largest or smallest value that is there."""
    column = column[~np.isnan(column)]
    return float(choose(column)) if len(column) else empty


def exclude(
    trees: list[Grown], placed: list[list[list[int]]], bounds: list[Bounds]
) -> None:
    """Drop leaves that a missing row's bounds rule out; in place.

    Raises: ContradictionError: none is left to a row.
    """
    for tree, each in zip(trees, placed, strict=True):
        for row, leaves in enumerate(each):
            if len(leaves) < 2:
                continue
            each[row] = [leaf for leaf in leaves if _allowed(tree, leaf, bounds[row])]
            if not each[row]:
                raise ContradictionError("no leaf is left to a row")


def _allowed(tree: Grown, leaf: int, bounds: Bounds) -> bool:
    """Whether a row within these bounds can reach a leaf."""
    for node, child in itertools.pairwise(tree.path(leaf)):
        feature, threshold = tree.feature[node], tree.threshold[node]
        if child == tree.left[node]:
            if bounds.lower[feature] > threshold:
                return False
        elif bounds.upper[feature] <= threshold:
            return False
    return True
