"""Losses of linear predictors: the slope at a score, and the label behind a slope.

At the optimum the slopes r_i = dloss/ds at the scores s_i, times (1, x_i), and the
gradient of the penalty add up to zero. The known rows leave the target's slope over.
The target's label follows from that slope and the score at the reconstructed x.

A real label always has a solution. A class has to come out whole: `violation` is its
distance from the nearest class, in units of the label.
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
    """

    slope: Callable[[Scores, Scores], Scores]
    target: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, float]]
    classes: bool = False


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


def _poisson_target(r: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, float]:
    y = np.exp(s) - r
    return y, float(max(0.0, -y.min()))


POISSON = Loss(slope=lambda s, y: np.exp(s) - y, target=_poisson_target)


def one_hot(labels: np.ndarray, classes: Any, *, signs: bool) -> Scores:
    """Classes as targets: 0/1 or -1/1, one column where there are two classes."""
    hits = (np.asarray(labels)[:, None] == np.asarray(classes)).astype(np.float64)
    if len(classes) == 2:
        hits = hits[:, 1:]
    return 2 * hits - 1 if signs else hits
