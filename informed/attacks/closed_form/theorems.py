"""Compute the missing training point of a generalised linear model from its optimum.

THREAT: knows all training points but one, and the fitted parameters, which minimise the
(penalised) negative log-likelihood to high precision. Needs no shadow models and no
prior, whatever the optimiser was. Recovers the point and its label by
`objectives.solve`; without intercept (Theorem 8) two candidates, from the label.
`affine` and `linear` call it, and users with parameters of models from elsewhere.

Objective: sum_i [b(s_i) - y_i s_i] + (penalty / 2) |theta|^2 + (intercept_penalty / 2)
t^2, where s_i = <x_i, theta> + t for coefficients theta and intercept t, and b' is the
mean function. All in float64.

Source: Balle et al. 2022, Theorems 1 and 8. In the label's formula the penalty term is
added to the sum of residuals, not multiplied with it as printed in Theorem 1; and the
penalty here is half that of lambda |theta|^2.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from informed.attacks.closed_form import objectives
from informed.attacks.closed_form.objectives import EPS, Objective, Quotient
from informed.attacks.impossible import ReconstructionImpossibleError
from shadow import checks

LINKS = {
    "identity": objectives.SQUARED,
    "logit": objectives.LOGISTIC,
    "log": objectives.POISSON,
}
Features = Float[np.ndarray, "known columns"]
Vector = Float[np.ndarray, " features"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class GlmReconstruction:
    """A reconstructed training point, and an estimate of its error."""

    x: Float[np.ndarray, " features"]
    # A class (0 .. classes - 1, or as the estimator names it), a count, or a number.
    y: Any
    # The target's |mean - y| (its norm over classes); the smaller, the worse.
    residual: float
    # Lower bound on the objective's gradient at the released parameters, from what no
    # target could explain: a label between the classes, or a residual gradient that is
    # no product of features and residual. Never below rounding. None if any gradient
    # could be a target's, as with real labels: then it is unknown how accurately the
    # model was solved, and whether the fixed set is the right one.
    gradient_norm: float | None = None
    implied_error: float | None = None  # the relative error of x that it implies


def reconstruct_glm(
    theta: Vector,
    intercept: float,
    known: Features,
    labels: Float[np.ndarray, " labels"],
    *,
    link: str,
    penalty: float = 0.0,
    intercept_penalty: float = 0.0,
) -> GlmReconstruction:
    """Return the target of one linear predictor with an intercept, by Theorem 1.

    Args:
      theta: (features,), the released coefficients.
      intercept: the released intercept.
      known: (known, features), the features of the fixed set.
      labels: (known,), the fixed set's labels: real (identity), 0 or 1 (logit), counts
        (log).
      link: "identity" (linear, ridge), "logit" (logistic) or "log" (Poisson).
      penalty, intercept_penalty: the two factors in the objective (module docstring),
        in units of the loss of one point.
    Raises:
      ReconstructionImpossibleError: the target's residual is lost in rounding, as in a
        model that interpolates its data.
      ValueError: shapes that don't belong together, or an unknown link.
    """
    loss = LINKS[checks.choice("link", link, LINKS)]
    theta, known, labels = _as_float64(theta, known, labels)
    check_shapes(theta[None], known, labels)
    objective = Objective(
        loss=loss,
        labels=labels[:, None],
        penalty=penalty,
        intercept_penalty=intercept_penalty,
        weights=np.ones(len(labels)),
    )
    at_optimum = np.array([intercept], np.float64).reshape(1)
    quotient = objectives.solve(objective, known, theta[None], at_optimum)
    return judge(objective, quotient, y=float(quotient.label[0]))


def reconstruct_softmax(
    theta: Float[np.ndarray, "classes features"],
    intercepts: Float[np.ndarray, " classes"],
    known: Features,
    labels: Int[np.ndarray, " labels"],
    *,
    penalty: float = 0.0,
    penalise_intercepts: bool = False,
) -> GlmReconstruction:
    """Return the target of multinomial logistic regression, by Theorem 1.

    The target's share of the gradient is the outer product of its residuals over the
    classes and (1, x); x is its least-squares solution. Also recovers the features
    before any softmax head on fixed features.

    Args: as `reconstruct_glm`; theta has a row per class, labels are 0 .. classes - 1;
      penalise_intercepts: whether the penalty is on intercepts as well.
    Raises: as `reconstruct_glm`.
    """
    theta, intercepts, known = _as_float64(theta, intercepts, known)
    check_shapes(theta, known, labels)
    objective = Objective(
        loss=objectives.SOFTMAX,
        labels=np.eye(len(theta))[labels],
        penalty=penalty,
        intercept_penalty=penalise_intercepts * penalty,
        weights=np.ones(len(labels)),
    )
    quotient = objectives.solve(objective, known, theta, intercepts)
    return judge(objective, quotient, y=float(np.argmax(quotient.label)))


def judge(objective: Objective, quotient: Quotient, y: Any) -> GlmReconstruction:
    """Return the closed form's target and its error; round a Poisson label `y`."""
    slope = quotient.share[:, 0]
    residual = float(np.linalg.norm(slope))
    x, loss, violation = quotient.row, objective.loss, quotient.violation
    if loss is objectives.POISSON:
        y, raw = max(float(np.round(y)), 0.0), y
        violation = abs(raw - y)
    gradient = None
    if loss is not objectives.SQUARED:
        gradient = violation * objective.target_weight
        if len(slope) > 1:
            # A target explains rank one; the remainder over |(1, x)| is gradient.
            singular = np.linalg.svd(quotient.share, compute_uv=False)
            gradient = float(singular[1] / np.hypot(1, np.linalg.norm(x)))
        gradient = max(gradient, EPS * float(np.abs(quotient.slopes).sum()))
    return GlmReconstruction(
        x=x,
        y=y,
        residual=residual / objective.target_weight,
        gradient_norm=gradient,
        implied_error=None if gradient is None else gradient / residual,
    )


def reconstruct_without_intercept(
    theta: Vector,
    known: Features,
    labels: Float[np.ndarray, " labels"],
    *,
    target_label: float,
    penalty: float = 0.0,
) -> tuple[GlmReconstruction, GlmReconstruction]:
    """Apply Theorem 8: least squares or ridge without intercept, the label known.

    Both candidates refit to the identical theta: only a prior (norm, range of pixels)
    can tell which one was trained on.

    Returns: the two candidates, the one with the smaller norm first.
    Raises:
      ReconstructionImpossibleError: the known points explain theta without a target, or
        no target with this label can.
      ValueError: shapes that don't belong together.
    """
    theta, known, labels = _as_float64(theta, known, labels)
    check_shapes(theta[None], known, labels)
    errors = known @ theta - labels
    # The target has r x = -share and x = a share, so its residual r is -1 / a.
    share = known.T @ errors + penalty * theta
    size = float(np.linalg.norm(share))
    rounding = EPS * float(np.linalg.norm(np.abs(known).T @ np.abs(errors)))
    if not size > 1e3 * max(rounding, EPS):
        raise ReconstructionImpossibleError(
            f"The target's residual {size:.1g} is lost in rounding ({rounding:.1g} over"
            f" {len(known)} known points): the known points explain the parameters"
            " without it. A model that interpolates its data reveals nothing this way."
        )
    s, y = float(share @ theta), float(target_label)
    discriminant = y * y - 4 * s
    if discriminant < -1e-6 * max(y * y, abs(4 * s)):
        raise ReconstructionImpossibleError(
            f"No target with label {y:g} explains theta: negative discriminant."
            " Is the label, the penalty or the fixed set another one?"
        )
    # Roots of s a^2 - y a + 1 = 0 without cancellation.
    q = (y + math.copysign(math.sqrt(max(discriminant, 0.0)), y)) / 2
    if q == 0:
        raise ReconstructionImpossibleError(
            "The target's label and its prediction are both zero; nothing fixes x."
        )
    first, second = sorted([1 / q, q / s if s else 1 / q], key=abs)
    return (
        GlmReconstruction(x=first * share, y=y, residual=1 / abs(first)),
        GlmReconstruction(x=second * share, y=y, residual=1 / abs(second)),
    )


def _as_float64(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(array, np.float64) for array in arrays)


def check_shapes(theta: np.ndarray, known: np.ndarray, labels: np.ndarray) -> None:
    """Refuse parameters, features and labels of inconsistent shapes."""
    if known.ndim != 2 or known.shape[1] != theta.shape[-1]:
        raise ValueError(
            f"Expected a fixed set of {theta.shape[-1]} features, as many as the model"
            f" has, got an array of shape {known.shape}."
        )
    if labels.shape != known.shape[:1]:
        raise ValueError(
            f"Expected {len(known)} labels, one a known point, got {labels.shape}."
        )
