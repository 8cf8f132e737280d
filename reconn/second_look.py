"""What theta says beyond a first reconstruction.

A regression from theta to images blurs where theta bends with the image: what one part
of the image does to a weight hides what another does. The first answer tells most of
that. So a surrogate of A for one label, a regression from images to theta, says what
theta would be at the first answer; what theta has beyond that, together with the answer
itself, is regressed on the answer's error.

All of it is learned from the same shadow models. So that they are seen as a release
will be, each is left out of its own first answer and of its own surrogate.

Source: ours. It is what one step of an inversion does, learned instead of derived.
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
_ANSWER = 30.0  # what a distance of answers weighs beside one of what is left of theta
_MEASURED = 1000  # models on which distances are measured, at most

Features = Float32[np.ndarray, "models features"]
Flat = Float[np.ndarray, "models pixels"]
Inputs = Float32[np.ndarray, "models inputs"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Surrogate:
    """A regression from images of one label to theta, and its residuals.

    Attributes:
      theta: images -> features of theta.
      of_theta, of_answer: factors, by which residuals of theta and the answer count in
        distances.
    """

    theta: Regression
    of_theta: float
    of_answer: float

    @classmethod
    def fit(
        cls, features: Features, flat: Flat, answers: Flat
    ) -> tuple["Surrogate", Inputs]:
        """Fit shadow models of one label.

        Args:
          features: features of the models' theta (models, features).
          flat: their targets;
          answers: images (models, pixels) that were read out of theta by a regression
            that had not seen the model, in [0, 1].
        Returns: the surrogate; what the correction is fitted on, one row a model.
        """
        answers = answers.astype(np.float32)
        theta, expected = Regression.fit_left_out(
            flat.astype(np.float32), features, scale=_SCALE, ridge=_RIDGE, at=answers
        )
        residuals = (features - expected).astype(np.float32)
        surrogate = cls(
            theta=theta,
            of_theta=1 / _typical(residuals),
            of_answer=math.sqrt(_ANSWER) / _typical(answers),
        )
        return surrogate, surrogate(features, answers, expected)

    def __call__(
        self, features: Features, answers: Flat, expected: np.ndarray | None = None
    ) -> Inputs:
        """Return what the correction takes: what is left of theta, and the answers."""
        answers = answers.astype(np.float32)
        expected = self.theta(answers) if expected is None else expected
        residuals = (features - expected).astype(np.float32)
        parts = [self.of_theta * residuals, self.of_answer * answers]
        return np.concatenate(parts, axis=1).astype(np.float32)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SecondLook:
    """A surrogate of A, and the error it explains; see the module.

    Attributes:
      surrogate: the function that stands for A.
      error: a function of what is left of theta and of the answer, which gives target
        less answer.
    """

    surrogate: Surrogate
    error: Regression

    def __call__(self, features: Features, answers: Flat) -> Flat:
        """Return better answers, not cut to [0, 1]."""
        return answers + self.error(self.surrogate(features, answers))


def _typical(points: np.ndarray) -> float:
    """Return the square root of the median squared distance."""
    centred = points[:_MEASURED] - points[:_MEASURED].mean(axis=0)
    between = ridge.squared_distances(centred, centred)
    return float(np.sqrt(ridge.median_of(between)))
