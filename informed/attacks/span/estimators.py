"""The row that a linear model's coefficients hold off the span of the known rows.

It needs no optimum, and more features than known rows. Where labels are known, the row
is put back and the model fitted again, once: coefficients that come out again certify
the row and its label.
"""

from typing import Any

import numpy as np

from informed.attacks.closed_form import linear
from informed.attacks.closed_form.refining import refit
from informed.attacks.closed_form.row import EPS, RowReconstruction
from informed.attacks.impossible import LimitError, ReconstructionImpossibleError
from informed.attacks.span import probe, single
from informed.attacks.span.completion import Completion
from informed.attacks.span.direction import Direction
from informed.attacks.span.direction import read as direction_of

# Of the direction: weights that are known less closely are not compared with a refit's.
_ROUNDED = 1e-3
# Of the coefficients, and in errors of the direction: how far two fits may be apart
# that differ in rounding alone.
_AGREES, _ERRORS = 1e-5, 3.0
_OTHERS = (
    "but a refit with it gives other coefficients: it holds known rows whole, or the"
    " known rows are others"
)


def applies(model: Any, known: Any) -> bool:
    """Whether there are coefficients, and more features than known rows."""
    weights = getattr(model, "coef_", None)
    if not isinstance(weights, np.ndarray) or weights.dtype.kind != "f":
        return False
    return weights.ndim <= 2 and known.shape[0] + 1 < known.shape[1]


def read(
    model: Any, known: Any, labels: np.ndarray | None = None
) -> tuple[RowReconstruction | None, str]:
    """Read the missing row, where it can be completed.

    A refit decides whether the row is certified. The equations alone take a premise for
    granted (`Completion.premise`), and hold as well for a row that holds known ones.

    Args:
      model: a fitted linear model for which `applies` holds.
      known: (known, features) float64, an array or a sparse matrix.
      labels: (known,), as its `fit` received them; None: they are not known.
    Returns: the row, None where nothing completes it; what there is to say of it.
    """
    try:
        direction = direction_of(model.coef_, known)
        why = probe.of_estimator(model)
    except LimitError as error:
        return None, str(error)
    except ReconstructionImpossibleError as error:
        return None, str(error)
    if why:
        return None, f"The span tells nothing: {why}."
    if direction.rank > 1:
        return None, _several(direction)
    row = single.complete(direction, known)
    repeats, label = (None, None)
    if row is not None and labels is not None:
        repeats, label = _again(model, known, labels, row.row, direction)
    if row is None or (not repeats and not row.certified):
        return None, _open(direction, row)
    said = f"off the span of the known rows: {row.why}"
    if repeats:
        said += "; a refit with it gives the coefficients again"
    elif repeats is None:
        said += (
            f"; no refit decides, so that holds if {row.premise}, and if no known row"
        )
        said += " is part of it"
    else:
        said += f"; {_OTHERS}"
    bound = row.error * np.abs(row.row).max() + 4 * EPS * np.abs(row.row)
    return (
        RowReconstruction(
            value=row.row,
            y=label,
            certified=bool(repeats),
            error=np.where(row.determined | bool(repeats), bound, np.inf),
            by="span",
            why=said,
        ),
        said,
    )


def _again(
    model: Any, known: Any, labels: np.ndarray, row: np.ndarray, direction: Direction
) -> tuple[bool | None, Any]:
    """Whether a refit gives the coefficients again, and the label with which it does.

    Returns: True: it does, and no sum of rows would as well. False: it does not, though
      neither order nor chance matter to training. None: rounding, chance or order may
      make it another one.
    """
    classes = getattr(model, "classes_", None)
    if direction.error > _ROUNDED:
        return None, None
    if classes is None:
        label = linear.label_of(model, known, labels, row)
        if label is None:
            return None, None
    else:
        raised = direction.outputs[:, 0]
        raised = raised * np.sign(direction.vectors[0] @ (row / direction.basis.scale))
        # The output that the row's gradients raised most is that of its own class.
        of_row = int(raised[0] > 0) if len(raised) == 1 else int(np.argmax(raised))
        label = classes[of_row]
    try:
        last = refit(model, known, labels, row, label)
        if not _near(model, last, direction):
            # A difference says something only where neither place nor chance matter.
            first = refit(model, known, labels, row, label, at=0)
            return (False if _near(last, first, direction) else None), None
    except (ValueError, TypeError, ArithmeticError):
        return None, None
    # Of rows of equal weight a sum of two fits as well, but for the intercept.
    blind = not getattr(model, "fit_intercept", False)
    return (None, None) if blind and direction.equal(row[None]) else (True, label)


def _near(one: Any, other: Any, direction: Direction) -> bool:
    """Whether two models' coefficients and intercepts are equal but for rounding."""
    limit = _AGREES + _ERRORS * direction.error
    moved = np.atleast_2d(one.coef_) - np.atleast_2d(other.coef_)
    off = np.linalg.norm(moved / direction.basis.scale)
    here, there = (np.ravel(getattr(m, "intercept_", 0.0)) for m in (one, other))
    size = np.linalg.norm(direction.singular[:1])
    apart = np.abs(here - there).max(initial=0.0)
    rounded = 1e-5 * max(1.0, np.abs(here).max(initial=0.0))
    return bool(off <= limit * size and apart <= max(rounded, limit))


def _several(direction: Direction) -> str:
    """What is said where more rows are missing, or known ones are others."""
    named = direction.untrained
    doubt = (
        f" Known row {named[0]} has no share of its own in the coefficients: is it"
        " another one?"
        if len(named) == 1
        else ""
    )
    return (
        f"{direction.rank} rows that are not known were trained on, or known rows were"
        f" altered.{doubt} informed.attacks.span.complete_all reads several."
    )


def _open(direction: Direction, row: Completion | None) -> str:
    """What is said where no row is certain."""
    said = (
        "The coefficients hold the direction of the missing row off the span of the"
        f" known ones, to {direction.error:.0e}, by which informed.attacks.span.rank"
        " ranks a gallery"
    )
    if row is not None:
        said += f"; completed by {row.by}: {row.why}"
    return f"{said}."
