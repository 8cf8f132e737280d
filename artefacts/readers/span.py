"""A linear model's coefficients off the span of the known rows (`artefacts.span`).

It is read before anything else: it needs no optimum, and more features than known rows.
What it reads is put back and fitted again where labels are told, once.
"""

import dataclasses
from typing import Any

import numpy as np
from scipy import sparse

from artefacts import refits, span
from artefacts.findings import (
    EPS,
    PRECISION,
    Finding,
    Leaf,
    LimitError,
    ReconstructionImpossibleError,
    around,
)
from artefacts.span import pairs, probe
from artefacts.walk import dense

# Of the direction: weights that are known less closely aren't compared with a refit's;
# and errors of the direction by which two fits may differ.
_ROUNDED, _ERRORS = 1e-3, 3.0
_WHOLE = "the row itself"
_BUT = "the row, but for known rows that it may hold whole, if it is a single one"
_UNSETTLED = "no refit rules that out"
_OTHERS = (
    "but a refit with it gives other coefficients: it holds known rows whole, or the"
    " known rows are others"
)


def applies(leaf: Leaf) -> bool:
    """Whether there are coefficients, and more features than known rows."""
    weights = getattr(leaf.estimator, "coef_", None)
    if not isinstance(weights, np.ndarray) or weights.dtype.kind != "f":
        return False
    shape: tuple[int, ...] = getattr(leaf.known, "shape", ())
    fits = len(shape) == 2 and weights.shape[-1:] == shape[1:] and weights.ndim <= 2
    return fits and shape[0] + 1 < shape[1]


def read(
    leaf: Leaf, names: np.ndarray | None = None, gallery: Any = None
) -> tuple[Finding | None, str]:
    """The missing row, where it can be completed and is certain; else why it isn't.

    Where labels are told and a refit with the row gives the coefficients again, that
    certifies it and its label. Without, rows of whole numbers are certain by their
    equations; bags of words are but for known documents that they may hold whole.

    Args:
      leaf: one that `applies`; its known rows may be a sparse matrix.
      names: (features,), words that the features count; None: they are no words.
      gallery: (candidates, features), rows as the leaf gets them; None: none.
    Returns: the finding or None; what is to be said of it.
    Raises: LimitError: this tool can't look.
    """
    try:
        known: Any = numbers(leaf.known)
    except (ValueError, TypeError):
        return None, "the known rows are no numbers."
    try:
        direction = span.read(leaf.estimator.coef_, known)
        why = probe.of_estimator(leaf.estimator)
    except LimitError:
        raise
    except ReconstructionImpossibleError as error:
        return None, str(error)
    if why:
        return None, f"coef_: {why}."
    named = _named(direction, gallery)
    bare = None
    if named is not None:
        tells = "the direction of the missing row off the span of the known rows"
        bare = Finding(field="coef_", tells=tells, named=named)
    if direction.rank > 1:
        return bare, _several(direction, known)
    row = _of_gallery(gallery, named) or span.complete(direction, known)
    fits, label = (None, None) if row is None else _again(leaf, row.row, direction)
    if row is None or (not fits and not row.certified):
        return bare, _open(direction, known, row)
    finding = Finding(
        field="coef_",
        tells=f"its direction off the span of the known rows, and what completes it by"
        f" {row.by}",
        words=None if names is None else frozenset(names[row.row > 0].tolist()),
        label=label,
        named=named,
    )
    return _judged(finding, row, fits)


def _judged(
    finding: Finding, row: span.Completion, fits: bool | None
) -> tuple[Finding, str]:
    """The finding as certain as it is, and what is to be said of it.

    Args:
      fits: what a refit says; None: it says nothing.
    """
    said = f"coef_ off the span of the known rows: {row.why}"
    if not fits and (fits is False or row.by != "levels"):
        tells = f"{_BUT}: {finding.tells}"
        finding = dataclasses.replace(finding, tells=tells, estimate=row.row)
        return finding, f"{said}; {_OTHERS if fits is False else _UNSETTLED}."
    size = float(np.abs(row.row).max())
    settled = np.ones(len(row.row), bool) if fits else row.determined
    finding = dataclasses.replace(
        finding,
        tells=f"{_WHOLE}: {finding.tells}",
        certified=True,
        **around(row.row, row.error * size + 4 * EPS * np.abs(row.row)),
        # What is told less closely is an interval.
        determined=settled if row.error <= PRECISION else None,
    )
    again = "; a refit with it gives coef_ again" if fits else ""
    return finding, f"{said}{again}."


def numbers(known: Any) -> Any:
    """Rows of numbers, sparse where they came so."""
    if sparse.issparse(known):
        return sparse.csr_array(known, dtype=np.float64)
    return np.asarray(known, np.float64)


def _named(direction: span.Direction, gallery: Any) -> tuple[int, ...] | None:
    """Which candidates lie on what is missing; None: there are no candidates."""
    if gallery is None:
        return None
    names = tuple(span.rank(direction, gallery).names.tolist())
    # Of a mixture of rows no candidate lies on the direction.
    return names if names or direction.alone else None


def _of_gallery(gallery: Any, named: tuple[int, ...] | None) -> span.Completion | None:
    """The one candidate that lies on the direction; None: none does, or several."""
    if named is None or len(named) != 1:
        return None
    row = dense(gallery[list(named)])[0]
    return span.Completion(
        row=row,
        certified=True,
        determined=np.zeros(len(row), bool),
        by="gallery",
        why=f"of {gallery.shape[0]} candidates one lies on the direction, as would its"
        " multiples, and itself with known rows added",
    )


def _again(
    leaf: Leaf, row: np.ndarray, direction: span.Direction
) -> tuple[bool | None, Any]:
    """Whether a refit gives the coefficients again, and the label with which it does.

    Returns: True: it does, and no sum of rows would as well. False: it doesn't, though
      training is the same however often and in whichever order it is done. None: no
      labels are told, or rounding, chance or order make it another one.
    """
    classes = getattr(leaf.estimator, "classes_", None)
    if leaf.labels is None or classes is None or direction.error > _ROUNDED:
        return None, None
    raised = direction.outputs[:, 0]
    raised = raised * np.sign(direction.vectors[0] @ (row / direction.basis.scale))
    # The output that the row's gradients raised most is that of its own class.
    own = int(raised[0] > 0) if len(raised) == 1 else int(np.argmax(raised))
    elsewhere = dataclasses.replace(leaf, position=leaf.position or 0)
    try:
        first = refits.refit(leaf, row, classes[own])
        if not _near(leaf.estimator, first, direction):
            # A difference says something only where neither place nor chance matter.
            second = refits.refit(elsewhere, row, classes[own])
            return (False if _near(first, second, direction) else None), None
    except (ValueError, TypeError, ArithmeticError):
        return None, None
    # Of rows of equal weight a sum of two fits as well, but for the intercept.
    blind = not getattr(leaf.estimator, "fit_intercept", False)
    return (
        (None, None) if blind and direction.equal(row[None]) else (True, classes[own])
    )


def _near(one: Any, other: Any, direction: span.Direction) -> bool:
    """Whether two models' coefficients and intercepts are equal but for rounding."""
    scale = direction.basis.scale
    limit = refits.AGREES + _ERRORS * direction.error
    moved = np.atleast_2d(one.coef_) - np.atleast_2d(other.coef_)
    off = np.linalg.norm(moved / scale)
    here, there = (np.ravel(getattr(m, "intercept_", 0.0)) for m in (one, other))
    size = np.linalg.norm(direction.singular[:1])
    apart = np.abs(here - there).max(initial=0.0)
    rounded = 1e-5 * max(1.0, np.abs(here).max(initial=0.0))
    return bool(off <= limit * size and apart <= max(rounded, limit))


def _several(direction: span.Direction, known: Any) -> str:
    """What is said where more rows are missing, or known ones are others."""
    named = direction.untrained
    doubt = (
        f" Known row {named[0]} has no share of its own in the coefficients: is it"
        " another one?"
        if len(named) == 1
        else ""
    )
    found = span.complete_all(direction, known)
    sure = sum(each.certified for each in found)
    read = (
        f" {len(found)} of them are found (`artefacts.span.complete_all`), {sure} of"
        " these certain."
        if found
        else ""
    )
    return (
        f"coef_: {direction.rank} rows that aren't known were trained on, or known"
        f" rows were altered.{doubt}{read}"
    )


def _open(direction: span.Direction, known: Any, row: span.Completion | None) -> str:
    """What is said where no row is certain."""
    if not direction.alone and pairs.complete(direction, known):
        return (
            "coef_: two rows that aren't known were trained on, or one known row is"
            " another: both can be read (`artefacts.span.complete_all`)."
        )
    said = (
        "coef_ holds the direction of the missing row off the span of the known ones,"
        f" to {direction.error:.0e}, by which a gallery can be ranked"
        " (`artefacts.span.rank`)"
    )
    if row is not None:
        said += f"; completed by {row.by}: {row.why}"
    return f"{said}."
