"""Regression on a cloud of runs: slopes of a function, and the noise around them.

- The regression starts from known slopes. Generalised cross-validation decides, for
  every output on its own, how far the cloud corrects them. So clouds may have fewer
  points than there are unknowns.
- Its residuals are noise with few strong directions (`noise.Correlated`): a kink moves
  many outputs together, and the step goes by the outputs across these directions.

Source: ours. Regression with slopes shrunk towards earlier ones is what an ensemble
Kalman inversion does with an ensemble of its own (Iglesias, Law and Stuart, 2013).
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from informed.attacks.inversion import noise as noises

# Ridges among which cross-validation chooses, relative to the mean square of the moves.
_RIDGES = 10.0 ** np.arange(-8, 5)
# Least degrees of freedom as a share of the points; with fewer, misfits say nothing.
_LEAST_FREE = 0.3
# Share of the median misfit that is added to every output's, so that none is trusted
# without bound.
_LEAST_SHARE = 1e-3
# Multiples of the step's standard error at which likely points are drawn.
_SCALES = np.array([1.0, 2.0, 4.0])


class Local(NamedTuple):
    """The slopes at a point, as `known` + `features` @ slopes that are to be found.

    Attributes:
      features: (unknowns, features), how each unknown moves the features that the rest
        of the function depends on.
      known: (unknowns, outputs), the part of the slopes that is known.
    """

    features: Float[np.ndarray, "unknowns features"]
    known: Float[np.ndarray, "unknowns outputs"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A linear fit of a function around the centre of a cloud.

    Attributes:
      slopes: (features, outputs), change of each output per unit of each feature.
      intercept: (outputs,), the averaged function at the centre less the run there.
      misfit: (outputs,), mean square of the residuals of each output.
      left: (points, outputs), the residuals.
    """

    slopes: Float[np.ndarray, "features outputs"]
    intercept: Float[np.ndarray, " outputs"]
    misfit: Float[np.ndarray, " outputs"]
    left: Float[np.ndarray, "points outputs"]

    @functools.cached_property
    def noise(self) -> noises.Correlated:
        """The noise of the function on the scale of the cloud."""
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
      moves: displacements of the points from the centre.
      changes: differences of the function from its value at the centre.
      slopes: slopes of earlier clouds; None: zero.
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
    # Generalised cross-validation, output by output, over the ridges that leave enough
    # degrees of freedom; the mean has taken one.
    free = kept.sum(axis=1) - 1
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
    """The damped Gauss-Newton step from the centre.

    Args:
      weighted: slopes in units of the noise of outputs.
      residual: averaged function at the centre less the aim, in the same units.
      radius: radius of the cloud; steps of several radii are held back.
    """
    return -np.linalg.solve(_normal_matrix(weighted, radius), weighted @ residual)


def draws(
    weighted: Float[np.ndarray, "unknowns outputs"],
    radius: float,
    count: int,
    rng: np.random.Generator,
) -> Float[np.ndarray, "count unknowns"]:
    """Errors that the step may have, at one to four times its standard error."""
    spectrum, rotation = np.linalg.eigh(_normal_matrix(weighted, radius))
    normal = rng.standard_normal((count, len(spectrum))) / np.sqrt(spectrum)
    return rng.choice(_SCALES, (count, 1)) * (normal @ rotation.T)


def _normal_matrix(weighted: np.ndarray, radius: float) -> np.ndarray:
    gram = weighted @ weighted.T
    gram[np.diag_indices_from(gram)] += 1 / (3 * radius) ** 2
    return gram
