"""Round nearly exact images to the few values that pixels of digital images take.

A *level* is such a value: eight-bit images are multiples of 1/255. If the known images
lie on levels, the inversion and `stationary_attack`, which call this, assume that the
target does too. If an image is within half a level of the truth in every pixel, its
nearest levels are the truth, which the rounding of training would otherwise prevent.
"""

import numpy as np
import scipy.stats
from jaxtyping import Bool, Float

Pixels = Float[np.ndarray, "*shape"]
# Largest number of levels above 0: that of eight bits.
MOST = 255
# Tolerance as a share of a level, because float32 rounds k / 255.
_SLACK = 1e-3
# Probability of rejecting images whose pixels truly are levels.
_REJECTED = 1e-6
# Pixels suggest levels if their distance is below this share of the one by chance.
_NEAR = 0.5


def above_zero(images: Pixels) -> int | None:
    """Return the least n <= 255 such that all pixels are k / n in [0, 1], or None."""
    values = np.unique(images).astype(np.float64)
    if len(values) > MOST + 1 or values[0] < 0 or values[-1] > 1:
        return None
    for levels in range(1, MOST + 1):
        scaled = values * levels
        if np.abs(scaled - np.round(scaled)).max() < _SLACK:
            return levels
    return None


def nearest(images: Pixels, levels: int) -> np.ndarray:
    """Return images on their nearest levels, k / levels in [0, 1]; float64."""
    return np.clip(np.round(images * levels), 0, levels) / levels


def suggested(images: Pixels, levels: int) -> bool:
    """Return whether pixels lie nearer to levels than they would by chance."""
    apart = np.abs(images - nearest(images, levels)) * levels
    apart = apart[apart > 0]
    by_chance = 1 / np.sqrt(12)
    return bool(len(apart) == 0 or np.sqrt(np.mean(apart**2)) < _NEAR * by_chance)


def agree(images: Pixels, variances: Pixels, levels: int) -> bool:
    """Return whether `variances`, the expected squared errors, explain distances."""
    apart = (images - nearest(images, levels)) ** 2
    # Pixels exactly on a level were rounded to it.
    moved = apart > 0
    if not moved.any():
        return True
    squared = np.sum(apart[moved] / np.maximum(variances[moved], np.finfo(float).tiny))
    return bool(squared <= scipy.stats.chi2.isf(_REJECTED, int(moved.sum())))


def chance(images: Pixels, levels: int, free: Bool[np.ndarray, "*shape"]) -> float:
    """Return the log-probability that free pixels are so near to levels by chance.

    Pixels are free if only the weights determined their values.
    """
    apart = np.abs(images - nearest(images, levels))[free] * levels
    if not len(apart):
        return 0.0
    farthest = np.clip(2 * apart.max(), np.finfo(float).tiny, 1)
    return float(len(apart) * np.log(farthest))


def expected_mse(variances: Pixels, levels: int) -> float:
    """Return the expected MSE after rounding images with Gaussian errors to levels."""
    half = 0.5 / levels
    deviations = np.sqrt(np.maximum(variances, np.finfo(float).tiny))
    wrong = 2 * scipy.stats.norm.sf(half / deviations)
    return float(np.mean(wrong) / levels**2)
