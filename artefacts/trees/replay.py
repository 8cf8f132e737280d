"""The attack: what a fitted tree, forest or boosting tells of a missing row."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from artefacts.trees import bags, completions, histogram_boosting, paths, stripped
from artefacts.trees import labels as labelling
from artefacts.trees.bounds import (
    Attainable,
    Bounds,
    ContradictionError,
    attainable_values,
    confine,
    hull,
    originals,
)
from artefacts.trees.determined import Determined, nothing
from artefacts.trees.fitted import BOOSTING, FORESTS, SINGLE, Fitted, read
from artefacts.trees.hypothesis import Hypothesis, Known, explain, prior_label
from artefacts.trees.labels import as_given
from shadow.checks import FieldError

SUPPORTED = (*SINGLE, *FORESTS, *BOOSTING, *histogram_boosting.SUPPORTED)
# Positions up to which trees are fitted again for each; more would take a forest's
# training each.
_CERTIFIED = 4
_NOWHERE = (
    "No missing row explains these trees: the known rows aren't those that the"
    " estimator was fitted on, or aren't in the order of the training set."
)
_NOT_AGAIN = (
    "Counts and thresholds fit, but trees fitted again with the row put back differ:"
    " another version of scikit-learn, sparse input, or a known row that isn't right."
)
_ABSENT = (
    "No row with all its values explains these trees; one without a value of columns"
    " {} does. It has no value there, or the known rows are other ones."
)
_STRIPPED = (
    "The trees' seeds are gone, so their bootstraps aren't known: only what holds"
    " whatever was drawn is told."
)


def replay(
    estimator: Any,
    X_known: Any,
    y_known: np.ndarray,
    *,
    position: int | None = None,
    label: Any = None,
    weights: np.ndarray | None = None,
    target_weight: float = 1.0,
    attainable: Attainable = None,
    certify: bool = True,
    tries: int = 32,
) -> Determined:
    """What a fitted estimator tells of the one training row that isn't known.

    Assumed: all other rows are known, in their order; the missing one has no missing
    values, unless only these explain the trees. Everything told is then certain; see
    `Determined`.

    Args:
      estimator: a fitted estimator of one of the `SUPPORTED` types.
      X_known: (known, features), array or sparse array, all rows but one.
      y_known: (known,), the known rows' labels as `fit` got them.
      position: the missing row's index in the training set, 0 to len(X_known); None:
        all are tried, and those kept that replay.
      label: the missing row's label; None: the adversary isn't told.
      weights: (known,), the known rows' sample weights; None: `fit` got none.
      target_weight: the missing row's sample weight.
      attainable: which values columns can take, where that is known: "known": those of
        the known rows, in every column (say so for one-hot and other binary tables); or
        one array of values, or None, for each column. None: any number.
      certify: whether the trees are fitted again with the row put back.
      tries: how many rows may be put back where few are left.
    Raises: FieldError: another type, not fitted, shapes that don't belong together, a
      position out of range, labels that aren't classes of the estimator.
    """
    name = type(estimator).__name__
    if name not in SUPPORTED:
        raise FieldError(
            "estimator", f"Expected one of {', '.join(SUPPORTED)}, got {name}."
        )
    rows = _rows(estimator, X_known)
    labels = _labels(y_known, len(rows))
    if position is not None and not 0 <= position <= len(rows):
        raise FieldError(
            "position", f"Expected {{}} in 0 to {len(rows)}, got {position}."
        )
    if weights is not None and np.shape(weights) != (len(rows),):
        raise FieldError(
            "weights",
            f"Expected {{}} of shape ({len(rows)},), got {np.shape(weights)}.",
        )
    values = attainable_values(attainable, rows)
    if name in histogram_boosting.SUPPORTED:
        told = histogram_boosting.read(
            estimator,
            rows,
            labels,
            values,
            label=label,
            weights=weights,
            target_weight=target_weight,
            certify=certify,
            tries=tries,
        )
        if told is None:
            return nothing(rows.shape[1], _NOWHERE)
        places = np.arange(len(rows) + 1) if position is None else np.array([position])
        return dataclasses.replace(told, positions=places)
    fitted = read(estimator)
    known = _known(fitted, rows, labels, values, weights, target_weight, label)
    return _trees(fitted, known, position, tries if certify else 0)


def _trees(
    fitted: Fitted,
    known: Known,
    position: int | None,
    tries: int,
) -> Determined:
    """Trees, forests and gradient boosting; 0 `tries`: nothing is fitted again."""
    rows = known.rows
    total = len(rows) + 1
    drawn = bags.drawn(fitted.estimator, total, known.given(np.array([len(rows)])))
    counted = all(tree.count is not None for tree in fitted.trees)
    tried = np.arange(total) if position is None else np.array([position])
    if drawn is None or not counted:
        return _without(fitted, known, drawn is not None, tried)
    leaves = [tree.leaves(known.rows) for tree in fitted.trees]
    same_everywhere = bool((drawn == drawn[:, :1]).all())
    stored = getattr(fitted.estimator, "_sample_weight", None)
    if stored is not None and known.weights is None and not fitted.by_class:
        same_everywhere &= bool((stored == stored[0]).all())
    places = tried[-1:] if same_everywhere else tried
    live = np.ones(len(rows), bool) if known.weights is None else known.weights > 0
    # Counts of nodes rule out positions, tree after tree.
    if len(places) > 1:
        for tree, at, bag in zip(fitted.trees, leaves, drawn, strict=True):
            places = places[paths.surviving(tree, at, bag, places, live)]
    few = len(places) <= _CERTIFIED
    outcomes: list[tuple[Hypothesis, bool | None]] = []
    # The row has all its values; if none explains the trees, it lacks some.
    for search in (explain, _with_holes):
        for place in places:
            try:
                guess = search(fitted, known, drawn, leaves, np.array([place]))
            except ContradictionError:
                continue
            sure = _certify(fitted, known, drawn, guess, tries) if few else None
            outcomes.append((guess, sure))
        if outcomes:
            break
    if not outcomes:
        return nothing(rows.shape[1], _NOWHERE)
    refuted = [guess for guess, sure in outcomes if sure is False]
    # Fitted again, rows at other places give these trees: the refuted ones can go.
    if len(refuted) < len(outcomes):
        outcomes = [each for each in outcomes if each[1] is not False]
    found = [guess for guess, _ in outcomes]
    bounds = hull([guess.bounds[0] for guess in found])
    kept = tried if same_everywhere else np.array([g.positions[0] for g in found])
    sure = True if all(each is True for _, each in outcomes) else None
    notes = []
    if bounds.absent:
        notes.append(_ABSENT.format(", ".join(map(str, sorted(bounds.absent)))))
    if len(refuted) == len(found):
        notes.append(_NOT_AGAIN)
    if not any(guess.met for guess in found):
        notes.append("No tree drew the missing row: nothing is told of it.")
    if len(kept) > 1 and not same_everywhere:
        notes.append(f"{len(kept)} positions replay; what all of them leave is told.")
    told = {repr(guess.labels[0]) for guess in found}
    return _answer(
        bounds, known, found[0].labels[0] if len(told) == 1 else None, kept, sure, notes
    )


def _with_holes(
    fitted: Fitted,
    known: Known,
    drawn: np.ndarray,
    leaves: Sequence[np.ndarray],
    positions: np.ndarray,
) -> Hypothesis:
    """What all trees say, if the row has no value where no value explains them.

    Raises: ContradictionError: a row without these values doesn't either.
    """
    absent: frozenset[int] = frozenset()
    while True:
        try:
            return explain(fitted, known, drawn, leaves, positions, absent)
        except ContradictionError as error:
            feature = error.feature
            if feature is None or feature in absent:
                raise
            if known.values[feature] is not None:
                # The caller says which values the column can take.
                raise
            absent |= {feature}


def _certify(
    fitted: Fitted,
    known: Known,
    drawn: np.ndarray,
    guess: Hypothesis,
    tries: int,
) -> bool | None:
    """Put the row back; narrows the bounds where few rows are left.

    Returns: True: the trees came out again. False: all rows within the bounds were
      tried, and none gives the trees. None: neither.
    """
    check = completions.forest_check(fitted, known, drawn, guess)
    if not tries or check is None:
        return None
    tried = completions.attempt(guess.bounds[0], known.rows, known.values, check, tries)
    if completions.narrowed(guess.bounds[0], tried):
        return True
    settled = all(tree.seed is not None for tree in fitted.trees)
    if tried.exhaustive and settled and not fitted.boosting:
        return False
    return None


def _without(
    fitted: Fitted,
    known: Known,
    seeded: bool,
    tried: np.ndarray,
) -> Determined:
    """Seeds or counts are gone."""
    everything = not getattr(fitted.estimator, "bootstrap", False) and seeded
    of_classes = known.encoded is not None and not fitted.boosting
    # Under monotonic constraints a leaf's value is cut off, and is no share of classes.
    of_classes &= getattr(fitted.estimator, "monotonic_cst", None) is None
    try:
        remains = stripped.collect(
            fitted.trees,
            known.rows,
            known.encoded if of_classes else None,
            everything=everything,
            targets=_means(fitted, known, of_classes),
        )
        confine(remains.bounds, known.values)
        label = prior_label(fitted, known) if fitted.boosting else known.label
    except ContradictionError as error:
        # Bounds that leave no value are explained by a missing one.
        sure = False if error.feature is None else None
        features = known.rows.shape[1]
        return nothing(features, _NOWHERE, certified=sure)
    if len(remains.classes) == 1 and label is None:
        assert fitted.classes is not None
        label = as_given(fitted.classes[remains.classes.pop()])
    if remains.outputs and label is None:
        least, most = min(remains.outputs), max(remains.outputs)
        size = max(1.0, float(np.abs(known.labels).max()))
        label = (
            float(np.median(remains.outputs)) if most - least < 1e-6 * size else None
        )
    gone = _STRIPPED if not seeded else "Counts are gone; thresholds are not."
    notes = [gone, f"{remains.met} of {len(fitted.trees)} trees show the missing row."]
    return _answer(remains.bounds, known, label, tried, None, notes)


def _means(fitted: Fitted, known: Known, of_classes: bool) -> np.ndarray | None:
    """What leaves' values are means of, for each known row; None: of nothing known."""
    weighted = getattr(fitted.estimator, "class_weight", None) is not None
    if fitted.boosting or weighted or known.weights is not None:
        return None
    if of_classes:
        assert known.encoded is not None
        return np.eye(fitted.trees[0].value.shape[1])[known.encoded]
    constrained = getattr(fitted.estimator, "monotonic_cst", None) is not None
    if known.encoded is not None or constrained or known.labels.ndim != 1:
        return None
    means = all(part.criterion in labelling.MEANS for part in fitted.parts)
    return known.labels.astype(np.float64)[:, None] if means else None


def replay_rows(
    estimator: Any,
    X_known: Any,
    y_known: np.ndarray,
    *,
    positions: Sequence[int],
    attainable: Attainable = None,
) -> tuple[Determined, ...]:
    """What trees or a forest tell of several missing rows at known positions.

    Args: as `replay`.
      positions: the missing rows' indices in the training set, ascending.
    Returns: one answer for each, never certified. In trees where two of them can't be
      told apart only what is true of both is used.
    Raises: FieldError: as `replay`; boosting; seeds or counts are gone.
    """
    name = type(estimator).__name__
    if name not in (*SINGLE, *FORESTS):
        raise FieldError(
            "estimator",
            f"Expected one of {', '.join((*SINGLE, *FORESTS))} for several rows, got"
            f" {name}.",
        )
    fitted = read(estimator)
    rows = _rows(estimator, X_known)
    labels = _labels(y_known, len(rows))
    at = np.asarray(positions, np.int64)
    total = len(rows) + len(at)
    if (
        not len(at)
        or len(set(at.tolist())) < len(at)
        or at.min() < 0
        or at.max() >= total
    ):
        raise FieldError(
            "positions",
            f"Expected different {{}} in 0 to {total - 1}, got {positions}.",
        )
    at = np.sort(at)
    known = _known(fitted, rows, labels, attainable_values(attainable, rows))
    drawn = bags.drawn(estimator, total)
    if drawn is None or any(tree.count is None for tree in fitted.trees):
        raise FieldError("estimator", f"{name} has no seeds or counts any more.")
    leaves = [tree.leaves(known.rows) for tree in fitted.trees]
    try:
        guess = explain(fitted, known, drawn, leaves, at)
    except ContradictionError:
        return tuple(nothing(rows.shape[1], _NOWHERE) for _ in at)
    return tuple(
        _answer(bounds, known, label, at[index : index + 1], None, [])
        for index, (bounds, label) in enumerate(
            zip(guess.bounds, guess.labels, strict=True)
        )
    )


def _known(
    fitted: Fitted,
    rows: np.ndarray,
    labels: np.ndarray,
    values: list[np.ndarray | None],
    weights: np.ndarray | None = None,
    own_weight: float = 1.0,
    label: Any = None,
) -> Known:
    """What the adversary has, as the trees compare it."""
    return Known(
        rows=rows.astype(np.float32).astype(np.float64),
        labels=labels,
        encoded=None if fitted.classes is None else fitted.encode(labels),
        weights=weights,
        own_weight=own_weight,
        values=values,
        label=label,
    )


def _answer(
    bounds: Bounds,
    known: Known,
    label: Any,
    positions: Int[np.ndarray, " positions"],
    certified: bool | None,
    notes: Sequence[str],
) -> Determined:
    """Bounds in the units and the precision of the input."""
    lower, upper, value = originals(bounds, known.values)
    return Determined(
        lower=lower,
        upper=upper,
        determined=bounds.single,
        value=value,
        label=label,
        positions=positions,
        certified=certified,
        notes=tuple(notes),
    )


def _rows(estimator: Any, known: Any) -> Float[np.ndarray, "known features"]:
    """Known rows as float64.

    Raises: FieldError: not a table of numbers, or of another width.
    """
    dense = known.toarray() if hasattr(known, "toarray") else known
    try:
        rows = np.asarray(dense, np.float64)
    except (TypeError, ValueError) as error:
        raise FieldError(
            "X_known", f"Expected {{}} to be a table of numbers: {error}."
        ) from error
    width = getattr(estimator, "n_features_in_", None)
    if rows.ndim != 2 or (width is not None and rows.shape[1] != width):
        raise FieldError(
            "X_known",
            f"Expected {{}} of shape (known, {width}), as the estimator was fitted, got"
            f" {rows.shape}.",
        )
    return rows


def _labels(given: np.ndarray, rows: int) -> np.ndarray:
    """Known labels.

    Raises: FieldError: not one a row.
    """
    labels = np.asarray(given)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (rows,):
        raise FieldError(
            "y_known", f"Expected {{}} of shape ({rows},), got {labels.shape}."
        )
    return labels
