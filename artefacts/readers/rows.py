"""Estimators that store training rows: what isn't among the known ones is the target.

Rows are matched one to one, so that a target that equals a known row is found too. An
estimator that keeps some rows only (support vectors) tells the row if it kept it;
otherwise that the missing row isn't among them.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from artefacts.findings import EPS, Finding, Leaf, around, refuted, spread
from artefacts.readers.moments import check_count
from artefacts.registry import register

# How far rounding in an earlier step may move a value, as a share of the column's
# spread.
_SAME = 1e-9
# The same bound where the earlier step loses digits, as taking a power does.
_ROUNDED = 1e-6
# And where it worked in single precision on numbers thousands of spreads from 0.
_SINGLE = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Store:
    """How an estimator keeps rows.

    Attributes:
      rows: estimator -> (rows, features), the stored rows; None: they aren't stored.
      labels: estimator -> (rows,), the stored rows' labels; None: they aren't stored.
      weighted: (estimator, (rows,) weights) -> (rows,), labels that follow from other
        fields and from the weights of the fit; None: `labels` has them.
      all: whether the estimator keeps every training row.
      field: the names of the fields that hold rows and labels.
    """

    rows: Callable[[Any], Any]
    labels: Callable[[Any], Any] = lambda estimator: None
    weighted: Callable[[Any, np.ndarray], Any] | None = None
    all: bool = True
    field: str


def read(leaf: Leaf) -> list[Finding]:
    """The stored row that isn't known."""
    store = _STORES[type(leaf.estimator).__name__]
    rows = store.rows(leaf.estimator)
    if rows is None:
        return []
    shape = getattr(leaf.estimator, "shape_fit_", (0,))
    if shape and shape[0]:
        check_count(leaf, shape[0], field="shape_fit_")
    if hasattr(rows, "toarray"):
        rows = rows.toarray()
    single = np.asarray(rows).dtype == np.float32
    rows = np.asarray(rows, np.float64)
    labels = store.labels(leaf.estimator)
    known = np.asarray(leaf.known, np.float64)
    if rows.ndim != 2 or rows.shape[1] != known.shape[1]:
        return []
    extra, tolerance = _extra(rows, known, single)
    if len(extra) == 0 and not store.all:
        return [
            Finding(
                field=store.field,
                tells="that the missing row is none of the stored ones, or equals a"
                " known one",
            )
        ]
    if len(extra) != 1:
        return [
            refuted(
                store.field, f"{len(extra)} stored rows are not among the known ones"
            )
        ]
    at = int(extra[0])
    if not store.all and not _in_place(leaf, rows, known, at):
        return [
            Finding(
                field=f"{store.field}, support_",
                tells="nothing: the row that isn't known does not stand between the"
                " known ones as they are given, so they are other rows or in another"
                " order",
            )
        ]
    if store.weighted is not None:
        labels = _weighted(leaf, store.weighted, at)
    row = rows[at]
    # What a step made in single precision is carried back as far as it was compared.
    exact, error = tolerance < _SINGLE, 4 * EPS * np.abs(row)
    if not exact:
        error = error + tolerance * spread(known)
    return [
        Finding(
            field=store.field,
            tells="the stored row that is not among the known ones, as it is",
            label=_label_of(rows, labels, at, known, leaf.labels),
            # A known row that isn't stored may be any other one: nothing tells.
            certified=True if len(rows) == leaf.count and exact else None,
            **around(row, error),
        )
    ]


def _weighted(leaf: Leaf, labels: Callable[..., Any], at: int) -> Any:
    """Labels by the weights that are told, if those of the known rows come out so.

    Args:
      labels: see `_Store.weighted`.
      at: the place of the missing row among the stored ones.
    """
    weights = np.insert(leaf.sample_weights, at, leaf.target_weight)
    found = labels(leaf.estimator, weights)
    if leaf.labels is None or found is None or len(found) != leaf.count:
        return None
    own, known = np.sort(np.delete(found, at)), np.sort(np.ravel(leaf.labels))
    if own.shape != known.shape or not np.allclose(own, known, rtol=1e-6, atol=1e-6):
        return None
    return found


def _extra(
    rows: np.ndarray, known: np.ndarray, single: bool
) -> tuple[np.ndarray, float]:
    """Stored rows without a known one, by the first tolerance that leaves one at most.

    Rows behind a step are known up to the rounding of that step, which may be large
    beside their spread.

    Args:
      single: whether the rows are stored in single precision.
    Returns: indices of stored rows; the tolerance.
    """
    for tolerance in (_SAME, _ROUNDED, *((_SINGLE,) if single else ())):
        extra = unmatched(rows, known, tolerance=tolerance)
        if len(extra) <= 1:
            break
    return extra, tolerance


def _in_place(leaf: Leaf, rows: np.ndarray, known: np.ndarray, at: int) -> bool:
    """Whether `support_` puts the stored rows where the known ones stand.

    Known rows before the missing one keep their place, those after it are one later.
    """
    support = np.asarray(getattr(leaf.estimator, "support_", np.zeros(0)), np.int64)
    if len(support) != len(rows) or len(np.unique(support)) != len(support):
        return True
        # Places were stripped, or it is another kind of store.
    place = int(support[at])
    if leaf.position is not None and place != leaf.position:
        return False
    others = np.delete(np.arange(len(rows)), at)
    own = support[others]
    own = own - (own > place)
    if own.max(initial=0) >= len(known):
        return False
    off = np.abs(rows[others] - known[own]) / spread(known)
    return bool(np.all(off <= _ROUNDED))


def _label_of(
    rows: np.ndarray, labels: Any, at: int, known: np.ndarray, known_labels: Any
) -> Any:
    """The label that is stored for a row and not accounted for by equal known rows."""
    if labels is None:
        return None
    apart = _SAME * spread(known)
    twins = np.all(np.abs(known - rows[at]) <= apart, axis=1)
    if not twins.any():
        return _plain(labels[at])
    if known_labels is None:
        return None
    stored = np.all(np.abs(rows - rows[at]) <= apart, axis=1)
    left = [_plain(each) for each in np.asarray(labels)[stored]]
    for each in np.asarray(known_labels)[twins]:
        if _plain(each) not in left:
            return None
        left.remove(_plain(each))
    return left[0] if len(left) == 1 else None


def unmatched(
    rows: np.ndarray, known: np.ndarray, *, tolerance: float = _SAME
) -> np.ndarray:
    """Indices of rows that have no known row of their own.

    Args:
      rows: (rows, features), the stored rows.
      known: (known, features), the known rows.
      tolerance: by how much of its column's spread an equal value may differ.
    Returns: indices; of equal stored rows the last are those too many.
    """
    if not len(known):
        return np.arange(len(rows))
    scale = spread(known)
    filled = [np.nan_to_num(each / scale, nan=1e30) for each in (rows, known)]
    tree = cKDTree(filled[1])
    near = tree.query(
        filled[0], distance_upper_bound=tolerance * np.sqrt(rows.shape[1])
    )[1]
    # Equal known rows share a name, and are used up one by one.
    # At distance 0 the tree names the same one of all equal rows.
    first = tree.query(filled[1])[1]
    left = np.bincount(first, minlength=len(known))
    extra = []
    for index, match in enumerate(near):
        if match == len(known):
            extra.append(index)
            continue
        group = first[match]
        left[group] -= 1
        if left[group] < 0:
            extra.append(index)
    return np.array(extra, dtype=int)


def _plain(label: Any) -> Any:
    """A label as a Python or numpy scalar."""
    return label.item() if isinstance(label, np.generic) else label


def _neighbour_labels(model: Any) -> Any:
    """Classes are stored as their indices."""
    stored = getattr(model, "_y", None)
    if stored is None or np.ndim(stored) > 1:
        return None
    return model.classes_[stored] if hasattr(model, "classes_") else stored


def _support_labels(model: Any) -> Any:
    """Support vectors lie class by class."""
    if not hasattr(model, "classes_"):
        return None
    return np.repeat(model.classes_, model.n_support_)


def _process_targets(model: Any) -> Any:
    """What a Gaussian process was fitted to, in its own units."""
    stored = getattr(model, "y_train_", None)
    if stored is None or np.ndim(stored) > 1:
        return None
    return stored * model._y_train_std + model._y_train_mean


def _process_rows(model: Any) -> Any:
    base = model.base_estimator_
    base = base.estimators_[0] if hasattr(base, "estimators_") else base
    return getattr(base, "X_train_", None)


def _process_classes(model: Any) -> Any:
    base = model.base_estimator_
    return base.classes_[base.y_train_] if hasattr(base, "y_train_") else None


def _kernel_ridge_targets(model: Any, weights: np.ndarray) -> Any:
    """y = (K + alpha / weights) dual, the stationarity of the fit."""
    rows, dual = model.X_fit_, model.dual_coef_
    if np.ndim(dual) > 1 or np.ndim(model.alpha) > 0 or len(weights) != len(dual):
        return None
    return model._get_kernel(rows) @ dual + model.alpha * dual / weights


def _attribute(name: str) -> Callable[[Any], Any]:
    return lambda model: getattr(model, name, None)


_NEIGHBOURS = _Store(
    rows=_attribute("_fit_X"), labels=_neighbour_labels, field="_fit_X, _y"
)
_SUPPORT = _Store(
    rows=_attribute("support_vectors_"),
    labels=_support_labels,
    all=False,
    field="support_vectors_",
)
_STORES = {
    **dict.fromkeys(
        (
            "KNeighborsClassifier",
            "KNeighborsRegressor",
            "RadiusNeighborsClassifier",
            "RadiusNeighborsRegressor",
            "NearestNeighbors",
            "LocalOutlierFactor",
            "KNeighborsTransformer",
            "RadiusNeighborsTransformer",
            "KNNImputer",
        ),
        _NEIGHBOURS,
    ),
    **dict.fromkeys(("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM"), _SUPPORT),
    "KernelRidge": _Store(
        rows=_attribute("X_fit_"), weighted=_kernel_ridge_targets, field="X_fit_"
    ),
    "KernelPCA": _Store(rows=_attribute("X_fit_"), field="X_fit_"),
    "GaussianProcessRegressor": _Store(
        rows=_attribute("X_train_"),
        labels=_process_targets,
        field="X_train_, y_train_",
    ),
    "GaussianProcessClassifier": _Store(
        rows=_process_rows, labels=_process_classes, field="base_estimator_.X_train_"
    ),
    "LabelPropagation": _Store(
        rows=_attribute("X_"),
        labels=_attribute("transduction_"),
        field="X_, transduction_",
    ),
    "LabelSpreading": _Store(
        rows=_attribute("X_"),
        labels=_attribute("transduction_"),
        field="X_, transduction_",
    ),
    "KernelDensity": _Store(
        rows=lambda model: np.asarray(model.tree_.data), field="tree_"
    ),
    "Nystroem": _Store(rows=_attribute("components_"), all=False, field="components_"),
    "DBSCAN": _Store(rows=_attribute("components_"), all=False, field="components_"),
    "AffinityPropagation": _Store(
        rows=_attribute("cluster_centers_"), all=False, field="cluster_centers_"
    ),
}


register(tuple(_STORES), read)
