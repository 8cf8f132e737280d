"""The missing row's label, from what nodes store.

Classification: a node's `value` times its weight is the weight of each class in it;
minus the known rows' it is the missing row's, at its class. Class weights can depend on
the missing label itself ("balanced"), so every class is tried. Regression: a node's
value is the mean of its labels; the smaller the rest of the leaf, the less is lost to
rounding.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from artefacts.trees.grown import Grown

MEANS = ("squared_error", "friedman_mse", "poisson")


def classes_left(
    tree: Grown,
    leaf: int,
    leaves: Int[np.ndarray, " known"],
    weights: Float[np.ndarray, " known"],
    encoded: Int[np.ndarray, " known"],
    own: float,
    among: Sequence[int],
) -> list[int]:
    """Classes that the missing row can have, by the leaf that it fell into.

    Args:
      tree: a tree of a classifier.
      leaf: the index of the leaf that holds the missing row.
      leaves: (known,), the leaf that each known row falls into.
      weights: (known,), what each known row weighs in this tree; 0: it wasn't drawn.
      encoded: (known,), the indices of the known rows' classes.
      own: what the missing row weighs in this tree.
      among: the indices of the classes to be tried.
    """
    assert tree.weight is not None
    inside = leaves == leaf
    outputs = tree.value.shape[1]
    known = np.bincount(encoded[inside], weights=weights[inside], minlength=outputs)
    total = tree.value[leaf] * tree.weight[leaf]
    rest = total - known
    scale = 1e-9 * max(1.0, float(np.abs(total).sum()))
    return [
        label
        for label in among
        if np.abs(rest - own * (np.arange(outputs) == label)).max() <= scale
    ]


def mean_label(
    trees: Sequence[Grown],
    placed: Sequence[int],
    leaves: Sequence[Int[np.ndarray, " known"]],
    weights: Sequence[Float[np.ndarray, " known"]],
    labels: Float[np.ndarray, " known"],
    own: Sequence[float],
    *,
    means: bool,
) -> float | None:
    """The missing label of a regression, from the leaf where it weighs most.

    Args:
      trees: the trees of a regressor.
      placed: for each tree, the leaf that holds the missing row; -1: it wasn't drawn.
      leaves: for each tree, (known,), the leaf that each known row falls into.
      weights: (trees, known), what each known row weighs in each tree.
      labels: (known,), the known rows' outputs.
      own: (trees,), what the missing row weighs in each tree.
      means: whether a leaf's value is the mean of its rows; if not, only leaves that
        hold no known row tell.
    Returns: None where no leaf tells.
    """
    best, share = None, 0.0
    for tree, leaf, at, weight, mine in zip(
        trees, placed, leaves, weights, own, strict=True
    ):
        if leaf < 0:
            continue
        inside = (at == leaf) & (weight > 0)
        others = float(weight[inside].sum())
        part = mine / (mine + others)
        if part <= share or (others > 0 and not means):
            continue
        share = part
        total = float(tree.value[leaf, 0]) * (mine + others)
        best = (total - float(weight[inside] @ labels[inside])) / mine
        if part == 1.0:
            best = float(tree.value[leaf, 0])
            if mine == 1.0:
                break
    return best


def as_given(label: Any) -> Any:
    """A NumPy scalar as Python's own, which prints without its type."""
    return label.item() if isinstance(label, np.generic) else label
