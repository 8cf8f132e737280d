"""The closed-form attack on fitted scikit-learn estimators, as they are.

Link, penalty and the penalty's conventions are read from the estimator:

    LinearRegression                    no penalty
    Ridge(alpha)                        alpha
    LogisticRegression(C)               1 / C; liblinear penalises the intercept too
    PoissonRegressor(alpha)             n alpha, n with the target

THREAT: as `artefacts.glm`; the estimator is the release.
"""

import dataclasses
from typing import Any

import numpy as np
from sklearn import linear_model

from artefacts import glm
from artefacts.glm.closed_form import GlmReconstruction, ReconstructionImpossibleError

SUPPORTED = ("LinearRegression", "Ridge", "LogisticRegression", "PoissonRegressor")


def reconstruct(
    model: Any,
    known: np.ndarray,
    labels: np.ndarray,
    *,
    target_label: float | None = None,
) -> GlmReconstruction | tuple[GlmReconstruction, GlmReconstruction]:
    """Reconstruct the one training point that is not among the known ones.

    Args:
      model: a fitted estimator of one of the `SUPPORTED` types.
      known: (known, features), the fixed set.
      labels: (known,), its labels, as they were given to `fit`.
      target_label: the target's label; needed, and used, only for least squares and
        ridge without intercept (Theorem 8).
    Returns: the target, its `y` being a class of the estimator for a classifier; two
      candidates without intercept.
    Raises:
      ReconstructionImpossibleError: this model can't be inverted so; says why.
      ValueError: an estimator of another type, or not fitted, or shapes that don't
        belong together.
    """
    known = np.asarray(known, np.float64)
    labels = np.asarray(labels)
    name = type(model).__name__
    if name not in SUPPORTED:
        raise ValueError(
            f"Expected an estimator of type {', '.join(SUPPORTED)}, got {name}. For"
            " others give theta, link and penalty to artefacts.glm."
        )
    if not hasattr(model, "coef_"):
        raise ValueError(f"Expected a fitted {name}; call its fit first.")
    if isinstance(model, linear_model.LogisticRegression):
        return _logistic(model, known, labels)
    theta = np.ravel(model.coef_)
    if isinstance(model, linear_model.PoissonRegressor):
        link, penalty = "log", model.alpha * (len(known) + 1)
    else:
        link, penalty = "identity", _least_squares_penalty(model)
    if not model.fit_intercept:
        if link == "log":
            raise _no_intercept(name)
        if target_label is None:
            raise ReconstructionImpossibleError(
                f"{name} was fitted without intercept: only Theorem 8 applies, which"
                " needs target_label and gives two candidates."
            )
        return glm.reconstruct_without_intercept(
            theta, known, labels, target_label=target_label, penalty=penalty
        )
    return glm.reconstruct_glm(
        theta,
        float(np.ravel(model.intercept_)[0]),
        known,
        labels,
        link=link,
        penalty=penalty,
    )


def _least_squares_penalty(model: Any) -> float:
    """Penalty of a linear or ridge regression with one output."""
    if np.ndim(model.coef_) > 1 and len(model.coef_) > 1:
        raise ReconstructionImpossibleError(
            "Expected one output; attack one row of coef_ with"
            " artefacts.glm.reconstruct_glm."
        )
    if getattr(model, "positive", False):
        raise ReconstructionImpossibleError(
            "positive=True bounds the coefficients: the gradient is not zero at the"
            " optimum."
        )
    return float(np.ravel(getattr(model, "alpha", 0.0))[0])


def _logistic(model: Any, known: np.ndarray, labels: np.ndarray) -> GlmReconstruction:
    """Binary and multinomial logistic regression."""
    if not model.fit_intercept:
        raise _no_intercept("LogisticRegression")
    if model.l1_ratio or model.penalty in ("l1", "elasticnet"):
        raise ReconstructionImpossibleError(
            "An l1 penalty has no gradient at zero; only l2 penalties can be inverted."
        )
    unknown = np.setdiff1d(labels, model.classes_)
    if len(unknown):
        raise ValueError(
            f"Expected labels among the model's classes {model.classes_.tolist()},"
            f" found {unknown.tolist()[:5]}."
        )
    classes = np.searchsorted(model.classes_, labels)
    penalty = 0.0 if model.penalty is None else 1.0 / model.C
    if model.class_weight is None:
        return _named(model, _with_weights(model, known, classes, penalty, None, 0))
    # Class weights depend on the target's label: try each, keep the consistent one.
    found = []
    for label in range(len(model.classes_)):
        weights = _class_weights(model, classes, label)
        try:
            guess = _with_weights(model, known, classes, penalty, weights, label)
        except ReconstructionImpossibleError:
            continue
        if guess.y == label:
            found.append(guess)
    if not found:
        raise ReconstructionImpossibleError(
            "No class of the target is consistent with class_weight="
            f"{model.class_weight!r}. Is the fixed set the right one?"
        )
    return _named(model, min(found, key=lambda guess: guess.gradient_norm or 0.0))


def _with_weights(
    model: Any,
    known: np.ndarray,
    classes: np.ndarray,
    penalty: float,
    weights: np.ndarray | None,
    label: int,
) -> GlmReconstruction:
    """The attack for given class weights; `label` is the target's, if they are."""
    sample = None if weights is None else weights[classes]
    of_target = 1.0 if weights is None else float(weights[label])
    if len(model.coef_) > 1:
        return glm.reconstruct_softmax(
            model.coef_,
            model.intercept_,
            known,
            classes,
            penalty=penalty,
            weights=sample,
            target_weight=of_target,
        )
    penalised = model.solver == "liblinear"
    return glm.reconstruct_glm(
        np.ravel(model.coef_),
        float(model.intercept_[0]),
        known,
        classes.astype(np.float64),
        link="logit",
        penalty=penalty,
        intercept_penalty=penalty / model.intercept_scaling**2 if penalised else 0.0,
        weights=sample,
        target_weight=of_target,
    )


def _class_weights(model: Any, classes: np.ndarray, label: int) -> np.ndarray:
    """Weight of each class, the target being of class `label`."""
    count = len(model.classes_)
    if model.class_weight == "balanced":
        sizes = np.bincount(np.append(classes, label), minlength=count)
        return (len(classes) + 1) / (count * sizes)
    return np.array([model.class_weight.get(c, 1.0) for c in model.classes_])


def _named(model: Any, guess: GlmReconstruction) -> GlmReconstruction:
    """With the class as the estimator calls it."""
    return dataclasses.replace(guess, y=model.classes_[int(guess.y)])


def _no_intercept(name: str) -> ReconstructionImpossibleError:
    return ReconstructionImpossibleError(
        f"{name} was fitted without intercept, so the target's residual is unknown: x"
        " is determined up to a factor only. (Least squares and ridge: Theorem 8.)"
    )
