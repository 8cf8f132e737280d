"""What remains when seeds, or counts, are gone: which rows a tree saw isn't known.

Some things are still certain, tree by tree, whatever was drawn:

- a leaf that predicts a class which no known row in it has, or holds more rows than the
  known ones in it, holds the missing row, which then lies on known sides of thresholds;
- a threshold that is the midpoint of no two known rows is that of the missing row and a
  known one. Each such threshold leaves few values, and what all of them leave is often
  one.

The second needs thresholds alone, which no copy that still predicts can do without.
Where every row is in every tree a third is certain: the one leaf whose value isn't the
mean of its known rows' holds the missing row, and the difference is the row's label.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from artefacts.trees.bounds import Bounds, ContradictionError
from artefacts.trees.grown import Grown
from artefacts.trees.neighbours import narrow


@dataclasses.dataclass(eq=False)
class Remains:
    """What is left of several trees.

    Attributes:
      bounds: the missing row's bounds.
      options: for each feature, the values that unexplained thresholds leave; None:
        all.
      classes: indices of classes that leaves prove the missing row to have.
      outputs: the missing row's output by each tree that tells it; of regressions.
      met: how many trees show that they saw the missing row.
    """

    bounds: Bounds
    options: list[np.ndarray | None]
    classes: set[int]
    outputs: list[float] = dataclasses.field(default_factory=list)
    met: int = 0


def collect(
    trees: Sequence[Grown],
    known: Float[np.ndarray, "known features"],
    encoded: Int[np.ndarray, " known"] | None,
    *,
    everything: bool,
    targets: Float[np.ndarray, "known outputs"] | None = None,
) -> Remains:
    """All that is certain of the one missing row without knowing the bags.

    Args:
      trees: all trees of one estimator.
      known: (known, features), the known rows as the trees compare them, as float64.
      encoded: (known,), the indices of the known rows' classes; None: a node's `value`
        isn't of classes.
      everything: whether every row is in every tree (no bootstrap), so that known rows
        next to a threshold are known to be there.
      targets: what a leaf's value is the mean of, for each known row, if every row is
        in every tree; None: it is no such mean.
    Raises: ContradictionError: no row explains these trees.
    """
    features = known.shape[1]
    remains = Remains(Bounds.open(features), [None] * features, set())
    for tree in trees:
        inside, left = _regions(tree, known)
        nodes = _proven(tree, inside, encoded, remains)
        if everything and targets is not None:
            nodes |= _other_mean(tree, inside, targets, remains)
        if tree.midpoints:
            nodes |= _unexplained(tree, known, inside, left, remains, everything)
        remains.met += bool(nodes)
        for node in nodes:
            for parent, child in itertools.pairwise(tree.path(node)):
                if np.isfinite(tree.threshold[parent]):
                    remains.bounds.side(
                        int(tree.feature[parent]),
                        float(tree.threshold[parent]),
                        bool(child == tree.left[parent]),
                    )
    _settle(remains)
    return remains


def _regions(
    tree: Grown, known: Float[np.ndarray, "known features"]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(known rows that fall into each node, which of them go left there)."""
    nodes = len(tree.left)
    inside: list[np.ndarray] = [np.zeros(0, np.int64)] * nodes
    left: list[np.ndarray] = [np.zeros(0, bool)] * nodes
    inside[0] = np.arange(len(known))
    for node in range(nodes):
        if not tree.leaf[node]:
            rows = inside[node]
            left[node] = tree.goes_left(node, known[rows, tree.feature[node]])
            inside[tree.left[node]] = rows[left[node]]
            inside[tree.right[node]] = rows[~left[node]]
    return inside, left


def _proven(
    tree: Grown,
    inside: list[np.ndarray],
    encoded: Int[np.ndarray, " known"] | None,
    remains: Remains,
) -> set[int]:
    """Leaves that hold the missing row, by what they predict or how many they hold."""
    found = set()
    for node in np.flatnonzero(tree.leaf):
        rows = inside[node]
        if tree.count is not None and tree.count[node] > len(rows):
            found.add(int(node))
        if encoded is not None:
            held = np.bincount(encoded[rows], minlength=tree.value.shape[1]) > 0
            strange = np.flatnonzero((tree.value[node] > 1e-9) & ~held)
            if len(strange):
                found.add(int(node))
                remains.classes |= {int(label) for label in strange}
    if len(found) > 1:
        raise ContradictionError("two leaves of one tree hold the one missing row")
    return found


def _other_mean(
    tree: Grown,
    inside: list[np.ndarray],
    targets: Float[np.ndarray, "known outputs"],
    remains: Remains,
) -> set[int]:
    """The one leaf whose value isn't the mean of its known rows'; collects its output.

    None where several are, as under weights that aren't told.
    """
    room = 1e-9 * max(1.0, float(np.abs(targets).max()))
    leaves = [int(node) for node in np.flatnonzero(tree.leaf)]
    other = [
        node
        for node in leaves
        if not len(inside[node])
        or np.abs(targets[inside[node]].mean(axis=0) - tree.value[node]).max() > room
    ]
    if len(other) != 1:
        return set()
    rows = inside[other[0]]
    own = tree.value[other[0]] * (len(rows) + 1) - targets[rows].sum(axis=0)
    if targets.shape[1] == 1:
        remains.outputs.append(float(own[0]))
        return {other[0]}
    named = int(own.argmax())
    if np.abs(own - np.eye(len(own))[named]).max() > 1e-6:
        return set()
    remains.classes.add(named)
    return {other[0]}


def _unexplained(
    tree: Grown,
    known: Float[np.ndarray, "known features"],
    inside: list[np.ndarray],
    left: list[np.ndarray],
    remains: Remains,
    everything: bool,
) -> set[int]:
    """Nodes whose threshold only the missing row explains; its values are collected."""
    found = set()
    for node in np.flatnonzero(~tree.leaf & np.isfinite(tree.threshold)):
        feature, threshold = int(tree.feature[node]), float(tree.threshold[node])
        column = known[inside[node], feature]
        lower = column[left[node] & ~np.isnan(column)]
        upper = column[~left[node] & ~np.isnan(column)]
        below = float(lower.max()) if len(lower) else -np.inf
        above = float(upper.min()) if len(upper) else np.inf
        if below / 2 + above / 2 == threshold:
            continue
        if everything:
            if not (len(lower) or len(upper)):
                raise ContradictionError("a node without rows")
            on_left = not len(lower) or (
                bool(len(upper)) and threshold > below / 2 + above / 2
            )
            narrow(remains.bounds, feature, threshold, on_left, below, above)
            found.add(int(node))
            continue
        lower, upper = np.unique(lower), np.unique(upper)
        if _explained(threshold, lower, upper):
            continue
        found.add(int(node))
        small, large = _partners(threshold, upper), _partners(threshold, lower)
        if small is None or large is None:
            continue
        values = np.union1d(small[small <= threshold], large[large > threshold])
        before = remains.options[feature]
        if before is not None:
            values = np.intersect1d(before, values)
        if not len(values):
            raise ContradictionError(f"feature {feature}: no value explains thresholds")
        remains.options[feature] = values
    return found


def _explained(threshold: float, lower: np.ndarray, upper: np.ndarray) -> bool:
    """Whether two known values have this midpoint, or nearly: doubt explains."""
    if not (len(lower) and len(upper)):
        return False
    wanted = 2.0 * threshold - lower
    doubt = 4.0 * np.spacing(max(abs(threshold), float(np.abs(lower).max())))
    at = np.searchsorted(upper, wanted - doubt)
    near = upper[np.minimum(at, len(upper) - 1)]
    return bool((np.abs(near - wanted) <= doubt).any())


def _partners(threshold: float, others: np.ndarray) -> np.ndarray | None:
    """Float32 values whose midpoint with one of these is the threshold.

    None: so many are that rounding hides which (neighbours of very unequal size).
    """
    guess = (2.0 * threshold - others).astype(np.float32)
    for direction in (-np.inf, np.inf):
        near = np.nextafter(guess, np.float32(direction)).astype(np.float64)
        if (near / 2 + others / 2 == threshold).any():
            return None
    values = guess.astype(np.float64)
    return values[values / 2 + others / 2 == threshold]


def _settle(remains: Remains) -> None:
    """Bounds from options, options from bounds."""
    bounds = remains.bounds
    for feature, values in enumerate(remains.options):
        if values is None:
            continue
        left: Bool[np.ndarray, " values"] = (values >= bounds.lower[feature]) & (
            values <= bounds.upper[feature]
        )
        values = values[left]
        if not len(values):
            raise ContradictionError(f"feature {feature}: no value explains thresholds")
        remains.options[feature] = values
        bounds.at_least(feature, float(values[0]))
        bounds.at_most(feature, float(values[-1]))
