"""Rows that the trees leave open, tried: which of them give the stored trees again.

The splitter chose the best split among the features that it drew, so a row that lies on
the right sides of all thresholds can still be refuted. Where the columns left open have
few possible values, all of them are tried, and what the survivors share is certain.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Bool, Float

from artefacts.trees import refits
from artefacts.trees.bounds import Bounds, within
from artefacts.trees.fitted import Fitted
from artefacts.trees.hypothesis import Hypothesis, Known

Check = Callable[[Float[np.ndarray, " features"]], bool]


@dataclasses.dataclass(frozen=True, eq=False)
class Tried:
    """Rows put back and fitted again.

    Attributes:
      rows: (survivors, features), the rows that gave the stored trees again.
      exhaustive: whether all rows within the bounds were tried.
    """

    rows: Float[np.ndarray, "survivors features"]
    exhaustive: bool


def attempt(
    bounds: Bounds,
    known: Float[np.ndarray, "known features"],
    values: Sequence[np.ndarray | None],
    check: Check,
    most: int,
    points: int = 3,
) -> Tried:
    """Put rows back, and keep those that `check` accepts.

    Args:
      bounds: the missing row's bounds.
      known: (known, features), the known rows as the trees compare them.
      values: for each column, the values that it can take; None: any number.
      check: whether the trees, fitted with this row, are the stored ones.
      most: how many rows may be tried, where all that are left can be.
      points: how many rows are tried, where more are left than that.
    """
    options = [
        _options(bounds, feature, allowed) for feature, allowed in enumerate(values)
    ]
    closed = [option for option in options if option is not None]
    count = int(np.prod([len(option) for option in closed], dtype=np.float64))
    if len(closed) == len(options) and count <= 64 * most:
        rows = np.array(list(itertools.product(*closed)))
        if len(rows) <= most:
            return Tried(rows[[check(row) for row in rows]], exhaustive=True)
    for row in _points(bounds, known, options)[:points]:
        if check(row):
            return Tried(row[None], exhaustive=False)
    return Tried(np.zeros((0, known.shape[1])), exhaustive=False)


def forest_check(
    fitted: Fitted,
    known: Known,
    drawn: np.ndarray,
    hypothesis: Hypothesis,
) -> Check | None:
    """Whether trees fitted with a row are the stored ones; None: can't be told.

    Args:
      fitted: the estimator whose trees are stored.
      known: the known rows, and what else the adversary has.
      drawn: how often each row was drawn for each tree.
      hypothesis: where the missing rows stand, and their labels.
    """
    labels = hypothesis.labels
    # A single tree applies class weights itself.
    single = hasattr(fitted.estimator, "tree_")
    if any(label is None for label in labels):
        return None
    positions = hypothesis.positions
    given = known.given(positions)
    if known.encoded is None:
        own = np.asarray(labels, np.float64)
        target = refits.inserted(known.labels.astype(np.float64), own, positions)
        encoded = None
    else:
        encoded = refits.inserted(
            known.encoded, fitted.encode(np.asarray(labels)), positions
        )
        assert fitted.classes is not None
        target = fitted.classes[encoded] if single else encoded.astype(np.float64)

    def check(values: Float[np.ndarray, " features"]) -> bool:
        rows = refits.inserted(known.rows, values[None], positions)
        if fitted.boosting:
            own = target
            if encoded is not None:
                assert fitted.classes is not None
                own = fitted.classes[encoded]
            return _boosting(fitted, rows, own, given)
        weights = fitted.weights(drawn, encoded, given)
        equal = bool((weights == 1.0).all())
        seen = np.ascontiguousarray(rows, np.float32)
        holes = bool(np.isnan(seen).any())
        return all(
            refits.same(
                refits.forest_tree(
                    part,
                    tree.seed,
                    seen,
                    target,
                    None if equal else given if single else weights[index],
                    holes=holes,
                ),
                tree,
            )
            for index, (part, tree) in enumerate(
                zip(fitted.parts, fitted.trees, strict=True)
            )
        )

    return check


def _boosting(
    fitted: Fitted, rows: np.ndarray, labels: np.ndarray, given: np.ndarray | None
) -> bool:
    """Gradient boosting as a whole."""
    from artefacts.trees import grown

    again = refits.boosting_trees(fitted.estimator, rows, labels, given)
    parts = list(again.estimators_.ravel())
    return len(parts) == len(fitted.trees) and all(
        refits.same(grown.of_tree(part.tree_, midpoints=True, seed=None), tree)
        for part, tree in zip(parts, fitted.trees, strict=True)
    )


def _options(
    bounds: Bounds, feature: int, allowed: np.ndarray | None
) -> np.ndarray | None:
    """The values that a feature can still have; None: infinitely many, or too many."""
    if feature in bounds.absent:
        return np.array([np.nan])
    if bounds.single[feature]:
        return bounds.lower[feature : feature + 1]
    return None if allowed is None else within(bounds, feature, allowed)


def _points(
    bounds: Bounds,
    known: np.ndarray,
    options: Sequence[np.ndarray | None],
) -> list[np.ndarray]:
    """A few rows within the bounds: near the known rows' median, and at either end."""
    centre = np.nan_to_num(np.nanmedian(known, axis=0))
    middle = np.clip(centre, bounds.lower, bounds.upper)
    ends = [
        np.where(np.isfinite(bounds.lower), bounds.lower, middle),
        np.where(np.isfinite(bounds.upper), bounds.upper, middle),
    ]
    points: list[np.ndarray] = []
    for point in (middle, *ends):
        for feature, allowed in enumerate(options):
            if feature in bounds.absent:
                point[feature] = np.nan
            elif allowed is not None:
                point[feature] = allowed[np.argmin(np.abs(allowed - point[feature]))]
        if not any(np.array_equal(point, each, equal_nan=True) for each in points):
            points.append(point)
    return points


def narrowed(bounds: Bounds, tried: Tried) -> Bool[np.ndarray, ""] | bool:
    """Narrow bounds to what surviving rows share; whether any survived."""
    if not len(tried.rows):
        return False
    if tried.exhaustive:
        for feature in range(tried.rows.shape[1]):
            bounds.at_least(feature, float(tried.rows[:, feature].min()))
            bounds.at_most(feature, float(tried.rows[:, feature].max()))
    return True
