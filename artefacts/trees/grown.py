"""Fitted trees of any of scikit-learn's estimators, as arrays of nodes."""

import dataclasses
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int


@dataclasses.dataclass(frozen=True, eq=False)
class Grown:
    """One tree.

    Attributes:
      feature: (nodes,), the feature that a node splits; -1 at leaves.
      threshold: (nodes,), the value up to which rows go left.
      missing_left: (nodes,) bool, whether rows without this value go left.
      left: (nodes,), the index of the left child; -1 at leaves.
      right: (nodes,), the index of the right child; -1 at leaves.
      count: (nodes,), how many training rows with positive weight reach the node; None:
        stripped.
      weight: (nodes,), the sum of the weights of these rows; None: not stored.
      value: (nodes, outputs), what the node predicts.
      impurity: (nodes,), the impurity of the node's rows; None: not stored.
      midpoints: whether thresholds are midpoints of two of the node's rows, as the best
        splitter makes them.
      dtype: the type that rows have when they are compared with thresholds.
      seed: the seed of this tree; None: it isn't stored as an integer.
    """

    feature: Int[np.ndarray, " nodes"]
    threshold: Float[np.ndarray, " nodes"]
    missing_left: Bool[np.ndarray, " nodes"]
    left: Int[np.ndarray, " nodes"]
    right: Int[np.ndarray, " nodes"]
    count: Int[np.ndarray, " nodes"] | None
    weight: Float[np.ndarray, " nodes"] | None
    value: Float[np.ndarray, "nodes outputs"]
    impurity: Float[np.ndarray, " nodes"] | None
    midpoints: bool
    dtype: Any
    seed: int | None

    @cached_property
    def leaf(self) -> Bool[np.ndarray, " nodes"]:
        """Which nodes are leaves."""
        return self.left < 0

    @cached_property
    def parent(self) -> Int[np.ndarray, " nodes"]:
        """Of each node; -1 for the root."""
        parent = np.full(len(self.left), -1)
        inner = np.flatnonzero(~self.leaf)
        parent[self.left[inner]] = inner
        parent[self.right[inner]] = inner
        return parent

    def path(self, node: int) -> list[int]:
        """From the root to a node, both included."""
        nodes = [int(node)]
        while self.parent[nodes[-1]] >= 0:
            nodes.append(int(self.parent[nodes[-1]]))
        return nodes[::-1]

    def goes_left(self, node: int, column: np.ndarray) -> Bool[np.ndarray, " rows"]:
        """Which rows go left at a node, by their value of its feature."""
        left = column <= self.threshold[node]
        if self.missing_left[node]:
            left |= np.isnan(column)
        return left

    def leaves(self, rows: Float[np.ndarray, "rows features"]) -> np.ndarray:
        """(rows,), the leaf that each row falls into; rows of this tree's dtype."""
        node = np.zeros(len(rows), np.int64)
        going = np.arange(len(rows)) if not self.leaf[0] else np.zeros(0, np.int64)
        while len(going):
            at = node[going]
            column = rows[going, self.feature[at]]
            left = column <= self.threshold[at]
            left |= np.isnan(column) & self.missing_left[at]
            node[going] = np.where(left, self.left[at], self.right[at])
            going = going[~self.leaf[node[going]]]
        return node


def of_tree(tree: Any, *, midpoints: bool, seed: Any) -> Grown:
    """A `sklearn.tree._tree.Tree`."""
    state = tree.__getstate__()["nodes"]
    left = np.asarray(state["left_child"], np.int64)
    count = np.asarray(state["n_node_samples"], np.int64)
    return Grown(
        feature=np.where(left < 0, -1, state["feature"]).astype(np.int64),
        threshold=np.asarray(state["threshold"], np.float64),
        missing_left=state["missing_go_to_left"].astype(bool),
        left=left,
        right=np.asarray(state["right_child"], np.int64),
        count=count if count[0] > 0 else None,
        weight=np.asarray(state["weighted_n_node_samples"], np.float64),
        value=np.asarray(tree.value[:, 0, :], np.float64),
        impurity=np.asarray(state["impurity"], np.float64),
        midpoints=midpoints,
        dtype=np.float32,
        seed=int(seed) if isinstance(seed, (int, np.integer)) else None,
    )


def of_predictor(nodes: np.ndarray, features: np.ndarray) -> Grown:
    """The nodes of a predictor of histogram gradient boosting.

    Args:
      nodes: the predictor's structured array of nodes.
      features: (columns,), the column of the input for each column of the predictor.
    Raises: ValueError: a categorical split.
    """
    if nodes["is_categorical"].any():
        raise ValueError("a categorical split")
    leaf = nodes["is_leaf"].astype(bool)
    count = nodes["count"].astype(np.int64)
    return Grown(
        feature=np.where(leaf, -1, features[nodes["feature_idx"]]),
        threshold=nodes["num_threshold"].astype(np.float64),
        missing_left=nodes["missing_go_to_left"].astype(bool),
        left=np.where(leaf, -1, nodes["left"].astype(np.int64)),
        right=np.where(leaf, -1, nodes["right"].astype(np.int64)),
        count=count if count[0] > 0 else None,
        weight=None,
        value=nodes["value"][:, None].astype(np.float64),
        impurity=None,
        midpoints=False,
        dtype=np.float64,
        seed=None,
    )
