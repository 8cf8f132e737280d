"""What of theta no reconstruction can explain: a Gaussian model of its noise.

Rounding of A's own arithmetic, rounding of the published numbers, or randomness of A
that the adversary isn't told. Residuals are divided by it ("whitened"), so that a
residual of squared norm `params` is what chance alone leaves.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

_SHRINKAGE = 0.1  # share of the diagonal in a covariance from few samples


@dataclasses.dataclass(frozen=True, eq=False)
class Noise:
    """Covariance D^(1/2) (I + Q diag(gains) Q^T) D^(1/2), D = diag(deviations^2).

    Attributes:
      deviations: (params,), > 0.
      directions: (k, params), orthonormal rows: Q^T.
      gains: (k,).
    """

    deviations: Float[np.ndarray, "params"]
    directions: Float[np.ndarray, "k params"] | None = None
    gains: Float[np.ndarray, "k"] | None = None

    def whiten(
        self, differences: Float[np.ndarray, "*several params"]
    ) -> Float[np.ndarray, "*several params"]:
        """Differences of theta in units of their noise."""
        scaled = differences / self.deviations
        if self.directions is None or self.gains is None:
            return scaled
        along = scaled @ self.directions.T
        return scaled + (along * (1 / np.sqrt(1 + self.gains) - 1)) @ self.directions

    def whiten_transposed(
        self, residuals: Float[np.ndarray, "params"]
    ) -> Float[np.ndarray, "params"]:
        """The transpose of `whiten`, for gradients."""
        if self.directions is not None and self.gains is not None:
            along = residuals @ self.directions.T
            shrink = 1 / np.sqrt(1 + self.gains) - 1
            residuals = residuals + (along * shrink) @ self.directions
        return residuals / self.deviations


def estimate(samples: Float[np.ndarray, "samples params"], floor: float) -> Noise:
    """The noise of which some draws are seen: low rank plus diagonal.

    Args:
      samples: theta, trained several times with nothing changed but the randomness.
      floor: smallest standard deviation of a weight.
    """
    centred = samples - samples.mean(axis=0)
    count = len(samples) - 1
    variances = np.maximum((centred**2).sum(axis=0) / count, floor**2)
    deviations = np.sqrt(_SHRINKAGE * variances)
    scaled = centred / deviations * np.sqrt((1 - _SHRINKAGE) / count)
    _, lengths, directions = np.linalg.svd(scaled, full_matrices=False)
    return Noise(deviations, directions, lengths**2)
