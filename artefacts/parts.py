"""What a pipeline, a column transformer or a meta-estimator is made of.

Each function takes the site of one such estimator and gives the sites inside it, in
the order of the fit: what each part was fitted to, and the way back from it.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import _safe_indexing

from artefacts import inverse, registry
from artefacts.findings import nothing
from artefacts.inverse import Told
from artefacts.readers.moments import by_svd
from artefacts.registry import register
from artefacts.walk import LabelBack, Site, Unread, dense, inside, leaves, width

# Known rows on which it is tried whether anything comes back through a step.
_TRIED = 16


def _pipeline(site: Site) -> Iterator[Site | Unread]:
    """Steps, each fitted to what the steps before it make of the rows."""
    here = site
    steps = site.leaf.estimator.steps
    for at, (name, step) in enumerate(steps):
        last = at == len(steps) - 1
        if step is None or step == "passthrough":
            continue
        before = site.before_model or not last
        # Weights go to the last step: `fit(X, y, step__sample_weight=w)`.
        inner = here if last else _unweighted(here)
        inner = inside(inner, step, name, before_model=before)
        yield from leaves(inner)
        if last:
            return
        if not hasattr(step, "transform"):
            # Samplers of imbalanced-learn change which rows there are.
            for later, _ in steps[at + 1 :]:
                path = f"{site.leaf.path}.{later}" if site.leaf.path else later
                yield Unread(path=path, why=f"{name} before it may change the rows")
            return
        features = width(here.leaf.known)
        made = step.transform(here.leaf.known)
        words = _words(step, here)

        def back(told: Told, step: Any = step, features: int = features) -> Told:
            return inverse.pull(step, told, features)

        path = here.leaf.path
        lost = not _carries(step, made, features)
        here = inside(
            here,
            site.leaf.estimator,
            "",
            known=made,
            back=back,
            moved=True,
            step=step.transform,
        )
        here = dataclasses.replace(
            here,
            leaf=dataclasses.replace(here.leaf, path=path),
            through=(*here.through, type(step).__name__) if lost else here.through,
            repeats=here.repeats and repeats(step),
            words=words,
        )


def _carries(step: Any, made: Any, features: int) -> bool:
    """Whether anything of a row comes back through a step, tried on known rows.

    Args:
      step: a fitted transformer.
      made: what it made of the known rows.
      features: how many features its input has.
    """
    for row in np.asarray(dense(made[:_TRIED]), object):
        bounds, values = inverse.pull(step, inverse.exactly(row), features)
        if bounds is not None and np.isfinite(bounds).any():
            return True
        if values is not None and any(each is not None for each in values):
            return True
    return False


def _unweighted(site: Site) -> Site:
    """The site, fitted without sample weights."""
    leaf = dataclasses.replace(site.leaf, weights=None, target_weight=1.0)
    return dataclasses.replace(site, leaf=leaf)


def _words(step: Any, here: Site) -> np.ndarray | None:
    """The words that a step's output counts: a vectoriser's, or those it was given."""
    if isinstance(here.leaf.known, list) and hasattr(step, "vocabulary_"):
        return np.asarray(step.get_feature_names_out())
    return here.words if isinstance(step, OneToOneFeatureMixin) else None


def repeats(step: Any) -> bool:
    """Whether `fit_transform` gave what `transform` gives of the same rows.

    It does by construction where it is the one that scikit-learn's transformers share.
    Isomap, NMF, randomised decompositions and target encoders give something else.
    """
    told = registry.kind_of(type(step).__name__).repeats
    if told is not None:
        return told(step)
    own = getattr(type(step), "fit_transform", None)
    return own is TransformerMixin.fit_transform


def _all_repeat(steps: Iterable[Any]) -> bool:
    return all(repeats(each) for each in steps if hasattr(each, "fit"))


def _columns(site: Site) -> Iterator[Site | Unread]:
    """Parts of a ColumnTransformer, each with its columns."""
    transformer = site.leaf.estimator
    for name, part, told in transformer.transformers_:
        if (
            isinstance(part, str)
            or name not in transformer._transformer_to_input_indices
        ):
            continue
        columns = inverse.columns_of(transformer, name)
        if not len(columns):
            continue
        known = _safe_indexing(site.leaf.known, columns, axis=1)
        if isinstance(told, (str, int)):
            # A vectoriser is given one column, without its second axis.
            known = np.ravel(np.asarray(known)).tolist()
        step = functools.partial(_safe_indexing, indices=columns, axis=1)
        yield from _of_columns(
            site, part, name, columns, known=known, step=step, before_model=True
        )


def _of_columns(
    site: Site, part: Any, name: str, columns: np.ndarray, **inner: Any
) -> Iterator[Site | Unread]:
    """A part that is given some of the columns.

    Args:
      columns: their numbers.
      inner: further arguments of `inside`.
    """
    features = width(site.leaf.known)

    def back(told: Told) -> Told:
        bounds, values = None, told.values
        if told.bounds is not None:
            bounds = nothing(features)
            bounds[0][columns], bounds[1][columns] = told.bounds
        if values is not None:
            values = inverse.placed(values, columns, features)
        return Told(bounds, values)

    here = None if site.columns is None else site.columns[columns]
    yield from leaves(
        inside(
            site,
            part,
            name,
            back=back,
            columns=here,
            reach=here,
            moved=here is None,
            **inner,
        )
    )


def _union(site: Site) -> Iterator[Site | Unread]:
    for name, part in site.leaf.estimator.transformer_list:
        if not isinstance(part, str):
            yield from leaves(inside(site, part, name, before_model=True))


def _attribute(name: str) -> Callable[[Site], Iterator[Site | Unread]]:
    """A meta-estimator that fitted one estimator to everything."""

    def parts(site: Site) -> Iterator[Site | Unread]:
        inner = getattr(site.leaf.estimator, name, None)
        if inner is None:
            yield Unread(path=site.leaf.path, why=f"no {name} is stored")
        else:
            yield from leaves(inside(site, inner, name))

    return parts


def _tuned(site: Site) -> Iterator[Site | Unread]:
    """A classifier whose threshold was tuned on rows that it may not have seen."""
    if site.leaf.estimator.refit:
        yield from _attribute("estimator_")(site)
    else:
        yield Unread(
            path=site.leaf.path, why="refit=False: it was fitted to a part of the rows"
        )


def _selector(site: Site) -> Iterator[Site | Unread]:
    """RFE fits its estimator to the features it keeps."""
    model = site.leaf.estimator
    kept = np.flatnonzero(model.support_)

    def step(rows: Any) -> Any:
        return (rows if sparse.issparse(rows) else np.asarray(rows))[:, kept]

    known = step(site.leaf.known)
    yield from _of_columns(
        site, model.estimator_, "estimator_", kept, known=known, step=step
    )


def _several(site: Site) -> Iterator[Site | Unread]:
    """Voting and stacking fit every estimator to everything; classes as numbers."""
    model = site.leaf.estimator
    labels, label_back = site.leaf.labels, site.label_back
    label = site.leaf.label
    if hasattr(model, "classes_") and labels is not None:
        labels, label_back, label = _as_numbers(site)
    names = [name for name, part in model.estimators if not isinstance(part, str)]
    for name, part in zip(names, model.estimators_, strict=False):
        yield from leaves(
            inside(site, part, name, labels=labels, label_back=label_back, label=label)
        )
    if hasattr(model, "final_estimator_"):
        yield Unread(
            path=f"{site.leaf.path}.final_estimator_".lstrip("."),
            why="it was fitted to predictions of other fits, which aren't stored",
        )


def _as_numbers(site: Site) -> tuple[np.ndarray, LabelBack, Any]:
    """Labels as indices of classes, the way back, and the told label."""
    classes = np.asarray(site.leaf.estimator.classes_)
    outer = site.label_back
    labels = np.searchsorted(classes, np.asarray(site.leaf.labels))
    told = site.leaf.label
    told = None if told is None else int(np.searchsorted(classes, told))
    return labels, lambda k: None if k is None else outer(classes[int(k)]), told


def _one_against_rest(site: Site) -> Iterator[Site | Unread]:
    """One estimator a class, fitted to 0 and 1."""
    model = site.leaf.estimator
    classes = np.asarray(model.classes_)
    if site.leaf.labels is None or getattr(model, "multilabel_", False):
        yield Unread(path=site.leaf.path, why="needs y_known, one label a row")
        return
    outer = site.label_back
    pairs = list(zip(model.estimators_, classes, strict=False))
    if len(model.estimators_) == 1:
        pairs = [(model.estimators_[0], classes[1])]
    for at, (part, label) in enumerate(pairs):

        def label_back(hit: Any, label: Any = label) -> Any:
            if hit == 1:
                return outer(label)
            return outer(classes[0]) if len(pairs) == 1 and hit == 0 else None

        told = site.leaf.label
        yield from leaves(
            inside(
                site,
                part,
                f"estimators_[{at}]",
                labels=(site.leaf.labels == label).astype(int),
                label_back=label_back,
                label=None if told is None else int(told == label),
            )
        )


def _many_outputs(site: Site) -> Iterator[Site | Unread]:
    """One estimator an output; labels come back one by one only in the message."""
    if site.leaf.labels is None or np.ndim(site.leaf.labels) != 2:
        yield Unread(path=site.leaf.path, why="needs y_known with a column an output")
        return
    for at, part in enumerate(site.leaf.estimator.estimators_):
        yield from leaves(
            inside(
                site,
                part,
                f"estimators_[{at}]",
                labels=site.leaf.labels[:, at],
                label_back=lambda label: None,
                label=None,
            )
        )


def _frozen(site: Site) -> Iterator[Site | Unread]:
    """What was fitted before, perhaps to other rows."""
    yield from leaves(
        inside(site, site.leaf.estimator.estimator, "estimator", elsewhere=True)
    )


def _transformed_target(site: Site) -> Iterator[Site | Unread]:
    """A regressor fitted to transformed outputs."""
    model = site.leaf.estimator
    if site.leaf.labels is None or np.ndim(site.leaf.labels) != 1:
        yield Unread(path=site.leaf.path, why="needs y_known, one output a row")
        return
    outer = site.label_back
    column = np.asarray(site.leaf.labels, np.float64)[:, None]
    transformer = model.transformer_

    def label_back(label: Any) -> Any:
        if label is None:
            return None
        made = transformer.inverse_transform(np.reshape(float(label), (1, 1)))
        return outer(float(np.ravel(made)[0]))

    yield from leaves(
        inside(
            site,
            model.regressor_,
            "regressor_",
            labels=np.ravel(transformer.transform(column)),
            label_back=label_back,
            label=None,
        )
    )
    if type(transformer).__name__ != "FunctionTransformer":
        path = f"{site.leaf.path}.transformer_" if site.leaf.path else "transformer_"
        yield Unread(path=path, why="it was fitted to the outputs, which aren't read")


register("Pipeline", parts=_pipeline)
register("ColumnTransformer", parts=_columns)
register("FeatureUnion", parts=_union)
register(
    (
        "GridSearchCV",
        "RandomizedSearchCV",
        "HalvingGridSearchCV",
        "HalvingRandomSearchCV",
    ),
    parts=_attribute("best_estimator_"),
)
register(
    ("FixedThresholdClassifier", "SelectFromModel"), parts=_attribute("estimator_")
)
register("TunedThresholdClassifierCV", parts=_tuned)
register("FrozenEstimator", parts=_frozen, repeats=lambda it: True)
register(("RFE", "RFECV"), parts=_selector)
register(
    (
        "VotingClassifier",
        "VotingRegressor",
        "StackingClassifier",
        "StackingRegressor",
    ),
    parts=_several,
)
register("OneVsRestClassifier", parts=_one_against_rest)
register(("MultiOutputClassifier", "MultiOutputRegressor"), parts=_many_outputs)
register("TransformedTargetRegressor", parts=_transformed_target)
# A randomised solver's output differs from the projection in its last digits.
register("PCA", repeats=by_svd)
register("Pipeline", repeats=lambda it: _all_repeat(e for _, e in it.steps))
register(
    "ColumnTransformer",
    repeats=lambda it: _all_repeat(e for _, e, _ in it.transformers_),
)
register(
    "FeatureUnion", repeats=lambda it: _all_repeat(e for _, e in it.transformer_list)
)
# Their own `fit_transform` saves work and gives the same.
register(
    (
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
    ),
    repeats=lambda it: True,
)
