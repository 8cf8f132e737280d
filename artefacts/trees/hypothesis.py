"""Missing rows at given positions: what all trees say of them, if they can be."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from artefacts.trees import labels as labelling
from artefacts.trees import paths
from artefacts.trees.bounds import Bounds, ContradictionError, confine
from artefacts.trees.fitted import Fitted


@dataclasses.dataclass(frozen=True, eq=False)
class Known:
    """What the adversary has.

    Attributes:
      rows: (known, features), the known rows as the trees compare them, as float64.
      labels: (known,), the known rows' labels, as they are given.
      encoded: (known,), the indices of the known rows' classes; None: a regression.
      weights: (known,), the known rows' sample weights; None: all are equal.
      own_weight: the sample weight of a missing row.
      values: for each column, the values that it can take; None: any number.
      label: the missing row's label; None: the adversary isn't told.
    """

    rows: Float[np.ndarray, "known features"]
    labels: np.ndarray
    encoded: Int[np.ndarray, " known"] | None
    weights: Float[np.ndarray, " known"] | None
    own_weight: float
    values: list[np.ndarray | None]
    label: Any = None

    def given(self, positions: Int[np.ndarray, " missing"]) -> np.ndarray | None:
        """(rows,), the sample weights of the whole training set."""
        if self.weights is None:
            return None
        total = len(self.rows) + len(positions)
        whole = np.full(total, self.own_weight, np.float64)
        whole[np.setdiff1d(np.arange(total), positions)] = self.weights
        return whole


@dataclasses.dataclass(frozen=True, eq=False)
class Hypothesis:
    """Missing rows at positions where every tree can be explained.

    Attributes:
      positions: (missing,), the missing rows' indices among all rows.
      bounds: for each missing row, the bounds of its values.
      labels: for each missing row, its label as `fit` received it; None: not told.
      met: how many trees saw at least one missing row.
    """

    positions: Int[np.ndarray, " missing"]
    bounds: list[Bounds]
    labels: list[Any]
    met: int


def explain(
    fitted: Fitted,
    known: Known,
    drawn: Int[np.ndarray, "trees rows"],
    leaves: Sequence[Int[np.ndarray, " known"]],
    positions: Int[np.ndarray, " missing"],
    absent: frozenset[int] = frozenset(),
) -> Hypothesis:
    """What all trees say of rows at these positions.

    Args:
      fitted: the estimator whose trees are stored.
      known: the known rows, and what else the adversary has.
      drawn: (trees, rows), how often each row of the training set was drawn for each
        tree.
      leaves: for each tree, (known,), the leaf that each known row falls into.
      positions: (missing,), the missing rows' indices among all rows.
      absent: indices of features that have no value in the missing rows.
    Raises: ContradictionError: they aren't there.
    """
    others = np.setdiff1d(np.arange(drawn.shape[1]), positions)
    given = known.given(positions)
    counted = drawn if given is None else drawn * (given > 0)
    stored = getattr(fitted.estimator, "_sample_weight", None)
    plain = given is None and stored is None and not fitted.by_class
    placed = []
    for tree, at, bag in zip(fitted.trees, leaves, counted, strict=True):
        placed.append(
            paths.places(tree, at, bag[others], bag[positions], multiplicities=plain)
        )
    features = known.rows.shape[1]
    bounds = [Bounds.open(features, absent=absent) for _ in positions]
    for _ in range(1 if len(positions) == 1 else 3):
        for tree, bag, each in zip(fitted.trees, counted, placed, strict=True):
            paths.follow(tree, known.rows, bag[others], each, bounds)
        for row in bounds:
            confine(row, known.values)
        if len(positions) > 1:
            paths.exclude(fitted.trees, placed, bounds)
    found = [
        _label(fitted, known, drawn, leaves, positions, placed, row)
        for row in range(len(positions))
    ]
    met = sum(any(each) for each in placed)
    return Hypothesis(positions, bounds, found, met)


def _label(
    fitted: Fitted,
    known: Known,
    drawn: np.ndarray,
    leaves: Sequence[np.ndarray],
    positions: np.ndarray,
    placed: list[list[list[int]]],
    row: int,
) -> Any:
    """The label of one missing row, where the trees tell.

    Raises: ContradictionError: none fits, or not the one that was told.
    """
    if fitted.boosting:
        return known.label if len(positions) > 1 else prior_label(fitted, known)
    if getattr(fitted.estimator, "monotonic_cst", None) is not None:
        return known.label
        # Constraints clip the values of nodes, which then tell no label.
    others = np.setdiff1d(np.arange(drawn.shape[1]), positions)
    given = known.given(positions)
    sole = [_sole(each, row) for each in placed]
    if known.encoded is None:
        weights = fitted.weights(drawn, None, given)
        label = labelling.mean_label(
            fitted.trees,
            sole,
            leaves,
            list(weights[:, others]),
            known.labels.astype(np.float64),
            list(weights[:, positions[row]]),
            means=fitted.parts[0].criterion in labelling.MEANS,
        )
        return label if known.label is None else known.label
    assert fitted.classes is not None
    among = list(range(len(fitted.classes)))
    if known.label is not None:
        among = [int(fitted.encode(np.asarray([known.label]))[0])]
    if fitted.by_class and len(positions) > 1:
        return known.label
    left = []
    groups = [[each] for each in among] if fitted.by_class else [among]
    for group in groups:
        encoded = np.empty(drawn.shape[1], np.int64)
        encoded[others], encoded[positions] = known.encoded, group[0]
        weights = fitted.weights(drawn, encoded, given)
        for tree, leaf, at, weight in zip(
            fitted.trees, sole, leaves, weights, strict=True
        ):
            if leaf >= 0 and group:
                group = labelling.classes_left(
                    tree,
                    leaf,
                    at,
                    weight[others],
                    known.encoded,
                    float(weight[positions[row]]),
                    group,
                )
        left += group
    if not left:
        raise ContradictionError("no class of the missing row explains the leaves")
    if len(left) > 1:
        return None
    return labelling.as_given(fitted.classes[left[0]])


def _sole(placed: list[list[int]], row: int) -> int:
    """The leaf that this row is in, alone among missing ones; -1: not known."""
    if len(placed[row]) != 1:
        return -1
    leaf = placed[row][0]
    shared = any(leaf in each for i, each in enumerate(placed) if i != row)
    return -1 if shared else leaf


def prior_label(fitted: Fitted, known: Known) -> Any:
    """The label from what gradient boosting starts from: class shares, or a mean.

    Raises: ContradictionError: no class explains the shares.
    """
    start = fitted.estimator.init_
    weights = np.ones(len(known.rows)) if known.weights is None else known.weights
    total = float(weights.sum()) + known.own_weight
    kind = type(start).__name__
    if kind == "DummyClassifier" and hasattr(start, "class_prior_"):
        assert known.encoded is not None
        assert fitted.classes is not None
        size = len(fitted.classes)
        rest = start.class_prior_ * total - np.bincount(
            known.encoded, weights=weights, minlength=size
        )
        label = int(np.argmax(rest))
        if np.abs(rest - known.own_weight * (np.arange(size) == label)).max() > 1e-6:
            raise ContradictionError("no class explains the shares of the classes")
        return labelling.as_given(fitted.classes[label])
    if kind == "DummyRegressor" and start.strategy == "mean":
        rest = float(np.ravel(start.constant_)[0]) * total
        return (rest - float(weights @ known.labels.astype(np.float64))) / (
            known.own_weight
        )
    return known.label
