"""Exact reconstruction from generalised linear models, in closed form.

THREAT: knows all training points but one, and the fitted parameters, which minimise the
(penalised) negative log-likelihood to high precision. Needs no shadow models, no prior,
and not to know how the optimum was found. Recovers the point and its label.

At the optimum the gradient of the whole objective is zero. The known points' share of
it can be computed, so the target's share is known: its features times its residual.
With an intercept, whose feature is 1, the residual itself is known too, and x is a
quotient.

Objective: sum_i [b(s_i) - y_i s_i] + (penalty / 2) |theta|^2 + (intercept_penalty / 2)
t^2, where s_i = <x_i, theta> + t and b' is the mean function. All in float64.

Source: Balle et al. 2022, Theorem 1 and Theorem 8. Differs from the printed Theorem 1:
in the label's formula the penalty term is added to the sum of residuals, not multiplied
with it; and the penalty here is half that of lambda |theta|^2.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from informed.attacks.impossible import ReconstructionImpossibleError
from shadow import checks

MEANS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "identity": lambda s: np.asarray(s),
    "logit": special.expit,
    "log": np.exp,
}
_EPS = float(np.finfo(np.float64).eps)
Features = Float[np.ndarray, "known columns"]
Vector = Float[np.ndarray, " features"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class GlmReconstruction:
    """A reconstructed training point, and how far it can be trusted.

    Attributes:
      x: (features,) float64, the reconstructed features.
      y: the label: a class (0 .. classes - 1, or as the estimator names it), a count,
        or a real number.
      residual: the target's |mean - y| (its norm over classes); the smaller, the
        worse conditioned.
      gradient_norm: how far from zero the objective's gradient must be at the released
        parameters, from what no target could explain: a label between the classes, or
        a target's share that is no product of features and residual. Never below the
        rounding of the arithmetic. None where any gradient could be a target's, as with
        real labels: then nothing tells how tightly the model was solved, or whether the
        fixed set is the right one.
      implied_error: gradient_norm / residual, the relative error of x that it implies;
        None where that is unknown.
    """

    x: np.ndarray
    y: Any
    residual: float
    gradient_norm: float | None
    implied_error: float | None


def reconstruct_glm(
    theta: Vector,
    intercept: float,
    known: Features,
    labels: Float[np.ndarray, " labels"],
    *,
    link: str,
    penalty: float = 0.0,
    intercept_penalty: float = 0.0,
    weights: Float[np.ndarray, " known"] | None = None,
    target_weight: float = 1.0,
) -> GlmReconstruction:
    """Theorem 1: one linear predictor with an intercept.

    Args:
      theta: (features,), the released coefficients.
      intercept: the released intercept.
      known: (known, features), the features of the fixed set.
      labels: (known,), the fixed set's labels: real (identity), 0 or 1 (logit), counts
        (log).
      link: "identity" (linear, ridge), "logit" (logistic) or "log" (Poisson).
      penalty, intercept_penalty: the two factors in the objective above, in units of
        the loss of one point with weight 1.
      weights: (known,), the known points' sample weights; None: all are 1.
      target_weight: the target's sample weight.
    Raises:
      ReconstructionImpossibleError: the target's residual is lost in rounding, as in a
        model that interpolates its data.
      ValueError: shapes that don't belong together, or an unknown link.
    """
    mean = MEANS[checks.choice("link", link, MEANS)]
    theta, known, labels = _as_float64(theta, known, labels)
    check_shapes(theta[None], known, labels)
    errors = mean(known @ theta + intercept) - labels
    if weights is not None:
        errors = errors * np.asarray(weights, np.float64)
    # The known points' share of the gradient; the target's is minus that.
    share = known.T @ errors + penalty * theta
    share_0 = errors.sum() + intercept_penalty * intercept
    rounding = _EPS * float(np.abs(errors).sum() + intercept_penalty * abs(intercept))
    _check_residual(abs(share_0), rounding, len(known))
    x = share / share_0
    # Theorem 1's label: the mean at x, less the target's own error.
    raw = float(mean(x @ theta + intercept) + share_0 / target_weight)
    residual = abs(share_0) / target_weight
    if link == "identity":
        return _result(x, raw, residual, None)
    y = float(np.clip(np.round(raw), 0, 1 if link == "logit" else None))
    unexplained = abs(raw - y) * target_weight
    return _result(x, y, residual, max(rounding, unexplained))


def reconstruct_softmax(
    theta: Float[np.ndarray, "classes features"],
    intercepts: Float[np.ndarray, " classes"],
    known: Features,
    labels: Int[np.ndarray, " labels"],
    *,
    penalty: float = 0.0,
    weights: Float[np.ndarray, " known"] | None = None,
    target_weight: float = 1.0,
    penalise_intercepts: bool = False,
) -> GlmReconstruction:
    """Theorem 1 for multinomial logistic regression.

    The target's share of the gradient is the outer product of its residuals over the
    classes and (1, x); x is its least-squares solution. Also recovers the features
    before any softmax head on fixed features.

    Args: as `reconstruct_glm`; theta has a row per class, labels are 0 .. classes - 1;
      penalise_intercepts: whether the penalty is on intercepts as well.
    Raises: as `reconstruct_glm`.
    """
    theta, intercepts, known = _as_float64(theta, intercepts, known)
    check_shapes(theta, known, labels)
    scores = known @ theta.T + intercepts
    errors = special.softmax(scores, axis=1) - np.eye(len(theta))[labels]
    if weights is not None:
        errors = errors * np.asarray(weights, np.float64)[:, None]
    share = errors.T @ known + penalty * theta
    share_0 = errors.sum(axis=0) + penalise_intercepts * penalty * intercepts
    norm = float(np.linalg.norm(share_0))
    rounding = _EPS * float(np.linalg.norm(np.abs(errors).sum(axis=0)))
    _check_residual(norm, rounding, len(known))
    x = share.T @ share_0 / norm**2
    whole = np.column_stack([share_0, share])
    singular = np.linalg.svd(whole, compute_uv=False)
    # A target explains rank one; what is left, over |(1, x)|, is gradient.
    unexplained = float(singular[1] / math.hypot(1, float(np.linalg.norm(x))))
    y = float(np.argmax(share_0))
    return _result(x, y, norm / target_weight, max(rounding, unexplained))


def reconstruct_without_intercept(
    theta: Vector,
    known: Features,
    labels: Float[np.ndarray, " labels"],
    *,
    target_label: float,
    penalty: float = 0.0,
) -> tuple[GlmReconstruction, GlmReconstruction]:
    """Theorem 8: least squares or ridge without intercept, the target's label known.

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
    share = known.T @ errors + penalty * theta
    size = float(np.linalg.norm(share))
    rounding = _EPS * float(np.linalg.norm(np.abs(known).T @ np.abs(errors)))
    _check_residual(size, rounding, len(known))
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
    factors = [1 / q] + ([q / s] if s else [])
    if len(factors) == 1:
        factors *= 2
    candidates = []
    for a in sorted(factors, key=abs):
        # r x = -share and x = a share, so the residual r is -1 / a.
        candidates.append(_result(a * share, y, 1 / abs(a), None))
    return candidates[0], candidates[1]


def _as_float64(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(array, np.float64) for array in arrays)


def check_shapes(theta: np.ndarray, known: np.ndarray, labels: np.ndarray) -> None:
    """Parameters, features and labels have to belong together."""
    if known.ndim != 2 or known.shape[1] != theta.shape[-1]:
        raise ValueError(
            f"Expected a fixed set of {theta.shape[-1]} features, as many as the model"
            f" has, got an array of shape {known.shape}."
        )
    if labels.shape != known.shape[:1]:
        raise ValueError(
            f"Expected {len(known)} labels, one a known point, got {labels.shape}."
        )


def _check_residual(residual: float, rounding: float, count: int) -> None:
    """Refuse a target whose residual is lost in rounding."""
    if not residual > 1e3 * max(rounding, _EPS):
        raise ReconstructionImpossibleError(
            f"The target's residual {residual:.1g} is lost in rounding"
            f" ({rounding:.1g} over {count} known points): the known points explain the"
            " parameters without it. A model that interpolates its data reveals nothing"
            " this way."
        )


def _result(
    x: np.ndarray, y: float, residual: float, gradient: float | None
) -> GlmReconstruction:
    return GlmReconstruction(
        x=x,
        y=y,
        residual=residual,
        gradient_norm=gradient,
        implied_error=None if gradient is None else gradient / residual,
    )
