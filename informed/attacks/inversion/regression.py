"""What a cloud of runs says of a function: slopes, and what they leave unexplained.

- The regression starts from known slopes and says, for every output on its own, by
  generalised cross-validation, how far it goes from there. So clouds may have fewer
  points than there are unknowns.
- What it leaves unexplained is noise with few strong directions (`noise.Correlated`):
  a kink moves many outputs together, and the step is taken by what is across these.

Source: ours. Regression with slopes shrunk towards earlier ones is what an ensemble
Kalman inversion does with an ensemble of its own (Iglesias, Law and Stuart, 2013).
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from informed.attacks.inversion import noise as noises

_RIDGES = 10.0 ** np.arange(-8, 5)  # of the regression, in units of its mean square
_LEAST_FREE = 0.3  # of the points; with fewer degrees of freedom misfits say nothing
_LEAST_SHARE = 1e-3  # of the median misfit, added to every output's
_SCALES = np.array([1.0, 2.0, 4.0])


class Local(NamedTuple):
    """What is known of the slopes at a point: `known` + `features` @ unknown ones.

    Attributes:
      features: (unknowns, features), moves of the features that the rest of the
        function depends on.
      known: (unknowns, outputs).
    """

    features: Float[np.ndarray, "unknowns features"]
    known: Float[np.ndarray, "unknowns outputs"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A function around the centre of a cloud.

    Attributes:
      slopes: (features, outputs).
      intercept: (outputs,), the averaged function at the centre less the run there.
      misfit: (outputs,), mean square of what is left;
      left: (points, outputs), itself.
    """

    slopes: Float[np.ndarray, "features outputs"]
    intercept: Float[np.ndarray, " outputs"]
    misfit: Float[np.ndarray, " outputs"]
    left: Float[np.ndarray, "points outputs"]

    @functools.cached_property
    def noise(self) -> noises.Correlated:
        """Of the function, on the scale of the cloud."""
        share = _LEAST_SHARE * np.median(self.misfit)
        deviations = np.sqrt(np.maximum(self.misfit + share, np.finfo(float).tiny))
        return noises.correlated(self.left, deviations)


def regress(
    moves: Float[np.ndarray, "points features"],
    changes: Float[np.ndarray, "points outputs"],
    slopes: Float[np.ndarray, "features outputs"] | None = None,
) -> Fit:
    """Regress changes of a function on moves, with slopes shrunk towards known ones.

    Args:
      moves: of the points from the centre.
      changes: of the function from its value at the centre.
      slopes: those of earlier clouds; None: zero.
    """
    if slopes is None:
        slopes = np.zeros((moves.shape[1], changes.shape[1]))
    left = changes - moves @ slopes
    centre, average = moves.mean(axis=0), left.mean(axis=0)
    apart, left = moves - centre, left - average
    spectrum, rotation = np.linalg.eigh(apart @ apart.T)
    spectrum, turned = np.maximum(spectrum, 0), rotation.T @ left
    ridges = _RIDGES * spectrum.mean()
    kept = ridges[:, None] / (spectrum[None] + ridges[:, None])  # (ridges, points)
    free = kept.sum(axis=1) - 1  # the mean has taken one
    enough = free >= min(_LEAST_FREE * len(moves), free.max())
    ridges, kept, free = ridges[enough], kept[enough], free[enough]
    squares = kept**2 @ turned**2
    best = np.argmin(squares / free[:, None] ** 2, axis=0)
    misfit = np.take_along_axis(squares, best[None], axis=0)[0] / free[best]
    more = apart.T @ (rotation @ (turned / (spectrum[:, None] + ridges[best])))
    return Fit(
        slopes=slopes + more,
        intercept=average - centre @ more,
        misfit=misfit,
        left=left - apart @ more,
    )


def step(
    weighted: Float[np.ndarray, "unknowns outputs"],
    residual: Float[np.ndarray, " outputs"],
    radius: float,
) -> Float[np.ndarray, " unknowns"]:
    """The Gauss-Newton step.

    Args:
      weighted: slopes, in units of their noise.
      residual: of the averaged function at the centre, in the same.
      radius: of the cloud; steps of several radii are held back.
    """
    return -np.linalg.solve(_normal_matrix(weighted, radius), weighted @ residual)


def draws(
    weighted: Float[np.ndarray, "unknowns outputs"],
    radius: float,
    count: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, "count unknowns"]:
    """Errors that the step may have, at one to four times what the misfit says."""
    spectrum, rotation = np.linalg.eigh(_normal_matrix(weighted, radius))
    normal = rng.standard_normal((count, len(spectrum))) / np.sqrt(spectrum)
    return rng.choice(_SCALES, (count, 1)) * (normal @ rotation.T)


def _normal_matrix(weighted: np.ndarray, radius: float) -> np.ndarray:
    gram = weighted @ weighted.T
    gram[np.diag_indices_from(gram)] += 1 / (3 * radius) ** 2
    return gram
