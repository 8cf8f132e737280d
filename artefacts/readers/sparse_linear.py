"""Lasso and elastic net: the conditions of Karush, Kuhn and Tucker, feature by feature.

    (1/n) sum_i r_i x_ij + alpha (1 - rho) theta_j + alpha rho sign(theta_j) = v_j

The intercept makes the residuals r_i add up to zero exactly, so the target's is known.
Where theta_j is not zero the condition gives x_j; where it is zero, an interval, since
the sign may be anything in [-1, 1].

v_j is what coordinate descent left. One step along feature j alone would win
v_j^2 / (2 L_j) of the objective, L_j its curvature, and nobody can win more than the
duality gap, which is stored: |v_j| <= sqrt(2 L_j gap), or 2 gap / |theta_j| where the
step would end at zero. Without `dual_gap_` the values are estimates.
"""

from typing import Any

import numpy as np

from artefacts import refining, refits
from artefacts.findings import Finding, Leaf, ReconstructionImpossibleError, spread
from artefacts.registry import register

# In spreads: the rounding that is added to every interval.
_ROUNDING = 1e-9
# Of the largest coefficient: a duality gap below it may be rounding, and tells nothing
# of how the solver stopped.
_GAP = 1e-7


def read(leaf: Leaf) -> list[Finding]:
    """Values of features with a coefficient, intervals of the others.

    Raises: ReconstructionImpossibleError: another objective, or the target's residual
      is zero.
    """
    model = leaf.estimator
    name = leaf.path or type(model).__name__
    if leaf.labels is None or leaf.labels.ndim != 1:
        raise ReconstructionImpossibleError(f"{name}: needs y_known, one output a row.")
    if model.positive or not model.fit_intercept or leaf.weights is not None:
        raise ReconstructionImpossibleError(
            f"{name}: positive=True, fit_intercept=False and sample weights are not"
            " handled."
        )
    known = np.asarray(leaf.known, np.float64)
    theta = np.asarray(model.coef_, np.float64)
    alpha = float(getattr(model, "alpha_", getattr(model, "alpha", 0.0)))
    ratio = getattr(model, "l1_ratio_", getattr(model, "l1_ratio", 1.0))
    ratio = 1.0 if "Lasso" in type(model).__name__ else float(ratio)
    n = leaf.count
    errors = known @ theta + float(model.intercept_) - leaf.labels
    r = -float(errors.sum())
    if not abs(r) > 1e-10 * np.abs(errors).sum():
        raise ReconstructionImpossibleError(
            f"{name}: the target's residual {r:.1g} is lost in rounding."
        )
    share = known.T @ errors + n * alpha * (1 - ratio) * theta
    active = theta != 0
    bound = n * alpha * ratio
    ends = np.stack(
        [
            -(share + np.where(active, bound * np.sign(theta), sign * bound)) / r
            for sign in (-1.0, 1.0)
        ]
    )
    low, high = ends.min(axis=0), ends.max(axis=0)
    estimate = np.where(active, (low + high) / 2, np.nan)
    label = None
    gap = getattr(model, "dual_gap_", None)
    tells = "the value where the coefficient isn't zero, an interval where it is"
    single = np.asarray(model.coef_).dtype == np.float32
    if gap is None or single:
        return [
            Finding(
                field="coef_, intercept_",
                tells=f"{tells}, as closely as the solver came"
                + (" in single precision" if single else ""),
                estimate=estimate,
            )
        ]
    scale = spread(known)
    slack = _slack(known, theta, low, high, r, n, max(float(gap), 0.0), alpha, ratio)
    slack = slack + _ROUNDING * scale
    finer = None if "CV" in type(model).__name__ else _refined(leaf, low, high, scale)
    if finer is not None:
        x, y, error = finer
        low[active], high[active] = x[active], x[active]
        slack = np.where(active, np.minimum(slack, error), slack)
        estimate = np.where(active, x, estimate)
        label = y
    return [
        Finding(
            field="coef_, intercept_, dual_gap_",
            tells=tells,
            lower=low - slack,
            upper=high + slack,
            estimate=estimate,
            label=label,
        )
    ]


def _closed(
    model: Any, known: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """Values of active features, and y, of any fit of this kind; None: no residual."""
    theta = np.asarray(model.coef_, np.float64)
    ratio = 1.0 if type(model).__name__ == "Lasso" else model.l1_ratio
    n, alpha = len(known) + 1, model.alpha
    errors = known @ theta + model.intercept_ - labels
    r = -errors.sum()
    if r == 0:
        return None
    share = known.T @ errors + n * alpha * (1 - ratio) * theta
    x = np.where(theta != 0, -(share + n * alpha * ratio * np.sign(theta)) / r, 0.0)
    return x, float(x @ theta + model.intercept_ - r)


def _refined(
    leaf: Leaf, low: np.ndarray, high: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """Active features to rounding, by refits, whatever the inactive ones are.

    Twice: with the inactive ones at two places of their intervals, inside what is known
    of their columns. What differs counts as error.
    """
    known = np.asarray(leaf.known, np.float64)
    assert leaf.labels is not None
    active = np.asarray(leaf.estimator.coef_) != 0
    scales = np.append(scale, float(np.std(leaf.labels)) or 1.0)
    found = []
    inside = (
        np.clip(known.min(axis=0), low, high),
        np.clip(known.max(axis=0), low, high),
    )
    for part in (0.25, 0.75):
        idle = (1 - part) * inside[0] + part * inside[1]

        def invert(model: Any) -> np.ndarray:
            told = _closed(model, known, np.asarray(leaf.labels))
            return np.full(len(scales), np.nan) if told is None else np.append(*told)

        def train(z: np.ndarray, idle: np.ndarray = idle) -> Any:
            row = np.where(active, z[:-1], idle)
            return refits.refit(leaf, row, z[-1])

        z, error = refining.refine(invert, train, leaf.estimator, scales)
        if not np.max(error / scales) <= 1e-6 or not _same(leaf.estimator, train(z)):
            return None
        found.append((z, error))
    (z, error), (other, error_2) = found
    wide = np.maximum(error, error_2) + 10 * np.abs(z - other)
    if not np.max((wide / scales)[np.append(active, True)]) <= 1e-6:
        return None
    return z[:-1], float(z[-1]), wide[:-1]


def _same(stored: Any, again: Any) -> bool:
    """Whether a refit is the released model: coefficients, and how it stopped.

    Several rows may lead a loose solver to coefficients of which the closed form makes
    the same; the gap at which it stopped tells them apart, unless it is rounding.
    """
    theta, other = np.asarray(stored.coef_), np.asarray(again.coef_)
    size = float(np.abs(theta).max(initial=0.0))
    if not np.array_equal(theta != 0, other != 0):
        return False
    if np.max(np.abs(theta - other), initial=0.0) > 1e-6 * size:
        return False
    gap, new = float(stored.dual_gap_), float(again.dual_gap_)
    told = gap > _GAP * size
    return not told or (stored.n_iter_ == again.n_iter_ and abs(gap - new) < 1e-3 * gap)


def _slack(
    known: np.ndarray,
    theta: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    r: float,
    n: int,
    gap: float,
    alpha: float,
    ratio: float,
) -> np.ndarray:
    """How much further than [low, high] the duality gap allows x to be; inf: anywhere.

    The curvature depends on x: L <= L_known + (x - m)^2 / n, hence the quotient.
    """
    m = known.mean(axis=0)
    curvature = ((known - m) ** 2).sum(axis=0) / n + alpha * (1 - ratio)
    a = np.sqrt(2 * curvature * gap)
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = np.where(theta != 0, 2 * gap / np.abs(theta), 0.0)
    a = np.maximum(a, np.where(np.isfinite(crossing), crossing, 0.0))
    b = np.sqrt(2 * gap / n)
    away = np.maximum(np.abs(low - m), np.abs(high - m))
    left = abs(r) - n * b
    return np.where(left > 0, n * (a + b * away) / max(left, 1e-300), np.inf)


register(("Lasso", "ElasticNet", "LassoCV", "ElasticNetCV"), read)
