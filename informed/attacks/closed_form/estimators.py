"""Theorems 1 and 8 on a fitted estimator of scikit-learn, with the error to expect.

THREAT: knows all training rows but one with their labels, and sees the estimator.
"""

from typing import Any

import numpy as np

from informed.attacks.closed_form import linear, theorems
from informed.attacks.closed_form.objectives import objectives
from informed.attacks.closed_form.row import EPS
from informed.attacks.closed_form.theorems import GlmReconstruction
from informed.attacks.impossible import ReconstructionImpossibleError

SUPPORTED = ("LinearRegression", "Ridge", "LogisticRegression", "PoissonRegressor")
_REAL_LABELS = ("LinearRegression", "Ridge")


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
    known, labels = np.asarray(known, np.float64), np.asarray(labels)
    name = type(model).__name__
    if name not in SUPPORTED:
        raise ValueError(
            f"Expected an estimator of type {', '.join(SUPPORTED)}, got {name}. For"
            " others give theta, link and penalty to informed.attacks.closed_form."
        )
    if not hasattr(model, "coef_"):
        raise ValueError(f"Expected a fitted {name}; call its fit first.")
    coef = np.atleast_2d(model.coef_)
    theorems.check_shapes(coef, known, labels)
    if name in _REAL_LABELS and len(coef) > 1:
        raise ReconstructionImpossibleError(
            "Expected one output; attack one row of coef_ with"
            " informed.attacks.closed_form.reconstruct_glm."
        )
    if not model.fit_intercept and name in _REAL_LABELS:
        minimised = objectives(model, labels)[0]
        if target_label is None:
            raise ReconstructionImpossibleError(
                f"{name} was fitted without intercept: only Theorem 8 applies, which"
                " needs target_label and gives two candidates."
            )
        return theorems.reconstruct_without_intercept(
            coef[0],
            known,
            labels,
            target_label=target_label,
            penalty=minimised.penalty,
        )
    linear.require_intercept(model)
    objective, quotient = linear.likeliest(model, known, labels)
    size = float(np.linalg.norm(quotient.slope))
    label, violation = linear.label(model, labels, quotient.targets), quotient.violation
    if name == "PoissonRegressor":
        label, violation = round(label), abs(label - round(label))
    gradient = None
    if name not in _REAL_LABELS:
        slopes, share = objective.gradients(known, *linear.parameters(model))
        # A target explains rank one; what is left, over |(1, x)|, is gradient.
        singular = np.linalg.svd(share, compute_uv=False)
        gradient = violation * objective.target_weight
        if len(share) > 1:
            gradient = float(singular[1] / np.hypot(1, np.linalg.norm(quotient.row)))
        gradient = max(gradient, EPS * float(np.abs(slopes).sum()))
    return GlmReconstruction(
        x=quotient.row,
        y=label,
        residual=size / objective.target_weight,
        gradient_norm=gradient,
        implied_error=None if gradient is None else gradient / size,
    )
