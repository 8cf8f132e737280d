"""Gaussian models of the noise in released weights theta, which weight the residuals.

`certificate` and `solving` use `Independent` noise, `solving` also `Projected`, and
`cloud_regression` `Correlated` noise. To *whiten* a difference of theta is to scale it
by the noise, so that noise alone gives entries of variance 1.
"""

import dataclasses

import numpy as np
import scipy.linalg
from jaxtyping import Float
from sklearn import covariance

Differences = Float[np.ndarray, "..."]
# Least variance in weak directions, relative to the mean, as samples are few.
_LEAST_REST = 1e-3
# Sums of squares below this share of the largest are rounding, no direction of noise.
_SAME = 1e-10


@dataclasses.dataclass(frozen=True, eq=False)
class Independent:
    """Noise that is independent between weights, with deviations > 0."""

    deviations: Float[np.ndarray, " params"]

    def whiten(self, differences: Differences) -> Differences:
        """Divide differences of theta by the deviations."""
        return differences / self.deviations

    def levelled(self) -> "Independent":
        """Return independent noise of the same mean variance, equal for all weights."""
        level = np.sqrt(np.mean(self.deviations**2))
        return Independent(np.full_like(self.deviations, level))


@dataclasses.dataclass(frozen=True, eq=False)
class Projected:
    """Noise in the few directions of theta that depend on the target.

    The draws are far fewer than the weights: too few for a covariance in all of them.
    """

    onto: Float[np.ndarray, "params k"]  # the directions, in orthonormal columns
    factor: Float[np.ndarray, "k k"]  # Cholesky factor of the covariance along them

    def whiten(self, differences: Differences) -> Differences:
        """Scale differences of theta along the directions to unit covariance."""
        along = differences @ self.onto
        flat = along.reshape(-1, along.shape[-1])
        white = scipy.linalg.solve_triangular(self.factor, flat.T, lower=True).T
        return white.reshape(along.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class Correlated:
    """Noise that is strong in a few directions, and equal in all others.

    Kinks cause such noise: a unit that crosses one moves many weights together.
    """

    deviations: Float[np.ndarray, " params"]  # units of the weights, > 0
    onto: Float[np.ndarray, "params k"]  # strong directions, in orthonormal columns
    variances: Float[np.ndarray, " k"]  # additional variance along each of them
    rest: float  # variance in every direction, strong ones included, > 0

    def whiten(self, differences: Differences) -> Differences:
        """Divide differences of theta by the symmetric root of the covariance."""
        scaled = differences / (self.deviations * np.sqrt(self.rest))
        less = 1 - np.sqrt(self.rest / (self.rest + self.variances))
        return scaled - ((scaled @ self.onto) * less) @ self.onto.T


def correlated(samples: Differences, deviations: Differences) -> Correlated:
    """Estimate noise in all directions from few samples around zero.

    Its strong directions are those of the samples. The variance in others is that of
    one half of the samples outside the span of the other half. `deviations` > 0 are
    kept.
    """
    count, params = samples.shape
    samples = samples / deviations
    # Cross-validation by halves: the share of noise beyond the directions of samples.
    half = count // 2
    if not half or not samples.any():
        return Correlated(deviations, np.zeros((params, 0)), np.zeros(0), 1.0)
    onto, _ = _directions(samples[:half])
    beyond = samples[half:] - (samples[half:] @ onto) @ onto.T
    share = np.sum(beyond**2) / np.sum(samples[half:] ** 2)
    share *= params / max(params - onto.shape[1], 1)
    onto, squares = _directions(samples)
    rest = max(float(share), _LEAST_REST)
    return Correlated(deviations, onto, squares * params / squares.sum(), rest)


def _directions(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a basis of the samples' span (params, k), and sums of squares along it."""
    squares, rotation = np.linalg.eigh(samples @ samples.T)
    kept = squares > _SAME * squares[-1]
    onto = samples.T @ (rotation[:, kept] / np.sqrt(squares[kept]))
    return onto, squares[kept]


def estimate(samples: Differences, slopes: np.ndarray, *, averaged: int) -> Projected:
    """Estimate noise from draws of theta, in the directions of some slopes.

    The correlation is shrunk after Ledoit and Wolf (2004). Theta is compared with a
    mean of `averaged` draws, which adds 1 / averaged to the variances. There are fewer
    slopes (params, columns) than samples.
    """
    onto, _ = np.linalg.qr(slopes)
    along = samples @ onto
    deviations = along.std(axis=0)
    deviations = np.maximum(deviations, 1e-12 + 1e-6 * deviations.max())
    correlation, _ = covariance.ledoit_wolf(along / deviations)
    shrunk = deviations[:, None] * correlation * deviations[None]
    factor = np.linalg.cholesky(shrunk * (1 + 1 / averaged))
    return Projected(onto, factor)
