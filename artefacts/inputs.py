"""Known rows and labels as they are handed in, checked and put in the fit's terms."""

import contextlib
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.utils import validation

from artefacts import walk
from shadow import checks


def check_fitted(estimator: Any) -> None:
    """Raise unless this is a fitted estimator."""
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise checks.FieldError(
            "estimator",
            f"Expected {{}} to be a fitted scikit-learn estimator, got"
            f" {type(estimator).__name__}.",
        )
    try:
        validation.check_is_fitted(estimator)
    except NotFittedError as error:
        raise checks.FieldError(
            "estimator",
            f"Expected a fitted {{}}, a {type(estimator).__name__} that isn't fitted"
            " was given; call its fit first.",
        ) from error


def check_told(
    known: Any, position: int | None, sample_weight: np.ndarray | None
) -> None:
    """Raise unless the told place and the weights belong to the known rows."""
    if position is not None:
        checks.within("position", position, 0, len(known) + 1)
    if sample_weight is not None and np.shape(sample_weight) != (len(known),):
        raise checks.FieldError(
            "sample_weight",
            f"Expected {{}} of shape ({len(known)},), one a known row, got"
            f" {np.shape(sample_weight)}.",
        )


# Where meta-estimators hold what was fitted to the rows as they came.
_INNER = (
    "best_estimator_", "estimators_", "estimator_", "regressor_", "classifier_",
    "calibrated_classifiers_", "estimator",
)  # fmt: skip


def text_features(estimator: Any) -> set[int]:
    """Which features were fitted as texts, by the categories of a first encoder.

    A postcode of digits is a text there, and a number in a file of texts.
    """
    if hasattr(estimator, "transformers_"):
        indices = estimator._transformer_to_input_indices
        return {
            int(indices[name][j])
            for name, part, _ in estimator.transformers_
            if name in indices
            for j in text_features(part)
        }
    if (categories := getattr(estimator, "categories_", None)) is not None:
        words = [any(isinstance(v, str) for v in values) for values in categories]
        return set(np.flatnonzero(words).tolist())
    for _, step in getattr(estimator, "steps", ()):
        identity = getattr(step, "func", ...) is None or step in (None, "passthrough")
        if not identity and not isinstance(step, SimpleImputer):
            return text_features(step)
    for name in _INNER:
        inner = getattr(estimator, name, None)
        members = inner if isinstance(inner, list) else [inner]
        fitted = [hasattr(m, "fit") or hasattr(m, "estimator") for m in members]
        if not (fitted and all(fitted)):
            continue
        # Members of a bag may have been given some of the features each.
        some = getattr(estimator, "estimators_features_", None)
        return {
            j if some is None else int(some[i][j])
            for i, member in enumerate(members)
            for j in text_features(member)
        }
    return set()


def known_rows(
    estimator: Any, rows: Any
) -> tuple[Any, np.ndarray | None, tuple[str, ...]]:
    """The known rows as given, as numbers where they are, and the features' names.

    Raises: FieldError: texts where rows were expected, another width, no rows.
    """
    if isinstance(rows, (list, tuple)) and rows and isinstance(rows[0], str):
        return list(rows), None, ()
    given = rows if hasattr(rows, "columns") else np.asarray(walk.dense(rows))
    if getattr(given, "ndim", 0) != 2:
        return _flat_rows(estimator, given)
    given = _in_order(estimator, given)
    width = given.shape[1]
    expected = getattr(estimator, "n_features_in_", width)
    if width != expected:
        raise checks.FieldError(
            "X_known",
            f"Expected {{}} of {expected} features, as many as the estimator was fitted"
            f" to, got an array of shape {tuple(given.shape)}.",
        )
    if not len(given):
        raise checks.FieldError("X_known", "Expected {} to have a row at least, got 0.")
    named = getattr(given, "columns", None)
    if named is None:
        named = getattr(estimator, "feature_names_in_", None)
    names = tuple(str(n) for n in (range(width) if named is None else named))
    texts = text_features(estimator)
    try:
        # Digits that are texts to the estimator would become numbers.
        numeric = None if texts else np.asarray(given, np.float64)
    except (ValueError, TypeError):
        numeric = None
    if numeric is None:
        return given, _by_column(np.asarray(given, object), texts), names
    return (given if hasattr(given, "columns") else numeric), numeric, names


def _in_order(estimator: Any, rows: Any) -> Any:
    """A data frame's columns in the order of the fit, as scikit-learn wants them.

    Raises: FieldError: a column that it was fitted to is missing.
    """
    wanted = getattr(estimator, "feature_names_in_", None)
    columns = getattr(rows, "columns", None)
    if wanted is None or columns is None or list(columns) == list(wanted):
        return rows
    missing = [str(name) for name in wanted if name not in list(columns)]
    if missing:
        raise checks.FieldError(
            "X_known",
            "Expected {} to have the columns that the estimator was fitted to; there is"
            f" no {', '.join(missing)}.",
        )
    return rows[list(wanted)]


def _by_column(given: np.ndarray, texts: set[int]) -> np.ndarray:
    """(rows, features) float64; columns that are no numbers are NaN."""
    table = np.full(given.shape, np.nan)
    for j, column in enumerate(given.T):
        if j in texts:
            continue
        with contextlib.suppress(ValueError, TypeError):
            table[:, j] = column.astype(np.float64)
    return table


def _flat_rows(estimator: Any, given: Any) -> tuple[Any, None, tuple[str, ...]]:
    """One column of labels or texts, as LabelEncoder and vectorisers take."""
    wide = hasattr(estimator, "n_features_in_")
    if getattr(given, "ndim", 0) != 1 or not len(given) or wide:
        raise checks.FieldError(
            "X_known",
            f"Expected {{}} of shape (rows, features), got {np.shape(given)}.",
        )
    return list(given) if isinstance(given[0], str) else given, None, ()


def known_labels(labels: Any, known: Any, classes: Any) -> np.ndarray | None:
    """The labels as an array, of the type of the estimator's classes.

    Raises: FieldError: not one a row.
    """
    if labels is None:
        return None
    labels = np.asarray(labels)
    if labels.shape[:1] != (len(known),):
        raise checks.FieldError(
            "y_known",
            f"Expected {len(known)} labels in {{}}, one a known row, got"
            f" {labels.shape}.",
        )
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if isinstance(classes, np.ndarray) and labels.ndim == 1:
        return _as_classes(labels, classes)
    return labels


def _as_classes(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Labels by the name of their class: a table says "True" where a fit got True."""
    if np.isin(labels, classes).all():
        return labels
    names = {str(each): at for at, each in enumerate(classes.tolist())}
    places = [names.get(str(each)) for each in labels.tolist()]
    if None in places:
        # A class of its own may be missing: then the label is not among them.
        return labels
    return classes[np.array(places, int)]


def in_single_precision(rows: Any) -> Any:
    """Known rows rounded to single precision; None: that is what they are."""
    try:
        if hasattr(rows, "columns"):
            made = rows.astype("float32").astype("float64")
            same = np.array_equal(made, rows, equal_nan=True)
        else:
            given = np.asarray(walk.dense(rows), np.float64)
            made = given.astype(np.float32).astype(np.float64)
            same = np.array_equal(made, given, equal_nan=True)
    except (ValueError, TypeError, OverflowError):
        # Texts, and columns that are no numbers.
        return None
    return None if same else made
