"""A linear model's coefficients off the span of the known rows (`artefacts.span`).

It is read before anything else: it needs neither an optimum nor a refit, takes less
than a second, and answers only with a certificate. It needs more features than known
rows.
"""

from typing import Any

import numpy as np

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
from artefacts.walk import rows_of


def applies(leaf: Leaf) -> bool:
    """Whether there are coefficients, and more features than known rows."""
    weights = getattr(leaf.estimator, "coef_", None)
    if not isinstance(weights, np.ndarray) or weights.dtype.kind != "f":
        return False
    shape: tuple[int, ...] = getattr(leaf.known, "shape", ())
    fits = len(shape) == 2 and weights.shape[-1:] == shape[1:] and weights.ndim <= 2
    return fits and shape[0] + 1 < shape[1]


def read(leaf: Leaf, names: np.ndarray | None = None) -> list[Finding]:
    """The missing row, where it can be completed and is certain; else why it isn't.

    Args:
      leaf: one that `applies`; its known rows may be a sparse matrix.
      names: (features,), words that the features count; None: they are no words.
    """
    known: Any = rows_of(leaf.known)
    if known is None:
        return []
    why, row = _row(leaf.estimator, known)
    if row is None:
        return [_nothing(why)] if why else []
    size = float(np.abs(row.row).max())
    words = None if names is None else frozenset(names[row.row > 0].tolist())
    return [
        Finding(
            field="coef_",
            tells="the row itself: its direction off the span of the known rows, and"
            f" what completes it by {row.by}",
            certified=True,
            # What is told less closely is an interval.
            determined=row.determined if row.error <= PRECISION else None,
            words=words,
            notes=(f"coef_ off the span of the known rows: {row.why}.",),
            **around(row.row, row.error * size + 4 * EPS * np.abs(row.row)),
        )
    ]


def _row(estimator: Any, known: Any) -> tuple[str, span.Completion | None]:
    """A certified row; or why there is none, "" where there was nothing to read."""
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


def _nothing(why: str) -> Finding:
    return Finding(
        field="coef_",
        tells="off the span of the known rows: no whole row",
        notes=(why,),
    )
