"""Losses of linear predictors: the slope at a score, and the label that a slope tells.

At the optimum the slopes r_i = dloss/ds at the scores s_i, times (1, x_i), and the
penalty add up to zero; what the known rows leave is the target's slope. From it and
the score at the reconstructed x follows the label.

Real outputs follow for certain. Classes have to come out whole: `violation` says how
far from it, in units of the label, and is the only redundancy that one optimum has.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import special

Scores = Float[np.ndarray, "points outputs"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loss:
    """A loss of scores and targets.

    Attributes:
      slope: (scores, targets), both (points, outputs) -> (points, outputs), the
        derivative of the loss with respect to the scores.
      target: (slope, score), both (outputs,) -> the (outputs,) targets that have this
        slope, and the violation >= 0 in units of the label.
      classes: whether targets are classes, 0 and 1 or -1 and 1.
      flat: whether whole regions of scores have slope zero, as behind a margin.
    """

    slope: Callable[[Scores, Scores], Scores]
    target: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, float]]
    classes: bool = False
    flat: bool = False


def _squared_target(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, float]:
    return s - r, 0.0


def _signs_target(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, float]:
    y = np.where(s - r > 0, 1.0, -1.0)
    return y, float(np.max(np.abs(s - r - y)))


def _logistic_target(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, float]:
    raw = special.expit(s) - r
    y = np.clip(np.round(raw), 0, 1)
    return y, float(np.max(np.abs(raw - y)))


def _softmax_target(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, float]:
    raw = special.softmax(s) - r
    y = np.zeros_like(raw)
    y[np.argmax(raw)] = 1.0
    return y, float(np.max(np.abs(raw - y)))


def _hinge_slope(s: Scores, y: Scores) -> Scores:
    return -2 * y * np.maximum(0.0, 1 - y * s)


def _hinge_target(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, float]:
    """The class whose slopes at these scores come nearest to r."""
    count = len(r)
    tried = [np.ones(1), -np.ones(1)] if count == 1 else list(2 * np.eye(count) - 1)
    off = [float(np.max(np.abs(_hinge_slope(s[None], y[None])[0] - r))) for y in tried]
    best = int(np.argmin(off))
    return tried[best], off[best]


SQUARED = Loss(slope=lambda s, y: s - y, target=_squared_target)
SIGNS = Loss(slope=lambda s, y: s - y, target=_signs_target, classes=True)
LOGISTIC = Loss(
    slope=lambda s, y: special.expit(s) - y, target=_logistic_target, classes=True
)
SOFTMAX = Loss(
    slope=lambda s, y: special.softmax(s, axis=1) - y,
    target=_softmax_target,
    classes=True,
)
SQUARED_HINGE = Loss(slope=_hinge_slope, target=_hinge_target, classes=True, flat=True)


def tweedie(power: float, link: str) -> Loss:
    """Half the deviance of a Tweedie distribution; 1: Poisson, 2: gamma.

    slope = (mean - y) mean^-power dmean/ds.
    """
    if link == "identity":

        def slope(s: Scores, y: Scores) -> Scores:
            return (s - y) * np.abs(s) ** -power if power else s - y

        def target(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, float]:
            return s - r * (np.abs(s) ** power if power else 1.0), 0.0

    else:

        def slope(s: Scores, y: Scores) -> Scores:
            return np.exp((2 - power) * s) - y * np.exp((1 - power) * s)

        def target(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, float]:
            y = np.exp(s) - r * np.exp((power - 1) * s)
            return y, float(max(0.0, -y.min())) if power >= 1 else 0.0

    return Loss(slope=slope, target=target)


def squared_tube(epsilon: float) -> Loss:
    """The squared epsilon-insensitive loss."""

    def slope(s: Scores, y: Scores) -> Scores:
        return 2 * np.sign(s - y) * np.maximum(np.abs(s - y) - epsilon, 0.0)

    def target(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, float]:
        return s - np.sign(r) * (np.abs(r) / 2 + epsilon), 0.0

    return Loss(slope=slope, target=target, flat=epsilon > 0)


def huber(epsilon: float, sigma: float) -> Loss:
    """scikit-learn's Huber loss at its fitted scale; outliers: slope +-2 epsilon."""

    def slope(s: Scores, y: Scores) -> Scores:
        z = (s - y) / sigma
        return 2 * np.clip(z, -epsilon, epsilon)

    def target(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, float]:
        y = s - sigma * r / 2
        outlier = np.abs(r) >= 2 * epsilon * (1 - 1e-6)
        return np.where(outlier, np.nan, y), float(
            max(0.0, np.max(np.abs(r)) - 2 * epsilon * (1 + 1e-6))
        )

    return Loss(slope=slope, target=target)


def one_hot(labels: np.ndarray, classes: Any, *, signs: bool) -> Scores:
    """Classes as targets: 0/1 or -1/1, one column where there are two classes."""
    hits = (np.asarray(labels)[:, None] == np.asarray(classes)).astype(np.float64)
    if len(classes) == 2:
        hits = hits[:, 1:]
    return 2 * hits - 1 if signs else hits
