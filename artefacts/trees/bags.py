"""How often each training row was drawn for each tree.

A fitted forest stores one integer seed a tree, `estimators_[i].random_state`, whether
or not `random_state` was given, and the tree's bootstrap is the first thing drawn from
it (`sklearn/ensemble/_forest.py`, `_generate_sample_indices`). Where the trees' seeds
are gone but the forest's own is an integer, it gives the trees' again.
"""

import inspect
import warnings
from typing import Any

import numpy as np
from jaxtyping import Int
from sklearn.ensemble import _forest

_INT32_MAX = np.iinfo(np.int32).max
# Since scikit-learn 1.8 weights act when rows are drawn, not in the trees.
WEIGHTED = (
    "sample_weight" in inspect.signature(_forest._generate_sample_indices).parameters
)


def drawn(
    estimator: Any, rows: int, weights: np.ndarray | None = None
) -> Int[np.ndarray, "trees rows"] | None:
    """How often each row was drawn for each tree; None where that can't be replayed.

    Args:
      estimator: a fitted tree, forest, or gradient boosting (not by histograms).
      rows: how many rows the training set has, the missing one included.
      weights: (rows,), sample weights, where `fit` got any; only versions of
        scikit-learn that draw by weights use them.
    """
    if hasattr(estimator, "tree_"):
        return np.ones((1, rows), np.int64)
    if not hasattr(estimator, "bootstrap"):
        # Gradient boosting draws a subsample a stage.
        return _subsampled(estimator, rows)
    trees = len(estimator.estimators_)
    if not estimator.bootstrap:
        return np.ones((trees, rows), np.int64)
    seeds = tree_seeds(estimator)
    if seeds is None:
        return None
    stored = getattr(estimator, "_sample_weight", None)
    by = stored if stored is not None else weights
    size = sample_size(estimator, rows, by)
    counts = np.empty((trees, rows), np.int64)
    for index, seed in enumerate(seeds):
        if WEIGHTED:
            by = None if by is None or len(by) != rows else by
            indices = _forest._generate_sample_indices(seed, rows, size, by)
        else:
            indices = _forest._generate_sample_indices(seed, rows, size)
        counts[index] = np.bincount(indices, minlength=rows)
    return counts


def tree_seeds(forest: Any) -> list[int] | None:
    """The integer seed of each tree; None where neither they nor the forest's are."""
    seeds = [getattr(tree, "random_state", None) for tree in forest.estimators_]
    whole = [int(seed) for seed in seeds if isinstance(seed, (int, np.integer))]
    if len(whole) == len(seeds):
        return whole
    if isinstance(forest.random_state, (int, np.integer)):
        generator = np.random.RandomState(forest.random_state)
        return [int(generator.randint(_INT32_MAX)) for _ in seeds]
    return None


def sample_size(forest: Any, rows: int, weights: np.ndarray | None) -> int:
    """How many rows were drawn for each tree."""
    stored = getattr(forest, "_n_samples_bootstrap", None)
    if stored:
        return int(stored)
    maximum = forest.max_samples
    if maximum is None:
        return rows
    if isinstance(maximum, (int, np.integer)):
        return int(maximum)
    total = rows if weights is None or not WEIGHTED else float(np.sum(weights))
    whole = int(maximum * total) if WEIGHTED else round(maximum * total)
    return max(whole, 1)


def _subsampled(boosting: Any, rows: int) -> Int[np.ndarray, "trees rows"] | None:
    """Rows in the subsample of each stage of gradient boosting."""
    stages, outputs = boosting.estimators_.shape
    if boosting.subsample >= 1.0:
        return np.ones((stages * outputs, rows), np.int64)
    if not isinstance(boosting.random_state, (int, np.integer)):
        return None
    from sklearn.ensemble._gradient_boosting import _random_sample_mask

    generator = np.random.RandomState(boosting.random_state)
    kept = max(1, int(boosting.subsample * rows))
    counts = np.empty((stages * outputs, rows), np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for stage in range(stages):
            mask = _random_sample_mask(rows, kept, generator)
            for output in range(outputs):
                counts[stage * outputs + output] = mask
                # Each tree's splitter draws once from the same generator.
                generator.randint(0, 0x7FFFFFFF)
    return counts
