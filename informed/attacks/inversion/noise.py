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


def estimate(
    samples: Float[np.ndarray, "samples params"],
    slopes: Float[np.ndarray, "params columns"],
) -> Projected:
    """The noise of which some draws are seen, in the directions of some slopes.

    Shrunk after Ledoit and Wolf (2004). The mean of the draws is itself uncertain,
    which adds 1 / samples.

    Args:
      samples: theta, trained several times with nothing changed but the randomness.
      slopes: derivatives of theta; fewer columns than samples.
    """
    onto, _ = np.linalg.qr(slopes)
    along = samples @ onto
    deviations = along.std(axis=0)
    deviations = np.maximum(deviations, 1e-12 + 1e-6 * deviations.max())
    correlation, _ = covariance.ledoit_wolf(along / deviations)
    shrunk = deviations[:, None] * correlation * deviations[None]
    factor = np.linalg.cholesky(shrunk * (1 + 1 / len(samples)))
    return Projected(onto, factor)
