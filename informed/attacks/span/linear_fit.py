"""The span attack on fitted linear models: reconstruct the unknown row, with its label.

The model needn't be at an optimum, but needs more features than known rows. If labels
are known, the model is refitted with the reconstructed row. If the coefficients are
reproduced, they certify the row and its label, unless the row may be a sum of two. If
they aren't, the model is refitted with the row in another place: two equal refits speak
against the row, while different ones leave it open. `closed_form.pipelines` calls it.

To test whether training keeps its weights in the span of its rows, we fit the model to
a few random rows with its own settings.
"""

import warnings
from typing import Any

import numpy as np
import scipy.spatial.distance
import sklearn.base

from informed.attacks.closed_form import linear
from informed.attacks.closed_form.linear import RowReconstruction
from informed.attacks.closed_form.objectives import EPS
from informed.attacks.closed_form.refining import refit
from informed.attacks.impossible import LimitError, ReconstructionImpossibleError
from informed.attacks.span import lattice
from informed.attacks.span.basis import Basis
from informed.attacks.span.direction import Direction
from informed.attacks.span.direction import read as read_direction
from shadow import checks

# Weights with a larger error of the direction are not compared with a refit's.
_ROUNDED = 1e-3
# Largest distance of two fits that differ only in rounding: as a share of the
# coefficients, and in errors of the direction.
_AGREES, _ERRORS = 1e-5, 3.0
# Known rows of which the nearest two are looked for.
_COMPARED = 500
# Largest share of the weights off the span. All sums of gradients stay below it; the
# mildest other training tried, SGD with an elastic net of 1 % L1, leaves 2e-4.
_OFF = 1e-8
# Random rows of each class, so that cross-validation has some in every fold; the factor
# for a second attempt with more rows.
_OF_A_CLASS, _MORE = 12, 5
# Random rows of a regression.
_ROWS = 40


def applies(model: Any, known: Any) -> bool:
    """Return whether there are coefficients, and more features than known rows."""
    weights = getattr(model, "coef_", None)
    if not isinstance(weights, np.ndarray) or weights.dtype.kind != "f":
        return False
    return weights.ndim <= 2 and known.shape[0] + 1 < known.shape[1]


def read(
    model: Any, known: Any, labels: np.ndarray | None = None
) -> tuple[RowReconstruction | None, str]:
    """Reconstruct the missing row, if its direction can be completed.

    Args:
      model: a fitted linear model for which `applies` holds.
      known: (known, features) float64.
      labels: (known,), as its `fit` received them; None: they are not known, so no
        refit certifies the row.
    Returns: the row, or None if nothing completes it; a remark for the user.
    """
    try:
        direction = read_direction(model.coef_, known)
        why = leaves_span(model)
    except LimitError:
        raise
    except ReconstructionImpossibleError as error:
        return None, str(error)
    if why:
        raise LimitError(f"The span tells nothing: {why}.")
    if direction.rank > 1:
        named, doubt = direction.untrained, ""
        if len(named) == 1:
            doubt = f" Known row {named[0]} has no share of its own in the coefficients"
            doubt += ": is it another one?"
        return None, (
            f"{direction.rank} rows that are not known were trained on, or known rows"
            f" were altered.{doubt}"
        )
    row = lattice.complete(direction, known)
    repeats, label = None, None
    if row is not None and labels is not None:
        repeats, label = _refitted(model, known, labels, row.row, direction)
    if row is None or (label is None and not repeats and not row.certified):
        by = "" if row is None else f"; completed by levels: {row.why}"
        return None, (
            "The coefficients hold the direction of the missing row off the span of the"
            f" known ones, to {direction.error:.0e}, by which"
            f" informed.attacks.span.rank ranks a gallery{by}."
        )
    why = f"off the span of the known rows: {row.why}"
    if repeats:
        why += "; a refit with it gives the coefficients again"
    elif repeats is None:
        why += (
            f"; no refit decides, so that holds if {row.premise}, and if no known row"
            " is part of it"
        )
    else:
        why += (
            "; but a refit with it gives other coefficients: it holds known rows whole,"
            " or the known rows are others"
        )
    # A refit doesn't show small errors of known rows that the levels don't exclude.
    certified = bool(repeats) and row.certified
    bound = row.error * np.abs(row.row).max() + 4 * EPS * np.abs(row.row)
    target = RowReconstruction(
        value=row.row,
        y=label,
        certified=certified,
        error=np.where(row.determined & row.certified, bound, np.inf),
        by="span",
        why=why,
    )
    return target, why


def _refitted(
    model: Any, known: Any, labels: np.ndarray, row: np.ndarray, direction: Direction
) -> tuple[bool | None, Any]:
    """Return whether a refit reproduces the coefficients, and with which label.

    True: it does, and no sum of rows would. False: it does not, and neither order nor
    randomness affects training. None: undecided; with a label if it does.
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
        # The row's gradients raised the output of its own class most.
        label = classes[int(raised[0] > 0) if len(raised) == 1 else np.argmax(raised)]
    try:
        last = refit(model, known, labels, row, label)
        if not _near(model, last, direction):
            # A difference is evidence only if neither position nor chance matters, nor
            # the precision: `known` is float64.
            first = refit(model, known, labels, row, label, at=0)
            alike = model.coef_.dtype == np.float64 and _near(last, first, direction)
            return (False if alike else None), None
        # A model that interpolates agrees with other rows of the span as well.
        other = _rival(known, row)
        if other is not None:
            its = linear.label_of(model, known, labels, other)
            its = label if its is None or classes is not None else its
            if _near(refit(model, known, labels, other, its), last, direction):
                return None, label
    except (ValueError, TypeError, ArithmeticError):
        return None, None
    # Between rows of equal weight values may move; a sum fits too without an intercept.
    if direction.equal(row[None]):
        return None, label if getattr(model, "fit_intercept", False) else None
    return True, label


def _rival(known: Any, row: np.ndarray) -> np.ndarray | None:
    """Return the row plus the difference of the two known rows that are nearest."""
    some = np.unique(known[:_COMPARED], axis=0)
    if len(some) < 2:
        return None
    apart = scipy.spatial.distance.cdist(some, some)
    np.fill_diagonal(apart, np.inf)
    one, two = np.unravel_index(apart.argmin(), apart.shape)
    return row + some[one] - some[two]


def _near(one: Any, other: Any, direction: Direction) -> bool:
    """Return whether two models are equal up to rounding."""
    limit = _AGREES + _ERRORS * direction.error
    moved = np.atleast_2d(one.coef_) - np.atleast_2d(other.coef_)
    off = np.linalg.norm(moved / direction.basis.scale)
    here, there = (np.ravel(getattr(m, "intercept_", 0.0)) for m in (one, other))
    size = np.linalg.norm(direction.singular[:1])
    apart = np.abs(here - there).max(initial=0.0)
    rounded = 1e-5 * max(1.0, np.abs(here).max(initial=0.0))
    return bool(off <= limit * size and apart <= max(rounded, limit))


def leaves_span(estimator: Any) -> str:
    """Fit a copy to random rows; return why its weights leave their span, or "".

    Raises: LimitError: it can't be fitted to random rows, so this is unknown.
    """
    why = ""
    for times in (1, _MORE):
        try:
            return _leaves_span(estimator, times)
        except (ValueError, TypeError, ArithmeticError) as error:
            why = checks.first_line(error)
    raise LimitError(f"it can't be fitted to random rows: {why}")


def _leaves_span(estimator: Any, times: int) -> str:
    """Do as `leaves_span`, with `times` as many rows."""
    rng = np.random.default_rng(0)
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        outputs = np.shape(estimator.coef_)
        many = outputs[0] if len(outputs) == 2 else 0
        rows = times * _ROWS
        # Positive, because a Poisson regression needs counts.
        labels: np.ndarray = rng.uniform(1, 2, (rows, many) if many else rows)
    else:
        rows = times * _OF_A_CLASS * len(classes)
        labels = np.asarray(classes)[np.arange(rows) % len(classes)]
    known = rng.standard_normal((rows, 2 * rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = sklearn.base.clone(estimator).fit(known, labels)
    basis = Basis.of(known)
    scaled = np.atleast_2d(fitted.coef_).astype(np.float64) / basis.scale
    size = float(np.linalg.norm(scaled))
    if not size > 0:
        return "training moved nothing"
    share = float(np.linalg.norm(basis.off(scaled))) / size
    if share <= _OFF:
        return ""
    return (
        f"its training leaves {share:.0e} of the weights off the span of all rows (of"
        " updates by coordinate, as Adam's or an L1 penalty's): nothing is read there"
    )
