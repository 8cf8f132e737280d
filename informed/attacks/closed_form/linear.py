"""The missing row of a fitted linear model, from the equations of its optimum.

    sum_i r_i (1, k_i) + (gradient of the penalty) + r (1, x) = 0

The known rows' share is computed, so the target's slope r and the product r x are
known: x is their quotient. Solvers stop short of the optimum; `refining` then fits the
model again, with candidates in the target's place, until its parameters come out.

Certificate. With one output, every set of known rows has an answer, and a class that
comes out whole says little where features are small: nothing is certified. With several
outputs r is a vector, and what the target leaves of the gradient has rank one. If known
row i is another one, off by d in feature j, it leaves r_i d there. The part of r_i
across r shows, and the part along r moves x_j by |r_i along r| d / |r|. So a gradient
that is rank one up to v_j leaves x_j no further off than

    max_i (|r_i along r| / |r_i across r|) v_j / |r|.

Source: Balle et al. 2022, Theorem 1; the certificate is ours.
"""

from typing import Any

import numpy as np
from sklearn import base

from informed.attacks.closed_form import refining
from informed.attacks.closed_form.objectives import (
    OBJECTIVES,
    Objective,
    Quotient,
    objectives,
    solve,
)
from informed.attacks.closed_form.row import EPS, RowReconstruction, spread
from informed.attacks.impossible import ReconstructionImpossibleError

# In spreads: rows that are known less closely are estimates.
_PRECISION = 1e-6
# A tolerance that stops no solver; some estimators refuse zero.
_NO_TOLERANCE = 1e-300
_ONE_OUTPUT = "with one output the equations are used up: no wrong known row would show"


def read(model: Any, known: np.ndarray, labels: np.ndarray) -> RowReconstruction:
    """Reconstruct the missing row and its label.

    Args:
      model: a fitted estimator of a type in `objectives.OBJECTIVES`.
      known: (known, features) float64, all rows that it was fitted to but one.
      labels: (known,) or (known, outputs), as its `fit` received them.
    Raises:
      ReconstructionImpossibleError: this model does not determine the row.
      ValueError: a label that the model has no class for.
    """
    require_intercept(model)
    objective, quotient = likeliest(model, known, labels)
    y = label(model, labels, quotient.targets)
    row, error, again = quotient.row, np.full(len(quotient.row), np.inf), None
    if not (_goes_row_by_row(model) or np.asarray(model.coef_).dtype == np.float32):
        z, steps = _refined(model, objective, quotient, known, labels)
        if np.max(steps / _scale(objective, known)) <= _PRECISION:
            row, error = z[: len(row)], steps[: len(row)]
            y = label(model, labels, z[len(row) :]) if len(z) > len(row) else y
            again = refining.refit(_stepping(model), known, labels, row, y)
    certified, why = False, "no refit confirms it: its solver stopped early"
    if again is not None:
        certified, why = _certificate(objective, known, model, again)
    return RowReconstruction(
        value=row,
        y=y,
        certified=certified,
        error=error,
        by="closed form",
        why=f"the gradient is zero at the optimum; {why}",
    )


def label_of(model: Any, known: np.ndarray, labels: np.ndarray, row: np.ndarray) -> Any:
    """Decide the label of a row that something else has read; None: nothing decides.

    Args: as `read`; row: (features,), the missing row as the model gets it.
    """
    if type(model).__name__ not in OBJECTIVES or not model.fit_intercept:
        return None
    coef, intercept = parameters(model)
    best: tuple[float, np.ndarray] | None = None
    for objective in objectives(model, labels):
        _, share = objective.gradients(known, coef, intercept)
        slope = share[:, 0] / objective.target_weight
        targets, off = objective.loss.target(slope, row @ coef.T + intercept)
        if best is None or off < best[0]:
            best = off, targets
    assert best is not None
    return label(model, labels, best[1])


def parameters(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """(outputs, features) coefficients and (outputs,) intercepts, float64."""
    coef = np.atleast_2d(np.asarray(model.coef_, np.float64))
    return coef, np.atleast_1d(np.asarray(model.intercept_, np.float64))


def require_intercept(model: Any) -> None:
    """Raise ReconstructionImpossibleError where there is none."""
    if not model.fit_intercept:
        raise ReconstructionImpossibleError(
            f"{type(model).__name__} was fitted without intercept, so the target's"
            " residual is unknown: x is determined up to a factor only. For least"
            " squares and ridge name target_label (Theorem 8)."
        )


def likeliest(
    model: Any, known: np.ndarray, labels: np.ndarray
) -> tuple[Objective, Quotient]:
    """The objective and answer whose class comes out nearest to whole.

    Raises: ReconstructionImpossibleError: no class of the target fits the weights.
    """
    solved, failure = [], None
    for objective in objectives(model, labels):
        try:
            quotient = solve(objective, known, *parameters(model))
        except ReconstructionImpossibleError as error:
            failure = error
            continue
        own = label(model, labels, quotient.targets)
        if objective.label is None or objective.label == own:
            solved.append((objective, quotient))
    if not solved:
        raise failure or ReconstructionImpossibleError(
            "No class of the target is consistent with class_weight="
            f"{model.class_weight!r}. Are the known rows all others?"
        )
    return min(solved, key=lambda pair: pair[1].violation)


def label(model: Any, labels: np.ndarray, targets: np.ndarray) -> Any:
    """Name the target as the estimator's `fit` received it."""
    if not hasattr(model, "classes_"):
        return float(targets[0]) if np.ndim(labels) == 1 else targets
    classes = model.classes_
    return classes[int(targets[0] > 0.5 if len(targets) == 1 else np.argmax(targets))]


def _scale(objective: Objective, known: np.ndarray) -> np.ndarray:
    """The spread of each unknown; a regression's outputs are unknown as well."""
    scale = spread(known)
    return (
        scale if objective.loss.classes else np.append(scale, spread(objective.targets))
    )


def _refined(
    model: Any,
    objective: Objective,
    quotient: Quotient,
    known: np.ndarray,
    labels: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The row, and a regression's outputs behind it, that give the parameters again.

    Returns: both, and their error; infinite where the refits do not converge.
    """
    features, classes = known.shape[1], objective.loss.classes
    scale, stepping = _scale(objective, known), _stepping(model)

    def invert(fitted: Any) -> np.ndarray:
        nothing = np.full(len(scale), np.nan)
        if fitted is None:
            return nothing
        try:
            solved = solve(objective, known, *parameters(fitted))
        except ReconstructionImpossibleError:
            return nothing
        return solved.row if classes else np.append(solved.row, solved.targets)

    def train(z: np.ndarray) -> Any:
        y = label(model, labels, quotient.targets if classes else z[features:])
        try:
            return refining.refit(stepping, known, labels, z[:features], y)
        except (ValueError, ArithmeticError):
            return None  # such as a count below zero

    return refining.refine(invert, train, model, scale)


def _stepping(model: Any) -> Any:
    """The model, to be fitted in as many steps of L-BFGS as the released one took.

    Where a tolerance decides, one row gets a last step that the next one does not, and
    the refit jumps from row to row.
    """
    taken = np.ravel(getattr(model, "n_iter_", 0))
    if getattr(model, "solver", "") != "lbfgs" or taken.size != 1 or not taken[0]:
        return model
    as_many = base.clone(model)
    return as_many.set_params(max_iter=int(taken[0]), tol=_NO_TOLERANCE)


def _goes_row_by_row(model: Any) -> bool:
    """Whether the solver's answer depends on where the missing row stood."""
    stochastic = getattr(model, "solver", None) in ("sag", "saga")
    return stochastic or getattr(model, "dual", False) is not False


def _certificate(
    objective: Objective, known: np.ndarray, stored: Any, again: Any
) -> tuple[bool, str]:
    """Whether one known row that is another one would have shown; and why.

    Args:
      stored: the released model.
      again: its refit with the row that was read.
    """
    slopes, share = objective.gradients(known, *parameters(stored))
    if share.shape[0] < 2:
        return False, _ONE_OUTPUT
    _, repeated = objective.gradients(known, *parameters(again))
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
