"""What a fitted scikit-learn estimator tells of the one row that is not known.

THREAT: knows all training rows but one, with their labels, and holds the fitted
estimator, with all that it stores. Needs no prior and no shadow models.

Every leaf of the estimator is read in the units of its own input; what it tells is
carried back through the fitted steps before it, and all of it is merged. A value is
called determined only if a field fixes it to rounding. Whether the known rows are the
right ones, the artefact tells where it stores more than is unknown: `certified`.
"""

import contextlib
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils import validation

from artefacts import contents, reading, registry, walk
from artefacts.answer import Answer, Line, merge
from artefacts.findings import Leaf, ReconstructionImpossibleError, narrow
from artefacts.glm import estimators
from artefacts.glm.closed_form import GlmReconstruction
from artefacts.readers import span
from shadow import checks


def reconstruct(
    estimator: Any,
    X_known: Any,
    y_known: Any = None,
    *,
    target_label: Any = None,
    position: int | None = None,
    sample_weight: np.ndarray | None = None,
    target_weight: float = 1.0,
    attainable: Any = None,
    retrain: bool = False,
    gallery: Any = None,
) -> Answer:
    """Reconstruct the one training row that is not among the known ones.

    Args:
      estimator: a fitted estimator: a leaf, a pipeline or a meta-estimator.
      X_known: (known, features), array or data frame, or a list of texts: all training
        rows but one, as they were given to `fit`.
      y_known: (known,) or (known, outputs), their labels; None where `fit` had none.
      target_label: the missing row's label; None: the adversary isn't told.
      position: the missing row's index among all rows, 0 .. len(X_known); None: the
        adversary isn't told.
      sample_weight: (known,), the known rows' weights as `fit` got them; None: it got
        none.
      target_weight: the missing row's sample weight.
      attainable: for trees: "known" where every column takes only values that known
        rows have, as binary columns do; or an array of values, or None, a column.
      retrain: for networks: run training again until the row is found, which takes
        minutes.
      gallery: (candidates, features) or a list of texts, as X_known: rows of which one
        may be the missing one; of linear models with more features than known rows.
    Returns: an `Answer`, in the units of X_known.
    Raises:
      ReconstructionImpossibleError: nothing in this estimator tells anything, or a
        stored count says that more or fewer rows are missing; the message says why.
      FieldError, ValueError: not a fitted estimator; rows of another width, labels of
        another number, a position out of range.
    """
    started = time.monotonic()
    _check_fitted(estimator)
    known, numeric, names = _rows(estimator, X_known)
    labels = _labels(y_known, known, getattr(estimator, "classes_", None))
    _check_told(known, position, sample_weight)
    leaf = Leaf(
        estimator=estimator,
        known=known,
        labels=labels,
        weights=None if sample_weight is None else np.asarray(sample_weight, float),
        target_weight=float(target_weight),
        position=position,
        label=target_label,
        attainable=attainable,
        retrain=retrain,
    )
    leaf = reading.densified(leaf)
    features = len(names)
    read = reading.everything(walk.root(leaf, features), numeric, gallery)
    lines = tuple(read.lines)
    refuted = tuple(line.field for line in lines if line.finding.certified is False)
    confirmed = any(line.finding.certified for line in lines)
    if read.others is not None and not confirmed:
        raise read.others
    # With more features than rows Newton's method takes half a minute.
    needless = confirmed and span.applies(leaf)
    closed, candidates, reason = _closed_form(leaf, target_label, needless)
    held: tuple[str, ...] = ()
    if numeric is not None:
        held = tuple(each.path for each in contents.holdings(estimator, known))
    if not lines and not candidates and closed is None:
        raise reason or _nothing_told(estimator, read.failures, held)
    # What one leaf confirms stands, whatever another one makes of the known rows.
    standing = lines
    if refuted:
        standing = tuple(line for line in lines if line.finding.certified)
    merged = merge(standing, numeric, features)
    value = merged["value"]
    if closed is not None and not merged["determined"].any():
        merged["value"] = np.asarray(closed.x)
    elif value.dtype != object:
        merged["value"] = _with_estimates(value, lines, features)
    y, label_clash = _one_label(standing)
    contradictions = (*merged.pop("contradictions"), *label_clash)
    answer = {
        **merged,
        "names": names,
        "y": target_label if y is None else y,
        "words": _words(standing),
        "named": _named(standing),
        "certified": _confirmed(standing, merged, numeric) and not contradictions,
        "refuted": refuted,
        "contradictions": contradictions,
        "lines": lines,
        "closed_form": closed,
        "candidates": candidates,
        "stored": held,
        "unread": tuple(dict.fromkeys(read.unread)),
    }
    notes = (*dict.fromkeys(read.notes), *_judgement(answer))
    return Answer(**answer, notes=notes, seconds=time.monotonic() - started)


def _check_fitted(estimator: Any) -> None:
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


def _check_told(
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


def _rows(estimator: Any, rows: Any) -> tuple[Any, np.ndarray | None, tuple[str, ...]]:
    """The known rows as given, as numbers where they are, and the features' names.

    Raises: FieldError: texts where rows were expected, another width, no rows.
    """
    if isinstance(rows, (list, tuple)) and rows and isinstance(rows[0], str):
        return list(rows), None, ()
    given = rows if hasattr(rows, "columns") else np.asarray(walk.dense(rows))
    if getattr(given, "ndim", 0) != 2:
        return _flat_rows(estimator, given)
    width = given.shape[1]
    given = _in_order(estimator, given)
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
    try:
        numeric = np.asarray(given, np.float64)
    except (ValueError, TypeError):
        return given, _by_column(np.asarray(given, object)), names
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


def _by_column(given: np.ndarray) -> np.ndarray:
    """(rows, features) float64; columns that are no numbers are NaN."""
    table = np.full(given.shape, np.nan)
    for j, column in enumerate(given.T):
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


def _labels(labels: Any, known: Any, classes: Any) -> np.ndarray | None:
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


def _closed_form(
    leaf: Leaf, target_label: Any, needless: bool
) -> tuple[
    GlmReconstruction | None,
    tuple[GlmReconstruction, ...],
    ReconstructionImpossibleError | None,
]:
    """Theorems 1 and 8, where the whole is a generalised linear model.

    Args:
      needless: whether the row is certain without it.
    Returns: the answer, or two candidates, or why there is none.
    """
    name = type(leaf.estimator).__name__
    plain = leaf.weights is None and leaf.labels is not None
    plain = plain and np.ndim(np.asarray(leaf.labels)) == 1
    if needless or name not in estimators.SUPPORTED or not plain:
        return None, (), None
    assert leaf.labels is not None
    try:
        found = estimators.reconstruct(
            leaf.estimator, leaf.known, leaf.labels, target_label=target_label
        )
    except ReconstructionImpossibleError as error:
        return None, (), error
    if isinstance(found, tuple):
        return None, found, None
    return found, (), None


def _with_estimates(
    value: np.ndarray, lines: Iterable[Line], features: int
) -> np.ndarray:
    """Best guesses where nothing is determined."""
    out = value.copy()
    for line in lines:
        guess = line.finding.estimate
        if guess is not None and len(guess) == features:
            out = np.where(np.isnan(out), guess, out)
    return out


def _confirmed(
    lines: Iterable[Line], merged: dict[str, Any], numeric: np.ndarray | None
) -> bool:
    """Whether fields confirm everything that is determined, feature by feature.

    A part's certificate is of the columns that it got, and of no others.
    """
    sure = [line for line in lines if line.finding.certified]
    open_ = np.array(merged["determined"], bool)
    for line in sure:
        if line.lower is not None and line.upper is not None:
            open_ &= ~narrow(line.lower, line.upper, numeric)
        for told in (line.finding.determined, line.finding.values):
            if told is not None and len(told) == len(open_):
                open_ &= [each is None or each is False for each in told.tolist()]
    return bool(sure) and not open_.any()


def _one_label(lines: Iterable[Line]) -> tuple[Any, tuple[str, ...]]:
    """The label that all lines agree on, or the clash."""
    told = [
        (line.field, line.label)
        for line in lines
        if line.label is not None and line.finding.certified is not False
    ]
    if not told:
        return None, ()
    first_field, first = told[0]
    for field, label in told[1:]:
        if not _alike(first, label):
            return None, (f"label: {first_field} says {first}, {field} says {label}",)
    return first, ()


def _alike(left: Any, right: Any) -> bool:
    """Equal labels, or outputs equal to rounding."""
    try:
        a, b = np.asarray(left, np.float64), np.asarray(right, np.float64)
    except (ValueError, TypeError):
        return bool(np.all(left == right))
    return bool(np.all(np.abs(a - b) <= 1e-6 * (1 + np.maximum(np.abs(a), np.abs(b)))))


def _words(lines: Iterable[Line]) -> frozenset[str] | None:
    """All words that are told."""
    told = [line.finding.words for line in lines if line.finding.words is not None]
    return frozenset().union(*told) if told else None


def _named(lines: Iterable[Line]) -> tuple[int, ...] | None:
    """The candidates that no line rules out; None: no line looks at candidates."""
    told = [set(each.finding.named) for each in lines if each.finding.named is not None]
    return tuple(sorted(set.intersection(*told))) if told else None


def _judgement(answer: dict[str, Any]) -> list[str]:
    """What is to be said of the whole."""
    notes = []
    if answer["refuted"]:
        fields = ", ".join(answer["refuted"])
        if answer["certified"]:
            told = [line.field for line in answer["lines"] if line.finding.certified]
            notes.append(
                f"{fields}: no row explains what is stored there together with these"
                f" known rows; {', '.join(told)} confirm the row all the same. Was a"
                " part fitted to other rows?"
            )
            return notes
        notes.append(
            f"{fields}: no row explains what is stored. The known rows are not all the"
            " others; nothing is called determined."
        )
        return notes
    if answer["determined"].all() and len(answer["determined"]):
        # A step before the model that tells all by itself.
        for line in answer["lines"]:
            if not line.before_model or line.lower is None:
                continue
            width = np.asarray(line.upper) - np.asarray(line.lower)
            if np.all(np.isfinite(width)) and all(
                source in ("", line.field) for source in answer["sources"]
            ):
                notes.append(
                    f"{line.field} alone is the missing row: the model behind it need"
                    " not be looked at."
                )
                break
    if not answer["certified"] and answer["determined"].any():
        notes.append(
            "Nothing in this artefact can tell whether the known rows are the right"
            " ones: what is determined is so if they are."
        )
    return notes


def _nothing_told(
    estimator: Any,
    failures: list[ReconstructionImpossibleError],
    stored: tuple[str, ...],
) -> Exception:
    """Why there is no answer."""
    if stored:
        name = type(estimator).__name__
        return ReconstructionImpossibleError(
            f"{name} stores training rows as they are ({', '.join(stored)}), but which"
            " of them isn't known can't be said: the known rows are not all the others,"
            " or not all are stored."
        )
    if failures:
        return failures[0]
    name = type(estimator).__name__
    row = registry.kind_of(name)
    if row.read is None and row.parts is None:
        near = checks.nearest(name, registry.readable())
        return ReconstructionImpossibleError(
            f"There is no reader for {name}.{near} `artefacts.register` adds one."
        )
    return ReconstructionImpossibleError(
        f"{name}: nothing of what it stores was read. That doesn't say that it tells"
        " nothing of the missing row."
    )
