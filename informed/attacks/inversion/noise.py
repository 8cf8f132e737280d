"""What of theta no reconstruction can explain: Gaussian models of its noise.

Rounding of A's own arithmetic, rounding of the published numbers, or randomness of A
that the adversary isn't told. Differences of theta are divided by it ("whitened"), so
that each entry of what chance alone leaves has variance 1.
"""

import dataclasses

import numpy as np
import scipy.linalg
from jaxtyping import Float
from sklearn import covariance

_LEAST_REST = 1e-3  # of the mean variance
_SAME = 1e-10  # of the largest sum of squares: no direction of its own


@dataclasses.dataclass(frozen=True, eq=False)
class Independent:
    """Noise of every weight for itself.

    Attributes:
      deviations: (params,), > 0.
    """

    deviations: Float[np.ndarray, " params"]

    def whiten(
        self, differences: Float[np.ndarray, "*several params"]
    ) -> Float[np.ndarray, "*several params"]:
        """Differences of theta in units of their noise."""
        return differences / self.deviations

    def levelled(self) -> "Independent":
        """The same for every weight, with the mean variance."""
        level = np.sqrt(np.mean(self.deviations**2))
        return Independent(np.full_like(self.deviations, level))


@dataclasses.dataclass(frozen=True, eq=False)
class Projected:
    """Noise in the few directions of theta that tell about the target.

    In all directions a covariance can't be had from some dozens of draws.

    Attributes:
      onto: (params, k), orthonormal columns.
      factor: (k, k), lower Cholesky factor of the covariance there.
    """

    onto: Float[np.ndarray, "params k"]
    factor: Float[np.ndarray, "k k"]

    def whiten(
        self, differences: Float[np.ndarray, "*several params"]
    ) -> Float[np.ndarray, "*several k"]:
        """Differences of theta, projected, in units of their noise."""
        along = differences @ self.onto
        flat = along.reshape(-1, along.shape[-1])
        white = scipy.linalg.solve_triangular(self.factor, flat.T, lower=True).T
        return white.reshape(along.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class Correlated:
    """Noise that is strong in a few directions, and alike in all others.

    As that of kinks: a unit that changes its mind moves many weights together.

    Attributes:
      deviations: (params,), > 0; what follows is in units of them.
      onto: (params, k), orthonormal columns.
      variances: (k,), along them;
      rest: in all directions, > 0, theirs included.
    """

    deviations: Float[np.ndarray, " params"]
    onto: Float[np.ndarray, "params k"]
    variances: Float[np.ndarray, " k"]
    rest: float

    def whiten(
        self, differences: Float[np.ndarray, "*several params"]
    ) -> Float[np.ndarray, "*several params"]:
        """Differences of theta, divided by the symmetric root of the covariance."""
        scaled = differences / (self.deviations * np.sqrt(self.rest))
        less = 1 - np.sqrt(self.rest / (self.rest + self.variances))
        return scaled - ((scaled @ self.onto) * less) @ self.onto.T


def correlated(
    samples: Float[np.ndarray, "samples params"],
    deviations: Float[np.ndarray, " params"],
) -> Correlated:
    """The noise of which some dozens of samples are seen, in all directions.

    What it is beyond the directions of the samples, one half of them says: what of it
    isn't in the span of the other half.

    Args:
      samples: independent, around zero.
      deviations: of the params, > 0. The covariance has these, on average.
    """
    count, params = samples.shape
    samples = samples / deviations
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
    """An orthonormal basis of their span (params, k), and sums of squares along it."""
    squares, rotation = np.linalg.eigh(samples @ samples.T)
    kept = squares > _SAME * squares[-1]
    onto = samples.T @ (rotation[:, kept] / np.sqrt(squares[kept]))
    return onto, squares[kept]


def estimate(
    samples: Float[np.ndarray, "samples params"],
    slopes: Float[np.ndarray, "params columns"],
    *,
    averaged: int,
) -> Projected:
    """The noise of which some draws are seen, in the directions of some slopes.

    Shrunk after Ledoit and Wolf (2004). The mean that theta is compared with is itself
    uncertain, which adds 1 / averaged.

    Args:
      samples: theta, trained several times with nothing changed but the randomness.
      slopes: derivatives of theta; fewer columns than samples.
      averaged: draws in that mean.
    """
    onto, _ = np.linalg.qr(slopes)
    along = samples @ onto
    deviations = along.std(axis=0)
    deviations = np.maximum(deviations, 1e-12 + 1e-6 * deviations.max())
    correlation, _ = covariance.ledoit_wolf(along / deviations)
    shrunk = deviations[:, None] * correlation * deviations[None]
    factor = np.linalg.cholesky(shrunk * (1 + 1 / averaged))
    return Projected(onto, factor)
