"""What a fitted scikit-learn estimator tells of the one row that is not known.

THREAT: knows all training rows but one, with their labels, and holds the fitted
estimator, with all that it stores. Needs no prior and no shadow models.

Every leaf of the estimator is read in the units of its own input; what it tells is
carried back through the fitted steps before it, and all of it is merged. A value is
called determined only if a field fixes it to rounding. Whether the known rows are the
right ones, the artefact tells where it stores more than is unknown: `certified`.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from artefacts import contents, inputs, reading, registry, walk
from artefacts.answer import Answer, Line, merge
from artefacts.findings import Leaf, ReconstructionImpossibleError
from artefacts.glm import estimators
from artefacts.glm.closed_form import GlmReconstruction
from artefacts.readers import span

_ROUNDED = (
    "The known rows fit what is stored once they are rounded to single precision, as"
    " training seems to have had them."
)


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
    inputs.check_fitted(estimator)
    told = Leaf(
        estimator=estimator,
        known=X_known,
        labels=None if y_known is None else np.asarray(y_known),
        weights=None if sample_weight is None else np.asarray(sample_weight, float),
        target_weight=float(target_weight),
        position=position,
        label=target_label,
        attainable=attainable,
        retrain=retrain,
    )
    # Tables hold decimals where training in single precision saw them rounded. To train
    # again takes minutes, so that it isn't done twice.
    rounded = None if retrain else inputs.in_single_precision(X_known)
    answers: list[Answer] = []
    impossible: ReconstructionImpossibleError | None = None
    for rows in (X_known, rounded):
        if rows is None:
            continue
        try:
            answers.append(_read(dataclasses.replace(told, known=rows), gallery))
        except ReconstructionImpossibleError as error:
            impossible = impossible or error
            continue
        if rows is X_known:
            if not (answers[-1].refuted or _is_single(told)):
                break
        elif answers[-1].certified:
            notes = (_ROUNDED, *answers[-1].notes)
            answers[-1] = dataclasses.replace(answers[-1], notes=notes)
        else:
            # In single precision other rows fit too: without a certificate it is no
            # evidence against what was found of the rows as they were given.
            answers.pop()
    if not answers:
        assert impossible is not None
        raise impossible
    # The first of equals: the known rows as they were given.
    return max(answers, key=_credible)


def _credible(answer: Answer) -> tuple[bool, bool, int]:
    """By which of two readings of one artefact the better one is chosen."""
    return answer.certified, not answer.refuted, int(answer.determined.sum())


def _is_single(told: Leaf) -> bool:
    """Whether an artefact holds numbers in single precision."""
    arrays = contents.arrays(told.estimator)
    return any(array.dtype == np.float32 for _, array in arrays)


def _read(told: Leaf, gallery: Any) -> Answer:
    """The answer, for one form of the known rows.

    Args:
      told: the whole estimator and what is known, as it was given.
      gallery: see `reconstruct`.
    """
    estimator, target_label = told.estimator, told.label
    known, numeric, names = inputs.known_rows(estimator, told.known)
    inputs.check_told(known, told.position, told.weights)
    labels = inputs.known_labels(
        told.labels, known, getattr(estimator, "classes_", None)
    )
    leaf = dataclasses.replace(told, known=known, labels=labels)
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
    held = tuple(each.path for each in contents.holdings(estimator, known))
    if not lines and not candidates and closed is None:
        raise reason or _nothing_told(estimator, read, held)
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
        "certified": _confirmed(standing, merged["determined"]) and not contradictions,
        "refuted": refuted,
        "contradictions": contradictions,
        "lines": lines,
        "closed_form": closed,
        "candidates": candidates,
        "stored": held,
        "unread": tuple(dict.fromkeys(read.unread)),
    }
    notes = (*dict.fromkeys(read.notes), *_judgement(answer))
    return Answer(**answer, notes=notes)


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


def _confirmed(lines: Iterable[Line], determined: np.ndarray) -> bool:
    """Whether fields confirm everything that is determined, feature by feature.

    A part's certificate is of the columns that it got, and of no others.
    """
    sure = [line for line in lines if line.finding.certified]
    still_open = np.array(determined, bool)
    for line in sure:
        if line.reach is not None:
            still_open[line.reach] = False
    return bool(sure) and not still_open.any()


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
    estimator: Any, read: reading.Read, stored: tuple[str, ...]
) -> Exception:
    """Why there is no answer."""
    if stored:
        name = type(estimator).__name__
        return ReconstructionImpossibleError(
            f"{name} stores training rows as they are ({', '.join(stored)}), but which"
            " of them isn't known can't be said: the known rows are not all the others,"
            " or not all are stored."
        )
    name = type(estimator).__name__
    row = registry.kind_of(name)
    whys = [str(error) for error in read.failures[:1]]
    if not whys and row.read is None and row.parts is None:
        whys = [f"There is no reader for {name}. `artefacts.register` adds one."]
    if whys:
        # What was tried beside a reader, such as the span of the known rows.
        others = [
            note
            for note in read.notes
            if "no reader for" not in note and not any(why in note for why in whys)
        ]
        return ReconstructionImpossibleError(" ".join([*whys, *others[:1]]))
    return ReconstructionImpossibleError(
        f"{name}: nothing of what it stores was read. That doesn't say that it tells"
        " nothing of the missing row."
    )
