"""Inputs of a second regression per label, which corrects the first one's answer.

`kernel` makes them by a `Surrogate` and fits that regression. The weights theta depend
nonlinearly on the image, so pixels interact, and a regression from theta to images
blurs. A surrogate of training for one label, a regression from images to theta,
predicts theta at the first answer. A further regression predicts the answer's error
from the residual of theta and the answer itself.

All of it is learned from the same shadow models. Each model is left out of its first
answer and of its surrogate, so the residual of its theta is about that of a release.

Source: ours. It is one step of an inversion of training, learned instead of derived.
"""

import dataclasses
import math

import numpy as np
from jaxtyping import Float, Float32

from reconn import ridge
from reconn.ridge import Regression

LEAST = 20  # models of a label, below which there is no second look
# Scale and ridge of the surrogate, the regression that the second look starts from.
_SCALE, _RIDGE = 16.0, 1e-3
_ANSWER = 30.0  # weight of a distance of answers against one of residuals of theta
_MEASURED = 1000  # models on which distances are measured, at most

Features = Float32[np.ndarray, "models features"]
Flat = Float[np.ndarray, "models pixels"]
Inputs = Float32[np.ndarray, "models inputs"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Surrogate:
    """A regression from images of one label to theta, and its residuals.

    `of_theta` and `of_answer` are the factors of residuals and answers in distances.
    """

    theta: Regression
    of_theta: float
    of_answer: float

    @classmethod
    def fit(
        cls, features: Features, flat: Flat, answers: Flat
    ) -> tuple["Surrogate", Inputs]:
        """Fit shadow models of one label; also return the inputs of the correction.

        Answers, in [0, 1], are those of regressions that were fitted without the model.
        """
        answers = answers.astype(np.float32)
        theta, expected = Regression.fit_left_out(
            flat.astype(np.float32), features, scale=_SCALE, ridge=_RIDGE, at=answers
        )
        surrogate = cls(
            theta=theta,
            of_theta=1 / _typical((features - expected).astype(np.float32)),
            of_answer=math.sqrt(_ANSWER) / _typical(answers),
        )
        return surrogate, surrogate(features, answers, expected)

    def __call__(
        self, features: Features, answers: Flat, expected: np.ndarray | None = None
    ) -> Inputs:
        """Return the inputs of the correction: residuals of theta, and the answers."""
        answers = answers.astype(np.float32)
        expected = self.theta(answers) if expected is None else expected
        residuals = (features - expected).astype(np.float32)
        parts = [self.of_theta * residuals, self.of_answer * answers]
        return np.concatenate(parts, axis=1).astype(np.float32)


def _typical(points: np.ndarray) -> float:
    """Return the square root of the median squared distance."""
    centred = points[:_MEASURED] - points[:_MEASURED].mean(axis=0)
    between = ridge.squared_distances(centred, centred)
    return float(np.sqrt(ridge.median_of(between)))
