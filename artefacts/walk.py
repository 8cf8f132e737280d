"""From an estimator to its leaves: what each was fitted to, and the way back.

A part of a pipeline or of an ensemble was fitted to something that can be computed from
the known rows: the output of the fitted steps before it, the columns it takes, labels
made 0 and 1, the folds of a cross-validation. A `Place` is such a leaf with the way
back from its units to those of the whole.

Folds, and bootstraps, depend on where the missing row stood and on its label. Where
these aren't told, each case is a *hypothesis*; those that differ in nothing are one.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils import _safe_indexing

from artefacts import inverse
from artefacts.findings import Leaf
from artefacts.inverse import Bounds

Back = Callable[[Bounds], Bounds | None]
Forward = Callable[[Any], Any]
LabelBack = Callable[[Any], Any]
MOST_HYPOTHESES = 64


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """A leaf and the way back from it.

    Attributes:
      leaf: the estimator and its inputs.
      back: bounds in the leaf's units -> in the whole's.
      columns: which features of the whole the leaf's features are, where they are as
        they came; None: they were transformed.
      label_back: the leaf's label -> the whole's; None where that can't be said.
      hypothesis: 0 where there are none; else leaves of one group and one hypothesis
        hold together.
      group: the estimator whose hypotheses these are.
      before_model: whether it is a step before the last of a pipeline.
      through: transformers on the way that carry nothing back.
      features: of the whole.
      forward: rows of the whole -> rows of the leaf.
      repeats: whether the known rows as the leaf got them can be computed: every step
        before it transforms as it did while it was fitted.
    """

    leaf: Leaf
    back: Back
    columns: np.ndarray | None
    label_back: LabelBack
    hypothesis: int = 0
    group: str = ""
    before_model: bool = False
    through: tuple[str, ...] = ()
    features: int = 0
    forward: Forward = lambda rows: rows
    repeats: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Unread:
    """A part that nothing can be said of, and why.

    Attributes:
      path: where it lies.
      why: as the rest of a sentence.
    """

    path: str
    why: str


def _same(bounds: Bounds) -> Bounds:
    return bounds


def _same_label(label: Any) -> Any:
    return label


def root(leaf: Leaf, features: int) -> Place:
    """The whole estimator as a place."""
    return Place(
        leaf=leaf,
        back=_same,
        columns=np.arange(features),
        label_back=_same_label,
        features=features,
        forward=functools.partial(_like, leaf.known),
    )


def _like(known: Any, rows: np.ndarray) -> Any:
    """Rows as a data frame where the known ones are."""
    if not hasattr(known, "columns"):
        return rows
    return type(known)(rows, columns=known.columns)


def leaves(place: Place) -> Iterator["Place | Unread"]:
    """All leaves under a place, in the order of the fit."""
    name = type(place.leaf.estimator).__name__
    part = _PARTS.get(name) or _resampled().get(name)
    if part is None:
        yield place
        return
    yield from part(place)


def inside(
    place: Place,
    estimator: Any,
    name: str,
    *,
    known: Any = None,
    back: Back | None = None,
    columns: np.ndarray | None = None,
    moved: bool = False,
    step: Forward | None = None,
    **changes: Any,
) -> Place:
    """A place below another.

    Args:
      place: the outer one.
      estimator: the inner one.
      name: its name in the outer one.
      known: what it was fitted to; None: the same.
      back: bounds in its units -> in the outer one's; None: the same.
      columns: which of the whole's features its features are; None: as the outer's.
      moved: whether its features are no features of the whole.
      step: rows of the outer one -> its own; None: the same.
      changes: of the place, or of labels, weights, target_weight, position, label.
    """
    path = f"{place.leaf.path}.{name}" if place.leaf.path else name
    leaf_changes: dict[str, Any] = {
        key: changes.pop(key)
        for key in ("labels", "weights", "target_weight", "position", "label")
        if key in changes
    }
    if known is not None or moved:  # in other columns or units
        leaf_changes["attainable"] = None
    outer = place.back

    def composed(bounds: Bounds) -> Bounds | None:
        inner = bounds if back is None else back(bounds)
        return None if inner is None else outer(inner)

    if step is not None:
        earlier = place.forward
        changes["forward"] = lambda rows: step(earlier(rows))
    if moved:
        columns = None
    elif columns is None:
        columns = place.columns
    leaf = dataclasses.replace(
        place.leaf,
        estimator=estimator,
        known=place.leaf.known if known is None else known,
        path=path,
        **leaf_changes,
    )
    return dataclasses.replace(
        place, leaf=leaf, back=composed, columns=columns, **changes
    )


def dense(rows: Any) -> Any:
    """Sparse output as an array."""
    return rows.toarray() if hasattr(rows, "toarray") else rows


def width(rows: Any) -> int:
    """Columns; 0 where rows are texts."""
    return int(rows.shape[1]) if getattr(rows, "ndim", 1) == 2 else 0


def _pipeline(place: Place) -> Iterator[Place | Unread]:
    """Steps, each fitted to what the steps before it make of the rows."""
    here = place
    steps = place.leaf.estimator.steps
    for at, (name, step) in enumerate(steps):
        last = at == len(steps) - 1
        if step is None or step == "passthrough":
            continue
        before = place.before_model or not last
        # Weights go to the last step: `fit(X, y, step__sample_weight=w)`.
        inner = here if last else _unweighted(here)
        inner = inside(inner, step, name, before_model=before)
        yield from leaves(inner)
        if last or not hasattr(step, "transform"):
            return
        features = width(here.leaf.known)
        made = dense(step.transform(here.leaf.known))

        def back(
            bounds: Bounds, step: Any = step, features: int = features
        ) -> Bounds | None:
            return inverse.pull(step, bounds, features)

        path = here.leaf.path
        lost = not _carries(step)
        here = inside(
            here,
            place.leaf.estimator,
            "",
            known=made,
            back=back,
            moved=True,
            step=functools.partial(_made, step),
        )
        here = dataclasses.replace(
            here,
            leaf=dataclasses.replace(here.leaf, path=path),
            through=(*here.through, type(step).__name__) if lost else here.through,
            repeats=here.repeats and repeats(step),
        )


def _unweighted(place: Place) -> Place:
    """The place, fitted without sample weights."""
    leaf = dataclasses.replace(place.leaf, weights=None, target_weight=1.0)
    return dataclasses.replace(place, leaf=leaf)


def _made(step: Any, rows: Any) -> Any:
    """What a fitted step makes of rows."""
    return dense(step.transform(rows))


def _taken(columns: np.ndarray, rows: Any) -> Any:
    """Some columns."""
    return _safe_indexing(rows, columns, axis=1)


def _carries(step: Any) -> bool:
    """Whether anything comes back through a transformer at all."""
    name = type(step).__name__
    return name in inverse._INVERSES or hasattr(step, "get_support")


def repeats(step: Any) -> bool:
    """Whether `fit_transform` gave what `transform` gives of the same rows.

    It does by construction where it is the one that scikit-learn's transformers share.
    Isomap, NMF, randomised decompositions and target encoders give something else.
    """
    name = type(step).__name__
    if name == "PCA":
        solver = getattr(step, "_fit_svd_solver", step.svd_solver)
        return solver in ("full", "covariance_eigh")
    if name == "Pipeline":
        return all(repeats(each) for _, each in step.steps if hasattr(each, "fit"))
    if name == "ColumnTransformer":
        return all(repeats(e) for _, e, _ in step.transformers_ if hasattr(e, "fit"))
    if name == "FeatureUnion":
        return all(repeats(e) for _, e in step.transformer_list if hasattr(e, "fit"))
    own = getattr(type(step), "fit_transform", None)
    return name in _REPEAT or own is TransformerMixin.fit_transform


_REPEAT = (  # a `fit_transform` of their own that saves work and gives the same
    "PowerTransformer",
    "KMeans",
    "CountVectorizer",
    "TfidfVectorizer",
    "HashingVectorizer",
    "DictVectorizer",
    "OneHotEncoder",
    "OrdinalEncoder",
    "RandomTreesEmbedding",
    "MissingIndicator",
    "FactorAnalysis",
    "PLSRegression",
    "PLSCanonical",
    "CCA",
    "LabelEncoder",
)


def _columns(place: Place) -> Iterator[Place | Unread]:
    """Parts of a ColumnTransformer, each with its columns."""
    transformer = place.leaf.estimator
    features = width(place.leaf.known)
    for name, part, _ in transformer.transformers_:
        if (
            isinstance(part, str)
            or name not in transformer._transformer_to_input_indices
        ):
            continue
        columns = inverse.columns_of(transformer, name)
        if not len(columns):
            continue

        def back(bounds: Bounds, columns: np.ndarray = columns) -> Bounds:
            lower, upper = np.full(features, -np.inf), np.full(features, np.inf)
            lower[columns], upper[columns] = bounds
            return lower, upper

        known = _safe_indexing(place.leaf.known, columns, axis=1)
        scalar = next(c for n, _, c in transformer.transformers_ if n == name)
        if isinstance(scalar, (str, int)):  # a vectoriser is given one column
            known = np.ravel(np.asarray(known)).tolist()
        here = None if place.columns is None else place.columns[columns]
        yield from leaves(
            inside(
                place,
                part,
                name,
                known=known,
                back=back,
                columns=here,
                moved=here is None,
                step=functools.partial(_taken, columns),
                before_model=True,
            )
        )


def _union(place: Place) -> Iterator[Place | Unread]:
    for name, part in place.leaf.estimator.transformer_list:
        if not isinstance(part, str):
            yield from leaves(inside(place, part, name, before_model=True))


def _attribute(*names: str) -> Callable[[Place], Iterator[Place | Unread]]:
    """A meta-estimator that fitted one estimator to everything."""

    def parts(place: Place) -> Iterator[Place | Unread]:
        for name in names:
            inner = getattr(place.leaf.estimator, name, None)
            if inner is not None:
                yield from leaves(inside(place, inner, name))
                return
        yield Unread(path=place.leaf.path, why=f"no {names[0]} is stored")

    return parts


def _selector(place: Place) -> Iterator[Place | Unread]:
    """RFE fits its estimator to the features it keeps."""
    model = place.leaf.estimator
    kept = np.flatnonzero(model.support_)
    features = width(place.leaf.known)

    def back(bounds: Bounds) -> Bounds:
        lower, upper = np.full(features, -np.inf), np.full(features, np.inf)
        lower[kept], upper[kept] = bounds
        return lower, upper

    known = np.asarray(place.leaf.known)[:, kept]
    columns = None if place.columns is None else place.columns[kept]
    yield from leaves(
        inside(
            place,
            model.estimator_,
            "estimator_",
            known=known,
            back=back,
            columns=columns,
            moved=columns is None,
            step=lambda rows: np.asarray(rows)[:, kept],
        )
    )


def _several(place: Place) -> Iterator[Place | Unread]:
    """Voting and stacking fit every estimator to everything; classes as numbers."""
    model = place.leaf.estimator
    labels, label_back = place.leaf.labels, place.label_back
    label = place.leaf.label
    if hasattr(model, "classes_") and labels is not None:
        labels, label_back, label = _as_numbers(place)
    names = [name for name, part in model.estimators if not isinstance(part, str)]
    for name, part in zip(names, model.estimators_, strict=False):
        yield from leaves(
            inside(place, part, name, labels=labels, label_back=label_back, label=label)
        )
    if hasattr(model, "final_estimator_"):
        yield Unread(
            path=f"{place.leaf.path}.final_estimator_".lstrip("."),
            why="it was fitted to predictions of other fits, which aren't stored",
        )


def _as_numbers(place: Place) -> tuple[np.ndarray, LabelBack, Any]:
    """Labels as indices of classes, the way back, and the told label."""
    classes = np.asarray(place.leaf.estimator.classes_)
    outer = place.label_back
    labels = np.searchsorted(classes, np.asarray(place.leaf.labels))
    told = place.leaf.label
    told = None if told is None else int(np.searchsorted(classes, told))
    return labels, lambda k: None if k is None else outer(classes[int(k)]), told


def _one_against_rest(place: Place) -> Iterator[Place | Unread]:
    """One estimator a class, fitted to 0 and 1."""
    model = place.leaf.estimator
    classes = np.asarray(model.classes_)
    if place.leaf.labels is None or getattr(model, "multilabel_", False):
        yield Unread(path=place.leaf.path, why="needs y_known, one label a row")
        return
    outer = place.label_back
    pairs = list(zip(model.estimators_, classes, strict=False))
    if len(model.estimators_) == 1:
        pairs = [(model.estimators_[0], classes[1])]
    for at, (part, label) in enumerate(pairs):

        def label_back(hit: Any, label: Any = label) -> Any:
            if hit == 1:
                return outer(label)
            return outer(classes[0]) if len(pairs) == 1 and hit == 0 else None

        told = place.leaf.label
        yield from leaves(
            inside(
                place,
                part,
                f"estimators_[{at}]",
                labels=(place.leaf.labels == label).astype(int),
                label_back=label_back,
                label=None if told is None else int(told == label),
            )
        )


def _many_outputs(place: Place) -> Iterator[Place | Unread]:
    """One estimator an output; labels come back one by one only in the message."""
    if place.leaf.labels is None or np.ndim(place.leaf.labels) != 2:
        yield Unread(path=place.leaf.path, why="needs y_known with a column an output")
        return
    for at, part in enumerate(place.leaf.estimator.estimators_):
        yield from leaves(
            inside(
                place,
                part,
                f"estimators_[{at}]",
                labels=place.leaf.labels[:, at],
                label_back=lambda label: None,
                label=None,
            )
        )


def _transformed_target(place: Place) -> Iterator[Place | Unread]:
    """A regressor fitted to transformed outputs."""
    model = place.leaf.estimator
    if place.leaf.labels is None or np.ndim(place.leaf.labels) != 1:
        yield Unread(path=place.leaf.path, why="needs y_known, one output a row")
        return
    outer = place.label_back
    column = np.asarray(place.leaf.labels, np.float64)[:, None]
    transformer = model.transformer_

    def label_back(label: Any) -> Any:
        if label is None:
            return None
        made = transformer.inverse_transform(np.reshape(float(label), (1, 1)))
        return outer(float(np.ravel(made)[0]))

    yield from leaves(
        inside(
            place,
            model.regressor_,
            "regressor_",
            labels=np.ravel(transformer.transform(column)),
            label_back=label_back,
            label=None,
        )
    )


_PARTS: dict[str, Callable[[Place], Iterator[Place | Unread]]] = {
    "Pipeline": _pipeline,
    "ColumnTransformer": _columns,
    "FeatureUnion": _union,
    "GridSearchCV": _attribute("best_estimator_"),
    "RandomizedSearchCV": _attribute("best_estimator_"),
    "HalvingGridSearchCV": _attribute("best_estimator_"),
    "HalvingRandomSearchCV": _attribute("best_estimator_"),
    "TunedThresholdClassifierCV": _attribute("estimator_"),
    "FixedThresholdClassifier": _attribute("estimator_"),
    "SelectFromModel": _attribute("estimator_"),
    "RFE": _selector,
    "RFECV": _selector,
    "VotingClassifier": _several,
    "VotingRegressor": _several,
    "StackingClassifier": _several,
    "StackingRegressor": _several,
    "OneVsRestClassifier": _one_against_rest,
    "MultiOutputClassifier": _many_outputs,
    "MultiOutputRegressor": _many_outputs,
    "TransformedTargetRegressor": _transformed_target,
}


@functools.cache
def _resampled() -> dict[str, Callable[[Place], Iterator["Place | Unread"]]]:
    """Parts of ensembles that saw part of the rows."""
    from artefacts import resampled  # which takes places apart itself

    return dict(resampled.PARTS)


def known_parts() -> set[str]:
    """Classes that are taken apart."""
    return set(_PARTS) | set(_resampled())


def register_parts(
    name: str, parts: Callable[[Place], Iterator["Place | Unread"]]
) -> None:
    """Take estimators of this class apart with `parts`."""
    _PARTS[name] = parts
