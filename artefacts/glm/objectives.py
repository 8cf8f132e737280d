"""What a fitted linear estimator minimised, and what its optimum leaves of the target.

    sum_i w_i loss'(s_i, y_i) (1, x_i) + penalty's gradient = 0

An `Objective` is the sum as scikit-learn has it: loss, penalties on the scale where the
loss has weight 1, weights of samples and classes. `solve` reads the target out of
the sum: the known rows' share is computed, and the rest is the target's slope times
(1, x), so that x is a quotient; with several outputs their least-squares quotient.

Source: Balle et al. 2022, Theorem 1, for any smooth loss and any number of outputs.
"""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import class_weight

from artefacts.findings import Leaf, ReconstructionImpossibleError
from artefacts.glm import losses
from artefacts.glm.losses import Loss

# A slope of the target below this many roundings of the known ones is lost in them.
_ROUNDING = 1e3 * float(np.finfo(np.float64).eps)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Objective:
    """What an estimator minimised.

    Attributes:
      loss: the loss of scores and targets, with weight 1.
      targets: (known, outputs), what the scores of the known rows are compared with.
      penalty: the factor of |coefficients|^2 / 2, on the scale where the loss has
        weight 1.
      intercept_penalty: the factor of intercept^2 / 2, on the same scale.
      weights: (known,), the known rows' weights, those of their classes included.
      target_weight: the target's weight, that of its class included.
      label: the target's class for which these weights hold; None: they hold for any.
    """

    loss: Loss
    targets: np.ndarray
    penalty: float = 0.0
    intercept_penalty: float = 0.0
    weights: np.ndarray
    target_weight: float = 1.0
    label: Any = None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Quotient:
    """The closed form's answer.

    Attributes:
      row: (features,), the target's features.
      targets: (outputs,), its targets; NaN where its slope doesn't tell them.
      rounding: the sum of all known slopes over the target's: how many times rounding
        is enlarged in `row`.
      violation: how far classes are from coming out whole, in units of the label.
    """

    row: np.ndarray
    targets: np.ndarray
    rounding: float
    violation: float


def solve(
    objective: Objective, known: np.ndarray, coef: np.ndarray, intercept: np.ndarray
) -> Quotient:
    """What the known rows leave of the gradient, as a row and its targets.

    Args:
      objective: what the estimator minimised.
      known: (known, features), the known rows.
      coef: (outputs, features), the released coefficients.
      intercept: (outputs,), the released intercepts.
    """
    scores = known @ coef.T + intercept
    slopes = (
        objective.loss.slope(scores, objective.targets) * objective.weights[:, None]
    )
    # What the known rows and the penalty leave of the gradient is the target's share.
    share = -(slopes.T @ known + objective.penalty * coef)
    share_0 = -(slopes.sum(axis=0) + objective.intercept_penalty * intercept)
    size = float(np.abs(slopes).sum())
    squared = float(share_0 @ share_0)
    if not np.sqrt(squared) > _ROUNDING * max(size, np.finfo(np.float64).tiny):
        raise ReconstructionImpossibleError(
            "The target's residual is lost in rounding: the known rows explain the"
            " parameters without it (it is fitted without a residual, or lies behind"
            " the margin)."
        )
    # Its share is slope x (1, x): x is their quotient, by least squares over outputs.
    row = share.T @ share_0 / squared
    slope = share_0 / objective.target_weight
    targets, violation = objective.loss.target(slope, row @ coef.T + intercept)
    return Quotient(
        row=row,
        targets=targets,
        rounding=size / np.sqrt(squared),
        violation=violation,
    )


def objectives(leaf: Leaf) -> list[Objective]:
    """What the estimator minimised; one for each class where weights depend on it.

    Raises: ReconstructionImpossibleError: its objective is not smooth, or unknown.
    """
    model = leaf.estimator
    loss, penalty, of_intercept, signs = OBJECTIVES[type(model).__name__](leaf)
    w = leaf.sample_weights
    if not loss.classes:
        targets = np.asarray(leaf.labels, np.float64)
        targets = targets[:, None] if targets.ndim == 1 else targets
        return [
            Objective(
                loss=loss,
                targets=targets,
                penalty=penalty,
                intercept_penalty=of_intercept,
                weights=w,
                target_weight=leaf.target_weight,
            )
        ]
    classes = model.classes_
    assert leaf.labels is not None
    if len(classes) < 2:
        raise ReconstructionImpossibleError(
            "There is one class, so that the scores of all rows are the same."
        )
    strangers = np.setdiff1d(leaf.labels, classes)
    if len(strangers):
        raise ValueError(
            f"Expected labels among the model's classes {classes.tolist()},"
            f" found {strangers.tolist()[:5]}."
        )
    targets = losses.one_hot(leaf.labels, classes, signs=signs)
    weighting = getattr(model, "class_weight", None)
    shared: dict[str, Any] = {
        "loss": loss,
        "targets": targets,
        "penalty": penalty,
        "intercept_penalty": of_intercept,
    }
    if weighting is None:
        return [Objective(**shared, weights=w, target_weight=leaf.target_weight)]
    made = []
    places = np.searchsorted(classes, leaf.labels)
    for k, label in enumerate(classes):
        if isinstance(weighting, str):
            own = np.append(w, leaf.target_weight)
            own = own if _weighs_classes(model) else np.ones_like(own)
            sizes = np.bincount(np.append(places, k), own, minlength=len(classes))
            of_class = own.sum() / (len(classes) * sizes)
        else:
            of_class = np.array([weighting.get(each, 1.0) for each in classes])
        made.append(
            Objective(
                **shared,
                weights=w * of_class[places],
                target_weight=leaf.target_weight * of_class[k],
                label=label,
            )
        )
    return made


def _weighs_classes(model: Any) -> bool:
    """Whether "balanced" counts a class by its sample weights, not by its rows.

    Ridge regression counts rows, and so did all estimators of older releases.
    """
    told = inspect.signature(class_weight.compute_class_weight).parameters
    return "sample_weight" in told and not type(model).__name__.startswith("Ridge")


_Terms = tuple[Loss, float, float, bool]


def _total(leaf: Leaf) -> float:
    """The sum of all sample weights, the target's included."""
    return float(leaf.sample_weights.sum() + leaf.target_weight)


def _least_squares(leaf: Leaf) -> _Terms:
    model = leaf.estimator
    if getattr(model, "positive", False):
        raise ReconstructionImpossibleError(
            "positive=True bounds the coefficients: the gradient is not zero at the"
            " optimum."
        )
    alpha = getattr(model, "alpha_", getattr(model, "alpha", 0.0))
    if np.ndim(alpha) > 0 and np.size(alpha) > 1:
        raise ReconstructionImpossibleError("One penalty an output is not handled.")
    return losses.SQUARED, float(np.ravel(alpha)[0]), 0.0, False


def _bayesian(leaf: Leaf) -> _Terms:
    model = leaf.estimator
    return losses.SQUARED, float(model.lambda_ / model.alpha_), 0.0, False


def _ridge_classifier(leaf: Leaf) -> _Terms:
    _, alpha, _, _ = _least_squares(leaf)
    return losses.SIGNS, alpha, 0.0, True


def _logistic(leaf: Leaf) -> _Terms:
    model = leaf.estimator
    ratio = getattr(model, "l1_ratio_", getattr(model, "l1_ratio", None))
    if model.penalty in ("l1", "elasticnet") or np.any(
        [each for each in np.ravel(np.asarray(ratio, object)) if each]
    ):
        raise ReconstructionImpossibleError(
            "An l1 penalty has no gradient at zero; only l2 penalties can be inverted."
        )
    strength = np.ravel(getattr(model, "C_", getattr(model, "C", 1.0)))[0]
    penalty = 0.0 if model.penalty is None else 1.0 / float(strength)
    of_intercept = 0.0
    if model.solver == "liblinear":
        of_intercept = penalty / model.intercept_scaling**2
    loss = losses.LOGISTIC if len(model.coef_) == 1 else losses.SOFTMAX
    return loss, penalty, of_intercept, False


def _deviance(leaf: Leaf) -> _Terms:
    model = leaf.estimator
    power = {"PoissonRegressor": 1.0, "GammaRegressor": 2.0}.get(type(model).__name__)
    link = "log"
    if power is None:
        power = float(model.power)
        link = model.link
        if link == "auto":
            link = "identity" if power <= 0 else "log"
    return losses.tweedie(power, link), model.alpha * _total(leaf), 0.0, False


def _support(leaf: Leaf) -> _Terms:
    model = leaf.estimator
    if model.penalty != "l2" or model.loss != "squared_hinge":
        raise ReconstructionImpossibleError(
            f"loss={model.loss!r}, penalty={model.penalty!r}: only the squared hinge"
            " with an l2 penalty has a gradient everywhere."
        )
    if model.multi_class != "ovr" or (
        model.class_weight is not None and len(model.classes_) > 2
    ):
        raise ReconstructionImpossibleError(
            "Crammer-Singer, and class weights with several classes, are not handled."
        )
    penalty = 1.0 / model.C
    return losses.SQUARED_HINGE, penalty, penalty / model.intercept_scaling**2, True


def _support_regression(leaf: Leaf) -> _Terms:
    model = leaf.estimator
    if model.loss != "squared_epsilon_insensitive":
        raise ReconstructionImpossibleError(
            f"loss={model.loss!r} has no gradient at the edge of its tube; only"
            " squared_epsilon_insensitive is inverted."
        )
    penalty = 1.0 / model.C
    return (
        losses.squared_tube(model.epsilon),
        penalty,
        penalty / model.intercept_scaling**2,
        False,
    )


def _huber(leaf: Leaf) -> _Terms:
    model = leaf.estimator
    return losses.huber(model.epsilon, float(model.scale_)), 2 * model.alpha, 0.0, False


def _descent(leaf: Leaf) -> _Terms:
    """Stochastic gradient descent, taken as if it had converged."""
    model = leaf.estimator
    smooth = {
        "log_loss": losses.LOGISTIC,
        "squared_hinge": losses.SQUARED_HINGE,
        "squared_error": losses.SQUARED,
        "squared_epsilon_insensitive": losses.squared_tube(model.epsilon),
    }
    if model.loss not in smooth or model.penalty not in ("l2", None):
        raise ReconstructionImpossibleError(
            f"loss={model.loss!r}, penalty={model.penalty!r}: no gradient everywhere."
        )
    if len(np.atleast_2d(model.coef_)) > 1 and model.loss == "log_loss":
        loss = losses.LOGISTIC
    else:
        loss = smooth[model.loss]
    alpha = 0.0 if model.penalty is None else model.alpha * _total(leaf)
    return loss, alpha, 0.0, model.loss == "squared_hinge"


OBJECTIVES: dict[str, Callable[[Leaf], _Terms]] = {
    "LinearRegression": _least_squares,
    "Ridge": _least_squares,
    "RidgeCV": _least_squares,
    "BayesianRidge": _bayesian,
    "RidgeClassifier": _ridge_classifier,
    "RidgeClassifierCV": _ridge_classifier,
    "LogisticRegression": _logistic,
    "LogisticRegressionCV": _logistic,
    "PoissonRegressor": _deviance,
    "GammaRegressor": _deviance,
    "TweedieRegressor": _deviance,
    "LinearSVC": _support,
    "LinearSVR": _support_regression,
    "HuberRegressor": _huber,
    "SGDClassifier": _descent,
    "SGDRegressor": _descent,
}
