"""Solve the equations of a linear model's optimum for its unknown training row.

`linear` and `theorems` call it; `pipelines` accepts the estimators of `OBJECTIVES`. Of
all training rows one, the *target* (x, y), is unknown. Parameters at the optimum
satisfy

    sum_i w_i loss'(s_i, y_i) (1, x_i) + (gradient of the penalty) = 0,

where s_i is row i's score, w_i the weight of its class and loss' the loss's derivative
by the score. The known rows' part of the sum can be computed. The rest must be the
target's loss derivative times (1, x), so x is a quotient; with several outputs, a
least-squares quotient. The label follows from the loss derivative and the score at x.
Any real-valued label is consistent; a class label must come out as a class, up to the
solver's error.

Source: Balle et al. 2022, Theorem 1, for each `Loss` here and any number of outputs.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import special

from informed.attacks.impossible import LimitError, ReconstructionImpossibleError

EPS = float(np.finfo(np.float64).eps)
# A target's loss derivative smaller than this share of the known rows' is lost in
# rounding.
_ROUNDING = 1e3 * EPS

Scores = Float[np.ndarray, "*points outputs"]


@dataclasses.dataclass(frozen=True)
class Loss:
    """A loss whose derivative at a score is the mean function there minus the label."""

    mean: Callable[[Scores], Scores]  # the inverse link
    # (outputs,) numbers -> the nearest class's encoding; None: real labels.
    nearest: Callable[[np.ndarray], np.ndarray] | None = None

    def label(self, slope: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the (outputs,) label of a loss derivative; its distance to a class."""
        raw = self.mean(score) - slope
        if self.nearest is None:
            return raw, 0.0
        label = self.nearest(raw)
        return label, float(np.max(np.abs(raw - label)))


SQUARED = Loss(lambda s: s)
# Squared loss with labels -1 and 1, of ridge classifiers.
SIGNS = Loss(lambda s: s, lambda raw: np.where(raw > 0, 1.0, -1.0))
LOGISTIC = Loss(special.expit, lambda raw: np.clip(np.round(raw), 0, 1))
SOFTMAX = Loss(
    lambda s: special.softmax(s, axis=-1), lambda raw: np.eye(len(raw))[np.argmax(raw)]
)
POISSON = Loss(np.exp)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Objective:
    """The training objective of a linear model."""

    loss: Loss  # per row, without a factor but class weights; penalties in its units
    # As numbers: real, 0 or 1, -1 or 1, or one-hot, depending on the loss.
    labels: Float[np.ndarray, "known outputs"]
    penalty: float = 0.0  # the factor of |coefficients|^2 / 2
    intercept_penalty: float = 0.0  # the factor of intercept^2 / 2
    weights: Float[np.ndarray, " known"]  # of the known rows' classes
    target_weight: float = 1.0  # of the target's class
    target_label: Any = None  # its class if these weights hold for one only; else None

    def gradients(
        self, known: np.ndarray, coef: np.ndarray, intercept: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute per-row loss derivatives, weighted, and the residual gradient.

        The latter, (outputs, 1 + features), is minus the gradient of known rows and
        penalty; it must come from the target.
        """
        scores = known @ coef.T + intercept
        errors = self.loss.mean(scores) - self.labels
        slopes = errors * self.weights[:, None]
        share_0 = -(slopes.sum(axis=0) + self.intercept_penalty * intercept)
        share = -(slopes.T @ known + self.penalty * coef)
        return slopes, np.column_stack([share_0, share])


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Quotient:
    """The target as the closed-form quotient, with what it was computed from."""

    row: Float[np.ndarray, " features"]
    label: Float[np.ndarray, " outputs"]  # encoded as in `Objective.labels`
    violation: float  # how far the label is from a class; 0 for real-valued labels
    # Of `Objective.gradients`. The target's loss derivative times its weight is the
    # first column of `share`.
    slopes: Float[np.ndarray, "known outputs"]
    share: Float[np.ndarray, "outputs columns"]


def solve(
    objective: Objective, known: np.ndarray, coef: np.ndarray, intercept: np.ndarray
) -> Quotient:
    """Solve the optimum's equations for the target and its label.

    Args:
      known: (known, features), the known rows.
      coef, intercept: (outputs, features) and (outputs,), as released.
    Raises: ReconstructionImpossibleError: the target's loss derivative is lost in
      rounding.
    """
    slopes, share = objective.gradients(known, coef, intercept)
    share_0 = share[:, 0]
    # A loss derivative is a mean minus a label, both rounded relative to their size.
    size = max(np.abs(slopes).sum(), np.abs(objective.labels).max(initial=0.0))
    squared = float(share_0 @ share_0)
    if not np.isfinite(squared):
        raise ValueError("Expected finite rows, labels and parameters.")
    if not np.sqrt(squared) > _ROUNDING * max(size, np.finfo(np.float64).tiny):
        raise ReconstructionImpossibleError(
            "The target's residual is lost in rounding: the known rows explain the"
            " parameters without it. The model fits it without a residual, or is all"
            " but certain of its label."
        )
    row = share[:, 1:].T @ share_0 / squared
    slope = share_0 / objective.target_weight
    label, violation = objective.loss.label(slope, row @ coef.T + intercept)
    return Quotient(
        row=row, label=label, violation=violation, slopes=slopes, share=share
    )


def objectives(model: Any, labels: np.ndarray) -> list[Objective]:
    """List the objectives that an estimator may have minimised.

    Args:
      model: a fitted estimator of a type in `OBJECTIVES`.
      labels: (known,) or (known, outputs), as its `fit` received them.
    Returns: one objective; with class weights, one per class that the target may have.
    Raises: ReconstructionImpossibleError: it isn't smooth or handled, or has one class.
      ValueError: a label that is none of the model's classes.
    """
    terms = OBJECTIVES[type(model).__name__](model, len(labels) + 1)
    ones = np.ones(len(labels))
    if terms["loss"].nearest is None:
        outputs = np.asarray(labels, np.float64).reshape(len(labels), -1)
        return [Objective(**terms, labels=outputs, weights=ones)]
    if np.ndim(labels) > 1:
        raise LimitError(
            "Several labels a row are not handled; attack one output at a time."
        )
    classes = model.classes_
    if len(classes) < 2:
        raise ReconstructionImpossibleError(
            "There is one class, so all rows have the same scores."
        )
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise ValueError(
            f"Expected labels among the model's classes {classes.tolist()},"
            f" got {unknown.tolist()[:5]}."
        )
    # One column if there are two classes; -1 and 1 for ridge classifiers.
    one_hot = (np.asarray(labels)[:, None] == np.asarray(classes)).astype(np.float64)
    encoded = one_hot[:, 1:] if len(classes) == 2 else one_hot
    terms["labels"] = 2 * encoded - 1 if terms["loss"] is SIGNS else encoded
    if getattr(model, "class_weight", None) is None:
        return [Objective(**terms, weights=ones)]
    places = np.searchsorted(classes, labels)
    candidates = []
    for k, label in enumerate(classes):
        of_class = _class_weights(model, np.append(places, k))
        terms |= {"weights": of_class[places], "target_weight": of_class[k]}
        candidates.append(Objective(**terms, target_label=label))
    return candidates


def _class_weights(model: Any, places: np.ndarray) -> np.ndarray:
    """Return (classes,) weights of a training set; places: its rows' class indices."""
    weighting, classes = model.class_weight, model.classes_
    if isinstance(weighting, str):
        sizes = np.bincount(places, minlength=len(classes))
        return len(places) / (len(classes) * sizes)
    return np.array([weighting.get(label, 1.0) for label in classes])


def _least_squares(model: Any, rows: int) -> dict[str, Any]:
    if getattr(model, "positive", False):
        raise LimitError(
            "positive=True bounds the coefficients: the gradient is not zero at the"
            " optimum."
        )
    alpha = getattr(model, "alpha_", getattr(model, "alpha", 0.0))
    if np.ndim(alpha) > 0 and np.size(alpha) > 1:
        raise LimitError("One penalty an output is not handled.")
    return {"loss": SQUARED, "penalty": float(np.ravel(alpha)[0])}


def _ridge_classifier(model: Any, rows: int) -> dict[str, Any]:
    return _least_squares(model, rows) | {"loss": SIGNS}


def _logistic(model: Any, rows: int) -> dict[str, Any]:
    ratio = getattr(model, "l1_ratio", None)
    if model.penalty in ("l1", "elasticnet") or ratio:
        raise LimitError(
            "An l1 penalty has no gradient at zero; only l2 penalties can be inverted."
        )
    penalty = 0.0 if model.penalty is None else 1.0 / float(model.C)
    of_intercept = 0.0
    if model.solver == "liblinear":
        of_intercept = penalty / model.intercept_scaling**2
    loss = LOGISTIC if len(model.coef_) == 1 else SOFTMAX
    return {"loss": loss, "penalty": penalty, "intercept_penalty": of_intercept}


def _poisson(model: Any, rows: int) -> dict[str, Any]:
    # scikit-learn averages the deviance over all rows, the target included.
    return {"loss": POISSON, "penalty": model.alpha * rows}


# Type of an estimator -> (model, number of rows with the target) -> loss and penalties.
OBJECTIVES: dict[str, Callable[[Any, int], dict[str, Any]]] = {
    "LinearRegression": _least_squares,
    "Ridge": _least_squares,
    "RidgeCV": _least_squares,
    "RidgeClassifier": _ridge_classifier,
    "RidgeClassifierCV": _ridge_classifier,
    "LogisticRegression": _logistic,
    "PoissonRegressor": _poisson,
}
