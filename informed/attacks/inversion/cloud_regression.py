"""Regression on a cloud of training runs: slopes of the weights, and noise around them.

A *cloud* is a set of random points around a guess, with the function's value at each.
Its slopes hold on the scale of the cloud, so kinks mislead them less than derivatives.
`clouds` calls it; it runs no training itself.

- The regression corrects known slopes, each output's by as much as generalised
  cross-validation allows. So a cloud may have fewer points than there are unknowns.
- Its residuals are noise with few strong directions (`weight_noise.Correlated`), since
  a kink moves many outputs together. The step discounts outputs along these.

Source: ours. Regression with slopes shrunk towards earlier ones is what an ensemble
Kalman inversion does with its ensemble (Iglesias, Law and Stuart, 2013).
"""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from informed.attacks.inversion import weight_noise

# Ridges among which cross-validation chooses, relative to the mean square of the moves.
_RIDGES = 10.0 ** np.arange(-8, 5)
# Least degrees of freedom as a share of the points; with fewer, misfits are unreliable.
_LEAST_FREE = 0.3
# Share of the median misfit that is added to each output's, to bound its weight.
_LEAST_SHARE = 1e-3
# Multiples of the step's standard error at which likely points are drawn.
_SCALES = np.array([1.0, 2.0, 4.0])


class Local(NamedTuple):
    """The slopes at a point: `known` + `features` @ (slopes to be estimated)."""

    features: Float[np.ndarray, "unknowns features"]  # on which the rest depends
    known: Float[np.ndarray, "unknowns outputs"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """A linear fit of a function around the centre of a cloud."""

    slopes: Float[np.ndarray, "features outputs"]
    intercept: Float[np.ndarray, " outputs"]  # averaged function minus the run there
    misfit: Float[np.ndarray, " outputs"]  # mean square of each output's residuals
    residuals: Float[np.ndarray, "points outputs"]

    @functools.cached_property
    def noise(self) -> weight_noise.Correlated:
        """The noise of the function on the scale of the cloud."""
        share = _LEAST_SHARE * np.median(self.misfit)
        deviations = np.sqrt(np.maximum(self.misfit + share, np.finfo(float).tiny))
        return weight_noise.correlated(self.residuals, deviations)


def regress(
    moves: Float[np.ndarray, "points features"],
    changes: Float[np.ndarray, "points outputs"],
    slopes: Float[np.ndarray, "features outputs"] | None = None,
) -> Fit:
    """Regress changes of a function on moves, both from the centre of a cloud.

    `slopes` are those of earlier clouds, to which the new ones are shrunk; None: zero.
    """
    if slopes is None:
        slopes = np.zeros((moves.shape[1], changes.shape[1]))
    rest = changes - moves @ slopes
    centre, average = moves.mean(axis=0), rest.mean(axis=0)
    apart, rest = moves - centre, rest - average
    spectrum, rotation = np.linalg.eigh(apart @ apart.T)
    spectrum, turned = np.maximum(spectrum, 0), rotation.T @ rest
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
        residuals=rest - apart @ more,
    )


def step(weighted: np.ndarray, residual: np.ndarray, radius: float) -> np.ndarray:
    """Return the damped Gauss-Newton step from the centre, (unknowns,).

    `weighted` are slopes (unknowns, outputs), `residual` the averaged function at the
    centre minus the aim, both in units of the noise. Steps beyond `radius` are damped.
    """
    return -np.linalg.solve(_normal_matrix(weighted, radius), weighted @ residual)


def draws(
    weighted: np.ndarray, radius: float, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw errors of the step, at one to four times its standard error."""
    spectrum, rotation = np.linalg.eigh(_normal_matrix(weighted, radius))
    normal = rng.standard_normal((count, len(spectrum))) / np.sqrt(spectrum)
    return rng.choice(_SCALES, (count, 1)) * (normal @ rotation.T)


def _normal_matrix(weighted: np.ndarray, radius: float) -> np.ndarray:
    gram = weighted @ weighted.T
    gram[np.diag_indices_from(gram)] += 1 / (3 * radius) ** 2
    return gram
