"""Reconstruct a linear model's unknown training row from the equations of its optimum.

`objectives` solves them. Since solvers stop short of the optimum, `refining` then fits
the model again, with candidates in the target's place, until its parameters are
reproduced. There are no refits if they depend on the rows' order, or the model is in
float32. `pipelines`, `scaler` and `span.linear_fit` call it; users call `reconstruct`.

Certificate. With one output, every set of known rows has a solution, and an integer
class label is weak evidence if features are small: nothing is certified. With several
outputs the target's loss derivative r is a vector, and the residual gradient has rank
one. Suppose known row i, of loss derivative r_i, is wrong, by d in feature j; this adds
r_i d to the residual gradient. The part of r_i across r is visible, and the part along
r moves x_j by |r_i along r| d / |r|. So if the gradient has rank one up to v_j, the
error of x_j is at most

    max_i (|r_i along r| / |r_i across r|) v_j / |r|.

Source: Balle et al. 2022, Theorem 1; the certificate is ours.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn import base

from informed.attacks.closed_form import refining
from informed.attacks.closed_form.objectives import (
    EPS,
    OBJECTIVES,
    Objective,
    Quotient,
    objectives,
    solve,
)
from informed.attacks.closed_form.theorems import GlmReconstruction
from informed.attacks.impossible import LimitError, ReconstructionImpossibleError

# In column spreads: a row with a larger error is only an estimate.
_PRECISION = 1e-6
REAL_LABELS = ("LinearRegression", "Ridge", "RidgeCV")  # labels are real numbers


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class RowReconstruction:
    """The unknown row, as reconstructed from a fitted linear model.

    Attributes:
      value: (features,) float64, the row in the units of the known rows.
      y: the row's label or output; None: undetermined.
      certified: whether equations hold in the model that a wrong known row would
        violate, as `why` says. They confirm `value`, not `y`.
      error: (features,), bound on the error of `value`, provided that the known rows
        are correct; infinity where there is none.
      by: the method: "scaler means", "span" or "closed form".
      why: what the certificate rests on, or why there is none.
      candidates: the two possible rows of a model without intercept (Theorem 8).
    """

    value: Float[np.ndarray, " features"]
    y: Any = None
    certified: bool = False
    error: Float[np.ndarray, " features"]
    by: str
    why: str
    candidates: tuple[GlmReconstruction, ...] = ()


def spread(known: np.ndarray) -> Float[np.ndarray, " features"]:
    """Return the standard deviation of each column, or a constant column's size."""
    deviation = known.std(axis=0)
    size = np.abs(known).max(axis=0, initial=0.0)
    scale = np.where(deviation > 1e-9 * size, deviation, size)
    return np.where(scale > 0, scale, 1.0)


def read(model: Any, known: np.ndarray, labels: np.ndarray) -> RowReconstruction:
    """Reconstruct the missing row and its label; arguments as of `objectives`.

    Raises:
      ReconstructionImpossibleError: this model does not determine the row.
      ValueError: a label that the model has no class for.
    """
    objective, quotient = likeliest(model, known, labels)
    y = _label(model, labels, quotient.label)
    row, error, refit = quotient.row, np.full(len(quotient.row), np.inf), None
    # These solvers' results depend on the position of the missing row, so a refit can't
    # reproduce the parameters.
    row_by_row = getattr(model, "solver", None) in ("sag", "saga")
    row_by_row = row_by_row or getattr(model, "dual", False) is not False
    rough = np.asarray(model.coef_).dtype == np.float32
    if not (row_by_row or rough):
        scale = spread(known)
        if objective.loss.nearest is None:
            # A regression's outputs are unknown as well.
            scale = np.append(scale, spread(objective.labels))
        z, steps = _refined(model, objective, y, known, labels, scale)
        if np.max(steps / scale) <= _PRECISION:
            row, error = z[: len(row)], steps[: len(row)]
            y = _label(model, labels, z[len(row) :]) if len(z) > len(row) else y
            refit = refining.refit(_stepping(model), known, labels, row, y)
    certified, why = False, "no refit confirms it: its solver stopped early"
    if row_by_row or rough:
        cause = "goes row by row" if row_by_row else "is in single precision"
        why = f"no refit can confirm it: its solver {cause}"
    if refit is not None:
        certified, why = _certificate(objective, known, model, refit)
    return RowReconstruction(
        value=row,
        y=y,
        certified=certified,
        error=error,
        by="closed form",
        why=f"the gradient is zero at the optimum; {why}",
    )


def label_of(model: Any, known: np.ndarray, labels: np.ndarray, row: np.ndarray) -> Any:
    """Decide the label of an already reconstructed row; None: undecidable."""
    if type(model).__name__ not in OBJECTIVES or not model.fit_intercept:
        return None
    coef, intercept = _parameters(model)
    solved = []
    for objective in objectives(model, labels):
        _, share = objective.gradients(known, coef, intercept)
        slope = share[:, 0] / objective.target_weight
        solved.append(objective.loss.label(slope, row @ coef.T + intercept))
    encoded, _ = min(solved, key=lambda pair: pair[1])
    return _label(model, labels, encoded)


def _parameters(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return (outputs, features) coefficients and (outputs,) intercepts, float64."""
    coef = np.atleast_2d(np.asarray(model.coef_, np.float64))
    return coef, np.atleast_1d(np.asarray(model.intercept_, np.float64))


def likeliest(
    model: Any, known: np.ndarray, labels: np.ndarray
) -> tuple[Objective, Quotient]:
    """Choose the objective whose class label is nearest to an integer; solve it."""
    if not model.fit_intercept:
        classifies = hasattr(model, "classes_")  # whose labels are finitely many
        raise (LimitError if classifies else ReconstructionImpossibleError)(
            f"{type(model).__name__} was fitted without intercept, so the target's"
            " residual is unknown: x is determined up to a factor only. For least"
            " squares and ridge name target_label (Theorem 8)."
        )
    solved, failure = [], None
    for objective in objectives(model, labels):
        try:
            quotient = solve(objective, known, *_parameters(model))
        except ReconstructionImpossibleError as error:
            failure = error
            continue
        label = _label(model, labels, quotient.label)
        if objective.target_label is None or objective.target_label == label:
            solved.append((objective, quotient))
    if not solved:
        raise failure or ReconstructionImpossibleError(
            "No class of the target is consistent with class_weight="
            f"{model.class_weight!r}. Are the known rows all others?"
        )
    return min(solved, key=lambda pair: pair[1].violation)


def _label(model: Any, labels: np.ndarray, encoded: np.ndarray) -> Any:
    """Convert an encoded (outputs,) label to what the estimator's `fit` received."""
    if not hasattr(model, "classes_"):
        return float(encoded[0]) if np.ndim(labels) == 1 else encoded
    classes = model.classes_
    return classes[int(encoded[0] > 0.5 if len(encoded) == 1 else np.argmax(encoded))]


def _refined(
    model: Any,
    objective: Objective,
    y: Any,
    known: np.ndarray,
    labels: np.ndarray,
    scale: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Refine the row, and a regression's outputs behind it, by refits.

    Returns: row and outputs, and their error; infinite where refits do not converge.
    """
    features, classes = known.shape[1], objective.loss.nearest is not None
    stepping = _stepping(model)

    def invert(fitted: Any) -> np.ndarray:
        nothing = np.full(len(scale), np.nan)
        if fitted is None:
            return nothing
        try:
            solved = solve(objective, known, *_parameters(fitted))
        except ReconstructionImpossibleError:
            return nothing
        return solved.row if classes else np.append(solved.row, solved.label)

    def train(z: np.ndarray) -> Any:
        label = y if classes else _label(model, labels, z[features:])
        try:
            return refining.refit(stepping, known, labels, z[:features], label)
        except (ValueError, ArithmeticError):
            return None  # `fit` refuses the candidate, such as a negative count

    return refining.refine(invert, train, model, scale)


def _stepping(model: Any) -> Any:
    """Return the model, set to take as many solver steps as the released one.

    With a tolerance, the refit would be a discontinuous function of the row.
    """
    taken = np.ravel(getattr(model, "n_iter_", 0))
    if getattr(model, "solver", "") != "lbfgs" or taken.size != 1 or not taken[0]:
        return model
    as_many = base.clone(model)
    # A tolerance that no solver reaches; some estimators refuse zero.
    return as_many.set_params(max_iter=int(taken[0]), tol=1e-300)


def _certificate(
    objective: Objective, known: np.ndarray, released: Any, refit: Any
) -> tuple[bool, str]:
    """Return whether one wrong known row would have been noticed, and why."""
    slopes, share = objective.gradients(known, *_parameters(released))
    if share.shape[0] < 2:
        return False, (
            "with one output the equations are used up: no wrong known row would show"
        )
    _, repeated = objective.gradients(known, *_parameters(refit))
    slope = share[:, 0]
    size = float(np.linalg.norm(slope))
    unit = slope / size
    missed = share - repeated
    rounding = EPS * np.abs(slopes).sum() * np.abs(known).max(axis=0, initial=0.0)
    across = missed[:, 1:] - np.outer(unit, unit @ missed[:, 1:])
    violation = np.linalg.norm(across, axis=0) + rounding
    along = np.abs(slopes @ unit)
    apart = np.linalg.norm(slopes - np.outer(slopes @ unit, unit), axis=1)
    hidden = along > EPS * np.abs(slopes).max(initial=0.0)
    with np.errstate(divide="ignore"):
        ratio = float((along[hidden] / apart[hidden]).max(initial=0.0))
    error = ratio * violation / size
    same_slope = np.linalg.norm(missed[:, 0]) <= _PRECISION * size
    if same_slope and np.all(error <= _PRECISION * spread(known)):
        return True, (
            "a refit with the row gives all outputs again, of which another known row"
            f" would miss some: it moves the row by {error.max():.0e} at most"
        )
    return False, "its outputs do not tell the known rows from others closely enough"
