"""A linear model's coefficients off the span of the known rows (`artefacts.span`).

It is read before anything else: it needs neither an optimum nor a refit, takes less
than a second, and answers only with a certificate. It needs more features than known
rows.
"""

from typing import Any

import numpy as np
from scipy import sparse

from artefacts import span
from artefacts.findings import (
    EPS,
    PRECISION,
    Finding,
    Leaf,
    ReconstructionImpossibleError,
    around,
)
from artefacts.span import probe


def applies(leaf: Leaf) -> bool:
    """Whether there are coefficients, and more features than known rows."""
    weights = getattr(leaf.estimator, "coef_", None)
    if not isinstance(weights, np.ndarray) or weights.dtype.kind != "f":
        return False
    shape: tuple[int, ...] = getattr(leaf.known, "shape", ())
    fits = len(shape) == 2 and weights.shape[-1:] == shape[1:] and weights.ndim <= 2
    return fits and shape[0] + 1 < shape[1]


def read(leaf: Leaf, names: np.ndarray | None = None) -> tuple[Finding | None, str]:
    """The missing row, where it can be completed and is certain; else why it isn't.

    Args:
      leaf: one that `applies`; its known rows may be a sparse matrix.
      names: (features,), words that the features count; None: they are no words.
    Returns: the finding, with a certificate, or None; what is to be said of it.
    """
    try:
        known: Any = _numbers(leaf.known)
    except (ValueError, TypeError):
        return None, "the known rows are no numbers."
    why, row = _row(leaf.estimator, known)
    if row is None:
        return None, why
    size = float(np.abs(row.row).max())
    words = None if names is None else frozenset(names[row.row > 0].tolist())
    finding = Finding(
        field="coef_",
        tells="the row itself: its direction off the span of the known rows, and what"
        f" completes it by {row.by}",
        certified=True,
        # What is told less closely is an interval.
        determined=row.determined if row.error <= PRECISION else None,
        words=words,
        **around(row.row, row.error * size + 4 * EPS * np.abs(row.row)),
    )
    return finding, f"coef_ off the span of the known rows: {row.why}."


def _numbers(known: Any) -> Any:
    """Rows of numbers, sparse where they came so."""
    if sparse.issparse(known):
        return sparse.csr_array(known, dtype=np.float64)
    return np.asarray(known, np.float64)


def _row(estimator: Any, known: Any) -> tuple[str, span.Completion | None]:
    """A certified row, or why there is none."""
    try:
        direction = span.read(estimator.coef_, known)
    except ReconstructionImpossibleError as error:
        return str(error), None
    why = probe.of_estimator(estimator)
    if why:
        return f"coef_: {why}.", None
    if direction.rank > 1:
        named = direction.untrained
        doubt = (
            f" Known row {named[0]} has no share of its own in the coefficients: is it"
            " another one?"
            if len(named) == 1
            else ""
        )
        return (
            f"coef_: {direction.rank} rows that aren't known were trained on, or known"
            f" rows were altered.{doubt}",
            None,
        )
    found = span.complete(direction, known)
    if found is None or not found.certified:
        return (
            "coef_ holds the direction of the missing row off the span of the known"
            f" ones, to {direction.error:.0e}, by which a gallery can be ranked"
            " (`artefacts.span.rank`)"
            + (f"; completed by {found.by}: {found.why}." if found else "."),
            None,
        )
    return "", found
