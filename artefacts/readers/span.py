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
    ReconstructionImpossibleError,
    around,
)
from artefacts.span import probe
from artefacts.walk import dense

# Of the direction: weights that are known less closely aren't compared with a refit's;
# and errors of the direction by which two fits may differ.
_ROUNDED, _ERRORS = 1e-3, 3.0
_WHOLE = "the row itself"
_BUT = "the row, but for known rows that it may hold whole"
_UNSETTLED = (
    "no refit with it gave coef_ again, or no labels are told, so that nothing rules"
    " that out"
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
    """
    try:
        known: Any = _numbers(leaf.known)
    except (ValueError, TypeError):
        return None, "the known rows are no numbers."
    try:
        direction = span.read(leaf.estimator.coef_, known)
    except ReconstructionImpossibleError as error:
        return None, str(error)
    why = probe.of_estimator(leaf.estimator)
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
    label = None if row is None else _refitted(leaf, row.row, direction)
    if row is None or (label is None and not row.certified):
        return bare, _open(direction, known, row)
    whole = label is not None or row.by != "sparsity"
    finding = Finding(
        field="coef_",
        tells=f"{_WHOLE if whole else _BUT}: its direction off the span of the known"
        f" rows, and what completes it by {row.by}",
        words=None if names is None else frozenset(names[row.row > 0].tolist()),
        label=label,
        named=named,
    )
    said = f"coef_ off the span of the known rows: {row.why}"
    if not whole:
        finding = dataclasses.replace(finding, estimate=row.row)
        return finding, f"{said}; {_UNSETTLED}."
    size = float(np.abs(row.row).max())
    settled = row.determined if label is None else np.ones(len(row.row), bool)
    finding = dataclasses.replace(
        finding,
        certified=True,
        **around(row.row, row.error * size + 4 * EPS * np.abs(row.row)),
        # What is told less closely is an interval.
        determined=settled if row.error <= PRECISION else None,
    )
    again = "" if label is None else "; a refit with it gives coef_ again"
    return finding, f"{said}{again}."


def _numbers(known: Any) -> Any:
    """Rows of numbers, sparse where they came so."""
    if sparse.issparse(known):
        return sparse.csr_array(known, dtype=np.float64)
    return np.asarray(known, np.float64)


def _named(direction: span.Direction, gallery: Any) -> tuple[int, ...] | None:
    """Which candidates lie on what is missing; None: there are no candidates."""
    if gallery is None:
        return None
    return tuple(span.rank(direction, _numbers(gallery)).names.tolist())


def _of_gallery(gallery: Any, named: tuple[int, ...] | None) -> span.Completion | None:
    """The one candidate that lies on the direction; None: none does, or several."""
    if named is None or len(named) != 1:
        return None
    row = dense(_numbers(gallery)[list(named)])[0]
    return span.Completion(
        row=row,
        certified=True,
        determined=np.ones(len(row), bool),
        by="gallery",
        why=f"of {gallery.shape[0]} candidates one lies on the direction",
    )


def _refitted(leaf: Leaf, row: np.ndarray, direction: span.Direction) -> Any:
    """The label with which a refit gives the coefficients again; None: there is none.

    The output that the row's gradients raised most is that of its own class.
    """
    classes = getattr(leaf.estimator, "classes_", None)
    if leaf.labels is None or classes is None or direction.error > _ROUNDED:
        return None
    scale = direction.basis.scale
    raised = direction.outputs[:, 0] * np.sign(direction.vectors[0] @ (row / scale))
    own = int(raised[0] > 0) if len(raised) == 1 else int(np.argmax(raised))
    try:
        again = refits.refit(leaf, row, classes[own])
    except (ValueError, TypeError, ArithmeticError):
        return None
    moved = np.atleast_2d(again.coef_) - np.atleast_2d(leaf.estimator.coef_)
    off = np.linalg.norm(moved / scale) / direction.singular[0]
    limit = refits.AGREES + _ERRORS * direction.error
    return classes[own] if off <= limit else None


def _several(direction: span.Direction, known: Any) -> str:
    """What is said where more rows are missing, or known ones are others."""
    named = direction.untrained
    doubt = (
        f" Known row {named[0]} has no share of its own in the coefficients: is it"
        " another one?"
        if len(named) == 1
        else ""
    )
    found = [each for each in span.complete_all(direction, known) if each.certified]
    read = (
        f" {len(found)} of them can be read (`artefacts.span.complete_all`)."
        if found
        else ""
    )
    return (
        f"coef_: {direction.rank} rows that aren't known were trained on, or known"
        f" rows were altered.{doubt}{read}"
    )


def _open(direction: span.Direction, known: Any, row: span.Completion | None) -> str:
    """What is said where no row is certain."""
    pair = span.complete_all(direction, known) if not direction.alone else []
    if len(pair) > 1:
        return (
            "coef_: two rows that aren't known were trained on, or one known row is"
            " another: both can be read (`artefacts.span.complete_all`)."
        )
    return (
        "coef_ holds the direction of the missing row off the span of the known ones,"
        f" to {direction.error:.0e}, by which a gallery can be ranked"
        " (`artefacts.span.rank`)"
        + (f"; completed by {row.by}: {row.why}." if row else ".")
    )
