"""Theorems 1 and 8 on a fitted estimator of scikit-learn.

`objectives` says what the estimator minimised, and `theorems` inverts that, with the
error that the answer implies.

THREAT: knows all training rows but one with their labels, and sees the estimator.
"""

import dataclasses
from typing import Any

import numpy as np

from informed.attacks.closed_form import theorems
from informed.attacks.closed_form.objectives import Objective, objectives
from informed.attacks.closed_form.theorems import GlmReconstruction
from informed.attacks.impossible import ReconstructionImpossibleError

# Class name -> name of the link in `closed_form`; of more than two classes: softmax.
_LINKS = {
    "LinearRegression": "identity",
    "Ridge": "identity",
    "LogisticRegression": "logit",
    "PoissonRegressor": "log",
}
SUPPORTED = tuple(_LINKS)


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
      labels: (known,), the fixed set's labels, as they were given to `fit`.
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
            " others give theta, link and penalty to informed.attacks.closed_form."
        )
    if not hasattr(model, "coef_"):
        raise ValueError(f"Expected a fitted {name}; call its fit first.")
    theta = np.atleast_2d(model.coef_)
    theorems.check_shapes(theta, known, labels)
    if _LINKS[name] == "identity" and len(theta) > 1:
        raise ReconstructionImpossibleError(
            "Expected one output; attack one row of coef_ with"
            " informed.attacks.closed_form.reconstruct_glm."
        )
    if not model.fit_intercept and _LINKS[name] != "identity":
        raise ReconstructionImpossibleError(
            f"{name} was fitted without intercept, so the target's residual is unknown:"
            " x is determined up to a factor only. (Least squares and ridge: Theorem"
            " 8.)"
        )
    minimised = objectives(model, labels)
    if not model.fit_intercept:
        if target_label is None:
            raise ReconstructionImpossibleError(
                f"{name} was fitted without intercept: only Theorem 8 applies, which"
                " needs target_label and gives two candidates."
            )
        return theorems.reconstruct_without_intercept(
            theta[0],
            known,
            labels,
            target_label=target_label,
            penalty=minimised[0].penalty,
        )
    if name != "LogisticRegression":
        return _solved(model, known, minimised[0])
    return _consistent(model, known, minimised)


def _consistent(
    model: Any, known: np.ndarray, minimised: list[Objective]
) -> GlmReconstruction:
    """The answer of a classifier, its label named as the estimator names it.

    Weights of classes depend on the target's label: each is tried, and of those that
    come out again the one whose gradient is nearest to zero is the answer.
    """
    classes = model.classes_
    if minimised[0].label is None:
        found = [_solved(model, known, minimised[0])]
    else:
        found = []
        for objective in minimised:
            try:
                guess = _solved(model, known, objective)
            except ReconstructionImpossibleError:
                continue
            if classes[int(guess.y)] == objective.label:
                found.append(guess)
    if not found:
        raise ReconstructionImpossibleError(
            "No class of the target is consistent with class_weight="
            f"{model.class_weight!r}. Is the fixed set the right one?"
        )
    best = min(found, key=lambda guess: guess.gradient_norm or 0.0)
    return dataclasses.replace(best, y=classes[int(best.y)])


def _solved(model: Any, known: np.ndarray, objective: Objective) -> GlmReconstruction:
    """Theorem 1 for one objective with an intercept."""
    theta, intercept = np.atleast_2d(model.coef_), np.ravel(model.intercept_)
    if len(theta) > 1:
        return theorems.reconstruct_softmax(
            theta,
            intercept,
            known,
            objective.targets.argmax(axis=1),
            penalty=objective.penalty,
            weights=objective.weights,
            target_weight=float(objective.target_weight),
        )
    return theorems.reconstruct_glm(
        theta[0],
        float(intercept[0]),
        known,
        objective.targets[:, 0],
        link=_LINKS[type(model).__name__],
        penalty=objective.penalty,
        intercept_penalty=objective.intercept_penalty,
        weights=objective.weights,
        target_weight=float(objective.target_weight),
    )
