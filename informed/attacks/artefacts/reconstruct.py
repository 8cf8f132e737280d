"""What a fitted scikit-learn estimator tells of the one row that is not known.

THREAT: knows all training rows but one, with their labels, and holds the fitted
estimator, with all that it stores. Needs no prior and no shadow models.

Every leaf of the estimator is read in the units of its own input; what it tells is
carried back through the fitted steps before it, and all of it is merged. A value is
called determined only if a field fixes it to rounding. Whether the known rows are the
right ones, the artefact tells where it stores more than is unknown: `certified`.
"""

import contextlib
import dataclasses
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils import validation

from informed.attacks.artefacts import (
    contents,
    registry,
    rows,
    stored,
    vocabularies,
    walk,
)
from informed.attacks.artefacts.answer import Answer, Line, merge
from informed.attacks.artefacts.findings import (
    PRECISION,
    Finding,
    Leaf,
    OtherRowsError,
    narrow,
    spread,
)
from informed.attacks.artefacts.walk import Place
from informed.attacks.glm import estimators
from informed.attacks.glm.closed_form import (
    GlmReconstruction,
    ReconstructionImpossibleError,
)
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
) -> Answer:
    """Reconstruct the one training row that is not among the known ones.

    Args:
      estimator: fitted; a leaf, a pipeline, a meta-estimator.
      X_known: (known, features), array or data frame, or a list of texts: all training
        rows but one, as they were given to `fit`.
      y_known: (known,) or (known, outputs), their labels; None where `fit` had none.
      target_label: the missing row's label, where told.
      position: where the missing row stood among all, 0 .. len(X_known), where told.
      sample_weight: (known,), as given to `fit`.
      target_weight: the missing row's.
      attainable: for trees: "known" where every column takes only values that known
        rows have, as binary columns do; or an array of values, or None, a column.
      retrain: for networks: run training again until the row is found, which takes
        minutes.
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
    labels = _labels(y_known, known)
    count = len(known)
    if position is not None:
        checks.within("position", position, 0, count + 1)
    if sample_weight is not None and np.shape(sample_weight) != (count,):
        raise checks.FieldError(
            "sample_weight",
            f"Expected {{}} of shape ({count},), one a known row, got"
            f" {np.shape(sample_weight)}.",
        )
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
    features = len(names)
    closed, candidates, reason = _closed_form(leaf, target_label)
    read = _read_all(walk.root(leaf, features), numeric)
    lines = tuple(read.lines)
    refuted = tuple(line.field for line in lines if line.finding.certified is False)
    confirmed = any(line.finding.certified for line in lines)
    if read.others is not None and not confirmed:
        raise read.others
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
        "certified": confirmed and not contradictions,
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


def _labels(labels: Any, known: Any) -> np.ndarray | None:
    """The labels as an array.

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
    return labels


def _closed_form(
    leaf: Leaf, target_label: Any
) -> tuple[
    GlmReconstruction | None,
    tuple[GlmReconstruction, ...],
    ReconstructionImpossibleError | None,
]:
    """Theorems 1 and 8, where the whole is a generalised linear model.

    Returns: the answer, or two candidates, or why there is none.
    """
    name = type(leaf.estimator).__name__
    plain = leaf.weights is None and leaf.labels is not None
    plain = plain and np.ndim(np.asarray(leaf.labels)) == 1
    if name not in estimators.SUPPORTED or not plain:
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


@dataclasses.dataclass(kw_only=True, eq=False)
class _Read:
    """What reading came to.

    Attributes:
      lines: of every leaf.
      notes: what could not be read, and what else there is to say.
      failures: what was refused.
      unread: parts that no reader told anything of, with their class.
      others: a stored count that says that more or fewer rows are missing.
    """

    lines: list[Line] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    failures: list[ReconstructionImpossibleError] = dataclasses.field(
        default_factory=list
    )
    unread: list[str] = dataclasses.field(default_factory=list)
    others: OtherRowsError | None = None


def _read_all(whole: Place, numeric: np.ndarray | None) -> _Read:
    """Every leaf's lines; what could not be read; what was refused."""
    read = _Read()
    groups: dict[str, dict[int, list[Place]]] = {}
    for place in walk.leaves(whole):
        if not isinstance(place, Place):
            read.notes.append(f"{place.path or 'it'}: {place.why}.")
            read.unread.append(place.path or type(whole.leaf.estimator).__name__)
        elif place.group:
            groups.setdefault(place.group, {}).setdefault(place.hypothesis, []).append(
                place
            )
        else:
            _read(_with_candidate(place, read.lines, numeric), read)
    for group, hypotheses in groups.items():
        _best(group, hypotheses, read, numeric)
    return read


def _with_candidate(
    place: Place, lines: list[Line], numeric: np.ndarray | None
) -> Place:
    """With the row that steps before the model have determined, if they have."""
    early = tuple(line for line in lines if line.before_model)
    if not early or place.before_model or not place.features:
        return place
    told = merge(early, numeric, place.features)
    row, lower, upper = told["value"], told["lower"], told["upper"]
    if told["contradictions"] or not np.all(told["determined"]):
        return place
    numbers = all(isinstance(each, (int, float, np.number)) for each in row)
    if numbers and np.any(upper - lower > 1e-8 * np.maximum(np.abs(row), 1e-300)):
        return place
    try:
        made = np.asarray(place.forward(row[None]), np.float64)[0]
    except (ValueError, TypeError, KeyError):  # what a step takes isn't all told
        return place
    return dataclasses.replace(
        place, leaf=dataclasses.replace(place.leaf, candidate=made)
    )


def _best(
    group: str,
    hypotheses: dict[int, list[Place]],
    read: _Read,
    numeric: np.ndarray | None,
) -> None:
    """The lines of the one hypothesis that nothing refutes; of several their hull.

    A hypothesis is sure if every member that saw the row certifies one and the same
    row. A row that is a known one is none: under a wrong hypothesis a known row that a
    member saw is taken for the missing one.
    """
    kept: list[_Read] = []
    sure: list[_Read] = []
    repeated = False
    for places in hypotheses.values():
        own = _Read()
        for place in places:
            before = len(own.lines)
            _read(place, own)
            if any(line.finding.certified is False for line in own.lines[before:]):
                break
        else:
            if _any_known(own.lines, numeric):
                repeated = True
                continue
            kept.append(own)
            if _all_sure(own.lines, places, numeric):
                sure.append(own)
            read.failures += own.failures
    # Moments that fit to the last digit fit one row; that a path does says little.
    one = sure if len(sure) == 1 else kept
    if len(one) == 1 and (one is sure or not repeated):
        read.notes += one[0].notes
        read.unread += one[0].unread
        certain = one[0] in sure
        read.lines += one[0].lines if certain else map(_unsure, one[0].lines)
        return
    told = "no" if not kept else f"{len(kept)}"
    read.notes.append(
        f"{group}: {told} cases of the missing row's place and label fit what its parts"
        " store; tell position and target_label to narrow them."
    )
    read.unread.append(group)
    if len(kept) > 1 and not repeated:
        read.lines += _common([(own.lines, own.notes) for own in kept])


def _unsure(line: Line) -> Line:
    """A line without its certificate."""
    finding = dataclasses.replace(line.finding, certified=None)
    return dataclasses.replace(line, finding=finding)


def _all_sure(
    lines: list[Line], places: list[Place], numeric: np.ndarray | None
) -> bool:
    """Whether every member certifies the whole row, and all of them the same one."""
    paths = {place.leaf.path for place in places}
    told = [line for line in lines if line.finding.certified and _point(line, numeric)]
    if {line.path for line in told} != paths:
        return False
    features = len(np.asarray(told[0].lower))
    return not merge(tuple(told), numeric, features)["contradictions"]


def _point(line: Line, numeric: np.ndarray | None) -> bool:
    """Whether a line leaves no feature open."""
    if line.lower is None or line.upper is None:
        return False
    return bool(np.all(narrow(line.lower, line.upper, numeric)))


def _any_known(lines: list[Line], numeric: np.ndarray | None) -> bool:
    """Whether a line's row is one of the known rows."""
    if numeric is None:
        return False
    room = PRECISION * spread(numeric)
    for line in lines:
        if line.finding.certified is not False and _point(line, numeric):
            low, high = np.asarray(line.lower), np.asarray(line.upper)
            inside = (numeric >= low - room) & (numeric <= high + room)
            if inside.all(axis=1).any():
                return True
    return False


def _common(kept: list[tuple[list[Line], list[str]]]) -> list[Line]:
    """What all remaining cases agree on: their hull, line by line is too much."""
    hulls = []
    for lines, _ in kept:
        told = [line for line in lines if line.lower is not None]
        if not told:
            return []
        lower = np.max([np.asarray(line.lower) for line in told], axis=0)
        upper = np.min([np.asarray(line.upper) for line in told], axis=0)
        hulls.append((lower, upper, told[0]))
    first = hulls[0][2]
    lower = np.min([hull[0] for hull in hulls], axis=0)
    upper = np.max([hull[1] for hull in hulls], axis=0)
    labels = {str(hull[2].label) for hull in hulls}
    return [
        Line(
            path=first.path,
            estimator=first.estimator,
            # Of the cases only the hull is certain.
            finding=dataclasses.replace(
                first.finding,
                lower=lower,
                upper=upper,
                estimate=None,
                values=None,
                determined=None,
                words=None,
                label=None,
                certified=None,
            ),
            lower=lower,
            upper=upper,
            label=first.label if len(labels) == 1 else None,
            before_model=first.before_model,
        )
    ]


def _read(place: Place, read: _Read) -> None:
    """One leaf's lines, in the units of the whole."""
    leaf = place.leaf
    name = type(leaf.estimator).__name__
    reader = registry.reader_of(name)
    findings: list[Finding] = []
    refused = False
    if reader is not None:
        try:
            findings = reader(_as_numbers(leaf))
        except OtherRowsError as error:
            # It is raised at the end, unless another leaf confirms the row.
            read.others = read.others or (None if place.group else error)
            findings = [Finding(field="counts", tells=str(error), certified=False)]
        except ReconstructionImpossibleError as error:
            refused = True
            read.failures.append(error)
            prefix = (
                ""
                if str(error).startswith(leaf.path or name)
                else f"{leaf.path or name}: "
            )
            read.notes.append(f"{prefix}{error}")
        for finding in findings:
            read.notes += [f"{leaf.path or name}: {note}" for note in finding.notes]
    known = contents.numbers(leaf.known)
    # A reader of stored rows has said what they tell, also where it is nothing.
    if known is not None and reader is not rows.read:
        told = any(_tells_all(each, known) for each in findings)
        findings = findings if told else [*findings, *stored.read(leaf)]
    if reader is None and not findings:
        read.notes.append(f"{leaf.path or name}: there is no reader for {name}.")
    if refused or (reader is None and not findings):
        read.unread.append(f"{leaf.path} ({name})" if leaf.path else name)
    if name not in ("LabelEncoder", "LabelBinarizer"):
        findings = [
            *findings,
            *vocabularies.new_class(leaf.estimator, _flat(leaf.labels)),
        ]
    if not place.repeats:
        findings = [_unrepeated(each) for each in findings]
    if place.through:
        read.notes.append(
            f"{leaf.path}: what it tells cannot be carried back through"
            f" {' and '.join(place.through)}."
        )
    read.lines += [_line(place, finding) for finding in findings]


def _tells_all(finding: Finding, known: np.ndarray) -> bool:
    """Whether a finding refutes the known rows, or leaves no feature open."""
    if finding.certified is False:
        return True
    if finding.lower is None or finding.upper is None:
        return False
    return bool(np.all(narrow(finding.lower, finding.upper, known)))


def _unrepeated(finding: Finding) -> Finding:
    """A finding from rows that the leaf may have got otherwise.

    Only a certificate shows that it did get them so.
    """
    if finding.certified or finding.field == "classes_":
        return finding
    return Finding(
        field=finding.field,
        tells="nothing for certain: a step before it gives other numbers while it is"
        " fitted than afterwards, so what this part was fitted to isn't known",
        needed=finding.needed,
    )


def _flat(labels: np.ndarray | None) -> np.ndarray | None:
    return labels if labels is not None and labels.ndim == 1 else None


def _as_numbers(leaf: Leaf) -> Leaf:
    """Rows as float64 where they are numbers, else as objects."""
    if isinstance(leaf.known, list):
        return leaf
    rows = walk.dense(leaf.known)
    try:
        known = np.asarray(rows, np.float64)
    except (ValueError, TypeError):
        known = np.asarray(rows, object)
    return dataclasses.replace(leaf, known=known)


def _line(place: Place, finding: Finding) -> Line:
    """A finding carried back."""
    lower, upper = finding.lower, finding.upper
    if lower is not None and upper is not None:
        lower, upper = _back(place, lower, upper)
    guess = finding.estimate
    if guess is not None:
        # A point whose ends come back apart wasn't carried.
        low, high = _back(place, guess, guess)
        guess = None if low is None or high is None else _middle(low, high)
    columns, values = place.columns, finding.values
    sure = finding.determined
    if columns is None:
        values = sure = None
    elif values is not None or sure is not None:
        total = place.features
        values = None if values is None else _spread_out(values, columns, total, None)
        sure = None if sure is None else _spread_out(sure, columns, total, False)
    return Line(
        path=place.leaf.path,
        estimator=type(place.leaf.estimator).__name__,
        finding=dataclasses.replace(
            finding, values=values, determined=sure, estimate=guess
        ),
        lower=lower,
        upper=upper,
        label=None if finding.label is None else place.label_back(finding.label),
        before_model=place.before_model,
    )


def _middle(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Between two bounds; NaN where one is open."""
    finite = np.isfinite(lower) & np.isfinite(upper)
    return np.where(finite, (np.where(finite, lower, 0) + upper) / 2, np.nan)


def _back(
    place: Place, lower: np.ndarray, upper: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Bounds in the units of the whole; None: nothing comes back."""
    found = None if place.through else place.back((lower, upper))
    return (None, None) if found is None else found


def _spread_out(
    values: np.ndarray, columns: np.ndarray, total: int, empty: Any
) -> np.ndarray:
    """A leaf's features at the whole's columns."""
    out = np.full(total, empty, dtype=values.dtype)
    out[columns] = values
    return out


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
    early = {
        line.field.rpartition(".")[0] or line.estimator
        for line in answer["lines"]
        if line.before_model and line.lower is not None
    }
    if early and answer["determined"].all() and len(answer["determined"]):
        alone = [
            line
            for line in answer["lines"]
            if line.before_model and line.lower is not None
        ]
        for line in alone:
            width = np.asarray(line.upper) - np.asarray(line.lower)
            if np.all(np.isfinite(width)) and all(
                source == line.field or not source for source in answer["sources"]
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
    if registry.reader_of(name) is None and name not in walk.known_parts():
        near = checks.nearest(name, registry.names())
        return ReconstructionImpossibleError(
            f"There is no reader for {name}.{near}"
            " `informed.attacks.artefacts.register` adds one."
        )
    return ReconstructionImpossibleError(
        f"{name}: nothing that it stores tells anything of the missing row."
    )
