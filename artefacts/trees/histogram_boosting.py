"""Histogram gradient boosting: edges of bins, counts in nodes, and the starting value.

No row is drawn and no threshold is a midpoint of its node: edges tell values
(`histograms`), counts tell sides, and the baseline prediction tells the label. All of
it without a seed.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from artefacts.trees import completions, grown, histograms, paths, refits
from artefacts.trees.bounds import Bounds, ContradictionError, confine, originals
from artefacts.trees.determined import Determined
from artefacts.trees.grown import Grown
from artefacts.trees.labels import as_given
from shadow.checks import FieldError

SUPPORTED = ("HistGradientBoostingClassifier", "HistGradientBoostingRegressor")


def read(
    estimator: Any,
    rows: Float[np.ndarray, "known features"],
    labels: np.ndarray,
    values: list[np.ndarray | None],
    *,
    label: Any,
    weights: np.ndarray | None,
    target_weight: float,
    certify: bool,
    tries: int,
) -> Determined | None:
    """What the estimator tells of the one missing row; None: no row explains it.

    Args: as `replay`, with attainable values as arrays.
    Raises: FieldError: not fitted, or what isn't replayed: early stopping, categorical
      columns, more rows than edges are taken from.
    """
    _check(estimator, len(rows))
    if weights is not None and _has_percentiles(estimator, rows):
        raise FieldError(
            "sample_weight",
            "With {}, edges of bins are weighted percentiles of columns with more"
            f" values than {estimator.max_bins}: these aren't replayed.",
        )
    trees = _predictors(estimator, rows.shape[1])
    whole = _has_edges(estimator)
    absent: frozenset[int] = frozenset()
    while True:
        try:
            bounds, left, exact = _bounds(estimator, trees, rows, values, absent)
            confine(bounds, left)
            if label is None:
                label = _label(estimator, labels, weights, target_weight)
            break
        except ContradictionError as error:
            feature = error.feature
            if feature is None or feature in absent or values[feature] is not None:
                return None
            # Perhaps the missing row has no value there: tried again without it.
            absent |= {feature}
    values = left
    certified = None
    if certify and whole and label is not None:
        check = _checker(estimator, trees, rows, labels, label, weights, target_weight)
        point = bounds if not exact else _at(bounds, exact)
        tried = completions.attempt(point, rows, values, check, min(tries, 8), 1)
        # Gradients are summed in single precision, in the order of the rows, so that
        # trees that don't come out again refute nothing.
        certified = True if completions.narrowed(point, tried) else None
    determined = bounds.single.copy()
    lower, upper, value = originals(bounds, values)
    for feature, number in exact.items():
        determined[feature] = True
        value[feature] = number
    return Determined(
        lower=lower,
        upper=upper,
        determined=determined,
        value=value,
        label=label,
        positions=np.zeros(0, np.int64),
        certified=certified,
    )


def _bounds(
    estimator: Any,
    trees: list[Grown],
    rows: Float[np.ndarray, "known features"],
    values: list[np.ndarray | None],
    absent: frozenset[int],
) -> tuple[Bounds, list[np.ndarray | None], dict[int, float]]:
    """(bounds, values left, values that are new) by edges and by sides.

    Args:
      absent: indices of features that have no value in the missing row.
    Raises: ContradictionError: no row gives these edges and counts.
    """
    if _has_edges(estimator):
        bounds, values, exact = _edges(estimator, rows, values, absent)
    else:
        bounds, exact = _thresholds(estimator, trees, rows, absent)
    for tree in trees:
        if tree.count is not None:
            _sides(tree, rows, bounds)
    return bounds, values, exact


def _unmoved(edges: np.ndarray, known: np.ndarray, max_bins: int) -> bool:
    """Whether the known values alone give these edges."""
    there = known[~np.isnan(known)]
    distinct = np.unique(there)
    if len(distinct) <= max_bins:
        own = histograms.midpoints(distinct)
    else:
        places = np.linspace(0, 100, num=max_bins + 1)[1:-1]
        own = np.percentile(there, places, method="averaged_inverted_cdf")
        own = np.unique(own)
    return len(own) == len(edges) and np.allclose(own, edges, rtol=1e-12, atol=0)


def _check(estimator: Any, known: int) -> None:
    """Refuse what isn't replayed."""
    name = type(estimator).__name__
    if not hasattr(estimator, "_predictors"):
        raise FieldError("estimator", f"Expected a fitted {name}; call its fit first.")
    if getattr(estimator, "do_early_stopping_", False):
        raise FieldError(
            "estimator",
            f"{name} with early stopping holds rows out for validation: it isn't"
            " replayed.",
        )
    if getattr(estimator, "is_categorical_", None) is not None:
        raise FieldError(
            "estimator", f"{name} with categorical columns isn't replayed."
        )
    if known + 1 > histograms.SUBSAMPLE:
        raise FieldError(
            "X_known",
            f"Expected fewer than {histograms.SUBSAMPLE} {{}}, from which edges of bins"
            f" are taken; got {known}.",
        )


def _has_percentiles(estimator: Any, rows: np.ndarray) -> bool:
    """Whether a column may have more values than bins."""
    values = [len(np.unique(column[~np.isnan(column)])) for column in rows.T]
    return max(values) >= estimator.max_bins


def _edges(
    estimator: Any,
    rows: Float[np.ndarray, "known features"],
    values: list[np.ndarray | None],
    absent: frozenset[int],
) -> tuple[Bounds, list[np.ndarray | None], dict[int, float]]:
    """(bounds, values left, values that are new) by the edges of every column."""
    bounds = Bounds.open(rows.shape[1], np.float64, absent)
    left, exact = list(values), {}
    for feature, edges in enumerate(estimator._bin_mapper.bin_thresholds_):
        edges = np.asarray(edges, np.float64)
        if feature in absent:
            if not _unmoved(edges, rows[:, feature], estimator.max_bins):
                raise ContradictionError("edges of other rows")
            continue
        try:
            told = histograms.column(edges, rows[:, feature], estimator.max_bins)
        except ContradictionError as error:
            raise ContradictionError(str(error), feature) from None
        bounds.at_least(feature, told.lower)
        bounds.at_most(feature, told.upper)
        if told.value is not None:
            exact[feature] = told.value
        elif told.among is not None:
            given = left[feature]
            left[feature] = (
                told.among if given is None else np.intersect1d(told.among, given)
            )
    return bounds, left, exact


def _has_edges(estimator: Any) -> bool:
    """Whether the edges of bins are still there."""
    mapper = getattr(estimator, "_bin_mapper", None)
    return mapper is not None and any(len(edges) for edges in mapper.bin_thresholds_)


def _thresholds(
    estimator: Any,
    trees: list[Grown],
    rows: Float[np.ndarray, "known features"],
    absent: frozenset[int],
) -> tuple[Bounds, dict[int, float]]:
    """What nodes still tell of the edges: (bounds, values that are new).

    Raises: ContradictionError: two values of one column.
    """
    bounds, exact = Bounds.open(rows.shape[1], np.float64, absent), {}
    for feature in range(rows.shape[1]):
        used = np.unique(
            np.concatenate([tree.threshold[tree.feature == feature] for tree in trees])
        )
        told = histograms.from_some(
            used[np.isfinite(used)], rows[:, feature], estimator.max_bins
        )
        bounds.at_least(feature, told.lower)
        bounds.at_most(feature, told.upper)
        if told.value is not None:
            exact[feature] = told.value
    return bounds, exact


def _predictors(estimator: Any, features: int) -> list[Grown]:
    """All trees, in order."""
    return [
        grown.of_predictor(predictor.nodes, np.arange(features))
        for stage in estimator._predictors
        for predictor in stage
    ]


def _sides(tree: Grown, rows: np.ndarray, bounds: Bounds) -> None:
    """Narrow the bounds by the missing row's path."""
    leaves = tree.leaves(rows)
    bag = np.ones(len(rows), np.int64)
    placed = paths.places(tree, leaves, bag, np.ones(1, np.int64), multiplicities=False)
    paths.follow(tree, rows, bag, placed, [bounds])


def _label(
    estimator: Any, labels: np.ndarray, weights: np.ndarray | None, own: float
) -> Any:
    """The label from the baseline prediction; None where it isn't a mean.

    Raises: ContradictionError: no label gives it.
    """
    base = np.ravel(estimator._baseline_prediction).astype(np.float64)
    known = np.ones(len(labels)) if weights is None else np.asarray(weights, float)
    total = float(known.sum()) + own
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        if estimator.loss == "squared_error":
            mean = base[0]
        elif estimator.loss in ("poisson", "gamma"):
            mean = np.exp(base[0])
        else:
            return None
        return float((mean * total - known @ labels.astype(np.float64)) / own)
    if estimator.class_weight is not None:
        return None
    if len(classes) == 2:
        shares = 1.0 / (1.0 + np.exp(np.array([base[0], -base[0]])))
    else:
        shares = np.exp(base - base.max())
        shares /= shares.sum()
    encoded = np.searchsorted(classes, labels)
    rest = shares * total - np.bincount(encoded, weights=known, minlength=len(classes))
    best = int(np.argmax(rest))
    if np.abs(rest - own * (np.arange(len(classes)) == best)).max() > 1e-6 * total:
        raise ContradictionError("no class explains the baseline")
    return as_given(classes[best])


def _at(bounds: Bounds, exact: dict[int, float]) -> Bounds:
    """Bounds with new values at the number that is told."""
    lower, upper = bounds.lower.copy(), bounds.upper.copy()
    for feature, number in exact.items():
        lower[feature] = upper[feature] = number
    return Bounds(lower, upper, bounds.dtype, bounds.absent)


def _checker(
    estimator: Any,
    trees: list[Grown],
    rows: np.ndarray,
    labels: np.ndarray,
    label: Any,
    weights: np.ndarray | None,
    own: float,
) -> completions.Check:
    """Whether boosting, fitted with a row put back, is the stored one."""
    target = np.append(labels, np.asarray([label], labels.dtype))
    given = None if weights is None else np.append(weights, own)
    edges = estimator._bin_mapper.bin_thresholds_

    def check(row: Float[np.ndarray, " features"]) -> bool:
        again = refits.boosting_trees(estimator, np.vstack([rows, row]), target, given)
        ours = _predictors(again, rows.shape[1])
        return (
            all(
                len(a) == len(b) and np.allclose(a, b, rtol=1e-12, atol=0)
                for a, b in zip(again._bin_mapper.bin_thresholds_, edges, strict=True)
            )
            and len(ours) == len(trees)
            and all(refits.same(a, b) for a, b in zip(ours, trees, strict=True))
        )

    return check
