"""The certificate: trees fitted again with the row put back are the stored ones.

Each tree is fitted with its own seed and bag. Everything but means is compared bit for
bit; node values and impurities to 1e-9, since their rounding depends on where in the
training set the row was.
"""

import copy
import warnings
from typing import Any

import numpy as np
import sklearn
from jaxtyping import Float, Float32, Int

from artefacts.trees import grown
from artefacts.trees.grown import Grown

TOLERANCE = 1e-9


def same(tree: Grown, stored: Grown) -> bool:
    """Whether two trees are one, up to the rounding of means."""
    for name in ("left", "right", "feature", "threshold", "missing_left", "count"):
        ours, theirs = getattr(tree, name), getattr(stored, name)
        if theirs is None:
            continue
        if name == "threshold":
            ours, theirs = ours[tree.feature >= 0], theirs[stored.feature >= 0]
        if not np.array_equal(ours, theirs):
            return False
    for name in ("weight", "value", "impurity"):
        ours, theirs = getattr(tree, name), getattr(stored, name)
        if theirs is None:
            continue
        room = TOLERANCE * float(np.abs(theirs).max(initial=0.0))
        if ours.shape != theirs.shape or not np.allclose(
            ours, theirs, rtol=TOLERANCE, atol=room
        ):
            return False
    return True


def forest_tree(
    stored: Any,
    seed: int | None,
    rows: Float32[np.ndarray, "rows features"],
    labels: np.ndarray,
    weights: Float[np.ndarray, " rows"] | None,
    *,
    holes: bool,
) -> Grown:
    """One tree of a forest, or a single one, fitted on all rows.

    Args:
      stored: the fitted tree, as the forest stores it.
      seed: the seed that the tree was fitted with.
      rows: (rows, features), the whole training set.
      labels: (rows,), the labels of all rows; classes as a forest encodes them.
      weights: (rows,), what each row weighs in this tree.
      holes: whether some values of the training set are missing.
    """
    # A shallow copy is enough: `fit` replaces what it learns, and changes nothing else.
    tree = copy.copy(stored)
    tree.random_state = seed
    with sklearn.config_context(skip_parameter_validation=True):
        tree.fit(rows, labels, sample_weight=weights, check_input=holes)
    return grown.of_tree(tree.tree_, midpoints=tree.splitter == "best", seed=seed)


def boosting_trees(
    stored: Any,
    rows: Float[np.ndarray, "rows features"],
    labels: np.ndarray,
    weights: Float[np.ndarray, " rows"] | None,
) -> Any:
    """Gradient boosting fitted again on all rows, with the estimator's settings."""
    again = type(stored)(**copy.deepcopy(stored.get_params(deep=False)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again.fit(rows, labels, sample_weight=weights)
    return again


def inserted(
    known: np.ndarray, rows: np.ndarray, positions: Int[np.ndarray, " missing"]
) -> np.ndarray:
    """The training set: known rows in their order, missing ones at their positions."""
    total = len(known) + len(positions)
    whole = np.empty((total, *known.shape[1:]), np.result_type(known, rows))
    others = np.setdiff1d(np.arange(total), positions)
    whole[others] = known
    whole[positions] = rows
    return whole
