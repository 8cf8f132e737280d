"""Every leaf of an artefact read, and carried back to the units of the whole.

A leaf's own reader goes first, then all arrays that the leaf holds. Of ensembles whose
members saw part of the rows, each case is read, and those that nothing refutes are
put together.
"""

import copy
import dataclasses
from typing import Any

import numpy as np
from scipy import sparse

from artefacts import contents, coverage, registry, stored, walk
from artefacts.answer import Line, merge
from artefacts.findings import (
    PRECISION,
    Finding,
    Leaf,
    LimitError,
    OtherRowsError,
    ReconstructionImpossibleError,
    narrow,
    refuted,
    spread,
)
from artefacts.inverse import Told
from artefacts.readers import rows, span, vocabularies
from artefacts.walk import Site
from shadow import checks


@dataclasses.dataclass(kw_only=True, eq=False)
class Read:
    """What reading came to.

    Attributes:
      lines: what every leaf's fields tell, in the units of the whole.
      notes: what could not be read and why, and what limits the findings, one sentence
        each.
      failures: the errors of readers that refused a leaf, in the order of the walk.
      unread: paths of parts that no reader told anything of, with their class.
      others: the error of a stored count that says that more or fewer rows are missing;
        None: no count says so.
      known: the known rows as the whole got them.
      gallery: candidates for the missing row, as the whole gets rows; None: none.
    """

    known: Any
    lines: list[Line] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    failures: list[ReconstructionImpossibleError] = dataclasses.field(
        default_factory=list
    )
    unread: list[str] = dataclasses.field(default_factory=list)
    others: OtherRowsError | None = None
    gallery: Any = None


def everything(whole: Site, numeric: np.ndarray | None, gallery: Any = None) -> Read:
    """Every leaf's lines; what could not be read; what was refused.

    Args:
      gallery: candidates for the missing row, as the whole gets rows; None: none.
    """
    read = Read(known=whole.leaf.known, gallery=gallery)
    groups: dict[str, dict[int, list[Site]]] = {}
    for site in walk.leaves(whole):
        if not isinstance(site, Site):
            read.notes.append(f"{site.path or 'it'}: {site.why}.")
            read.unread.append(site.path or type(whole.leaf.estimator).__name__)
        elif site.group:
            groups.setdefault(site.group, {}).setdefault(site.hypothesis, []).append(
                site
            )
        else:
            read_leaf(_with_candidate(site, read.lines, numeric), read)
    for group, hypotheses in groups.items():
        _best(group, hypotheses, read, numeric)
    return read


def _with_candidate(site: Site, lines: list[Line], numeric: np.ndarray | None) -> Site:
    """With the row that steps before the model have determined, if they have."""
    early = tuple(line for line in lines if line.before_model)
    if not early or site.before_model or not site.features:
        return site
    told = merge(early, numeric, site.features)
    row, lower, upper = told["value"], told["lower"], told["upper"]
    if told["contradictions"] or not np.all(told["determined"]):
        return site
    numbers = all(isinstance(each, (int, float, np.number)) for each in row)
    if numbers and np.any(upper - lower > 1e-8 * np.maximum(np.abs(row), 1e-300)):
        return site
    try:
        made = np.asarray(walk.dense(site.forward(row[None])), np.float64)[0]
    except (ValueError, TypeError, KeyError):
        # A step takes columns that are no numbers, or aren't told.
        return site
    return dataclasses.replace(
        site, leaf=dataclasses.replace(site.leaf, candidate=made)
    )


def _best(
    group: str,
    hypotheses: dict[int, list[Site]],
    read: Read,
    numeric: np.ndarray | None,
) -> None:
    """The lines of the one hypothesis that nothing refutes; of several their hull.

    A hypothesis is sure if every member that saw the row certifies one and the same
    row. A row that is a known one is none: under a wrong hypothesis a known row that a
    member saw is taken for the missing one.
    """
    kept: list[Read] = []
    sure: list[Read] = []
    repeated = False
    for sites in hypotheses.values():
        own = Read(known=read.known)
        for site in sites:
            before = len(own.lines)
            read_leaf(site, own)
            if any(line.finding.certified is False for line in own.lines[before:]):
                break
        else:
            if _any_known(own.lines, numeric):
                repeated = True
                continue
            kept.append(own)
            if _all_sure(own.lines, sites, numeric):
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


def _all_sure(lines: list[Line], sites: list[Site], numeric: np.ndarray | None) -> bool:
    """Whether every member certifies the whole row, and all of them the same one."""
    paths = {site.leaf.path for site in sites}
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
            finding=Finding(
                field=first.finding.field,
                tells=first.finding.tells,
                lower=lower,
                upper=upper,
                needed=first.finding.needed,
                notes=first.finding.notes,
            ),
            lower=lower,
            upper=upper,
            label=first.label if len(labels) == 1 else None,
            before_model=first.before_model,
        )
    ]


def read_leaf(site: Site, read: Read) -> None:
    """One leaf's lines, in the units of the whole."""
    site = dataclasses.replace(site, leaf=densified(site.leaf))
    leaf = site.leaf
    name = type(leaf.estimator).__name__
    part = f"{leaf.path} ({name})" if leaf.path else name
    findings: list[Finding] = []
    # What ColumnTransformer leaves as it is: a step that holds nothing.
    if name == "FunctionTransformer" and leaf.estimator.func is None:
        return
    if span.applies(leaf):
        try:
            whole, said = span.read(leaf, site.words, _gallery(site, read))
        except LimitError as error:
            whole, said = None, str(error)
            read.unread.append(part)
        read.notes.append(f"{leaf.path or name}: {said}")
        findings = [] if whole is None else [whole]
    # A row that is read leaves nothing to read, to make dense or to fit again.
    if all(each.lower is None and each.estimate is None for each in findings):
        findings = [*findings, *_stored(site, read)]
    if name not in ("LabelEncoder", "LabelBinarizer"):
        labels = leaf.labels
        labels = labels if labels is not None and labels.ndim == 1 else None
        findings = [*findings, *vocabularies.new_class(leaf.estimator, labels)]
    if site.elsewhere:
        findings = [each for each in findings if each.certified]
        read.notes.append(
            f"{leaf.path}: it may have been fitted to other rows (FrozenEstimator), so"
            " that only what it certifies is told."
        )
    if not site.repeats:
        findings = [_unrepeated(each) for each in findings]
    if not any(map(_says, findings)) and part not in read.unread:
        read.unread.append(part)
    # Words come back by name, whatever carries numbers back or doesn't.
    if site.through and not any(each.words for each in findings):
        read.notes.append(
            f"{leaf.path}: what it tells cannot be carried back through"
            f" {' and '.join(site.through)}."
        )
        if any(map(_says, findings)) and part not in read.unread:
            read.unread.append(part)
    elif any(map(_says, findings)) and not any(each.words for each in findings):
        hidden = coverage.hidden(site, read.known)
        if len(hidden):
            some = ", ".join(map(str, hidden[:8])) + (", ..." * (len(hidden) > 8))
            read.notes.append(
                f"{leaf.path}: what it tells of features {some} cannot be carried back"
                " through the steps before it."
            )
            read.unread.append(f"{part}, features {some}")
    read.lines += [_line(site, finding, read.known) for finding in findings]


def _says(finding: Finding) -> bool:
    """Whether it tells anything of the missing row, or of the known ones."""
    numbers = (finding.lower, finding.upper, finding.estimate)
    if any(each is not None and np.isfinite(each).any() for each in numbers):
        return True
    if finding.values is not None and any(each is not None for each in finding.values):
        return True
    more = (finding.words, finding.label, finding.named, finding.certified)
    return any(each is not None for each in more)


def densified(leaf: Leaf) -> Leaf:
    """With coefficients as an array, which `sparsify` makes a sparse matrix of."""
    if not sparse.issparse(getattr(leaf.estimator, "coef_", None)):
        return leaf
    # A machine with a linear kernel, fitted to sparse rows, computes them.
    if not hasattr(leaf.estimator, "densify"):
        return leaf
    return dataclasses.replace(leaf, estimator=copy.copy(leaf.estimator).densify())


def _gallery(site: Site, read: Read) -> Any:
    """The gallery as the leaf gets rows.

    Raises: FieldError: the steps before the leaf don't take it.
    """
    if read.gallery is None:
        return None
    try:
        made = span.numbers(site.forward(read.gallery))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise checks.FieldError(
            "gallery",
            "Expected {} to hold rows as the estimator gets them:"
            f" {checks.first_line(error)}",
        ) from error
    width = site.leaf.known.shape[1]
    if made.ndim != 2 or made.shape[1] != width:
        raise checks.FieldError(
            "gallery",
            f"Expected rows of {width} features in {{}}, got shape {made.shape}.",
        )
    if not np.isfinite(made.data if sparse.issparse(made) else made).all():
        raise checks.FieldError(
            "gallery", "Expected {} to have no missing values, nor other columns."
        )
    return made


def _stored(site: Site, read: Read) -> list[Finding]:
    """What a leaf's own reader finds, and rows in any of its arrays."""
    leaf = site.leaf
    name = type(leaf.estimator).__name__
    reader = registry.kind_of(name).read
    findings: list[Finding] = []
    refused = False
    if reader is not None:
        try:
            findings = reader(_as_numbers(leaf))
        except OtherRowsError as error:
            # It is raised at the end, unless another leaf confirms the row.
            loose = bool(site.group) or site.elsewhere
            read.others = read.others or (None if loose else error)
            findings = [refuted("counts", str(error))]
        except ReconstructionImpossibleError as error:
            refused = True
            read.failures.append(error)
            prefix = (
                ""
                if str(error).startswith(leaf.path or name)
                else f"{leaf.path or name}: "
            )
            read.notes.append(f"{prefix}{error}")
        except checks.FieldError:
            raise
        except Exception as error:
            # Whatever an estimator holds, what other parts tell isn't lost.
            refused = True
            read.notes.append(
                f"{leaf.path or name}: reading it stopped with {checks.named(error)}"
            )
        for finding in findings:
            read.notes += [f"{leaf.path or name}: {note}" for note in finding.notes]
    known = contents.numbers(leaf.known)
    # A reader of stored rows has said what they tell, where it found them.
    own = reader is rows.read and any(each.lower is not None for each in findings)
    if known is not None and not own:
        told = any(_tells_all(each, known) for each in findings)
        findings = findings if told else [*findings, *stored.read(leaf)]
    if reader is None and not findings:
        read.notes.append(f"{leaf.path or name}: there is no reader for {name}.")
    if refused or (reader is None and not findings):
        read.unread.append(f"{leaf.path} ({name})" if leaf.path else name)
    return findings


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


def _as_numbers(leaf: Leaf) -> Leaf:
    """Rows as float64 where they are numbers, else as objects."""
    if isinstance(leaf.known, list):
        return leaf
    rows = walk.dense(leaf.known)
    known = np.asarray(rows)
    if known.dtype.kind in "mM":  # dates, whose digits a float can't hold
        return dataclasses.replace(leaf, known=known)
    # Texts stay texts, those that look like numbers too: "01234" is no number.
    texts = known.dtype.kind == "U" or (
        known.dtype.kind == "O" and any(isinstance(each, str) for each in known.ravel())
    )
    try:
        known = known.astype(object if texts else np.float64)
    except (ValueError, TypeError):
        known = known.astype(object)
    return dataclasses.replace(leaf, known=known)


def _line(site: Site, finding: Finding, known: Any) -> Line:
    """A finding carried back; `known` are the known rows as the whole got them."""
    lower, upper = finding.lower, finding.upper
    if lower is not None and upper is not None:
        lower, upper = site.carried(lower, upper)
    guess = finding.estimate
    if guess is not None:
        # A point whose ends come back apart wasn't carried.
        low, high = site.carried(guess, guess)
        guess = None if low is None or high is None else _middle(low, high)
    told = None
    if finding.lower is not None and finding.upper is not None:
        told = finding.lower, finding.upper
    values = site.back(Told(told, finding.values)).values
    if values is not None and all(each is None for each in values):
        values = None
    sure = finding.determined
    if site.columns is None:
        sure = None
    elif sure is not None:
        own, sure = sure, np.zeros(site.features, bool)
        sure[site.columns] = own
    return Line(
        path=site.leaf.path,
        estimator=type(site.leaf.estimator).__name__,
        finding=dataclasses.replace(
            finding, values=values, determined=sure, estimate=guess
        ),
        lower=lower,
        upper=upper,
        label=None if finding.label is None else site.label_back(finding.label),
        before_model=site.before_model,
        reach=coverage.covered(site, known) if finding.certified else site.reach,
    )


def _middle(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Between two bounds; NaN where one is open."""
    finite = np.isfinite(lower) & np.isfinite(upper)
    return np.where(finite, (np.where(finite, lower, 0) + upper) / 2, np.nan)
