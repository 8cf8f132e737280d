"""Digital images take few values: an answer that is nearly right is made right.

Eight-bit images are multiples of 1/255. D_- shows that the target is one as well.
Where an answer lies within half a level of the truth in every pixel, the nearest levels
are the truth itself, beyond what the rounding of A lets any least squares reach.
"""

import numpy as np
import scipy.stats
from jaxtyping import Bool, Float

# Levels above 0, at most: those of eight bits.
MOST = 255
# Share of a level by which a pixel may be off: float32 holds k / 255 only nearly.
_SLACK = 1e-3
# Probability with which an answer on levels is taken for one that isn't.
_WRONGLY = 1e-6
# Pixels suggest levels if they lie nearer than this share of the distance at which
# chance would put them.
_NEAR = 0.5


def above_zero(images: Float[np.ndarray, "*shape"]) -> int | None:
    """The fewest levels above 0, up to 255, on which all pixels of [0, 1] lie.

    Returns: n such that all pixels are k / n; None where there is no such n.
    """
    values = np.unique(images).astype(np.float64)
    if len(values) > MOST + 1 or values[0] < 0 or values[-1] > 1:
        return None
    for levels in range(1, MOST + 1):
        scaled = values * levels
        if np.abs(scaled - np.round(scaled)).max() < _SLACK:
            return levels
    return None


def nearest(images: Float[np.ndarray, "*shape"], levels: int) -> np.ndarray:
    """Every pixel moved to the level k / levels of [0, 1] that is nearest; float64."""
    return np.clip(np.round(images * levels), 0, levels) / levels


def suggested(images: Float[np.ndarray, "*shape"], levels: int) -> bool:
    """Whether pixels lie nearer to levels than chance brings them.

    Pixels that are exactly on a level say nothing: they may have been put there.
    """
    apart = np.abs(images - nearest(images, levels)) * levels
    apart = apart[apart > 0]
    by_chance = 1 / np.sqrt(12)
    return bool(len(apart) == 0 or np.sqrt(np.mean(apart**2)) < _NEAR * by_chance)


def agree(
    images: Float[np.ndarray, "*shape"],
    variances: Float[np.ndarray, "*shape"],
    levels: int,
) -> bool:
    """Whether the distances from the nearest levels are such as the errors make.

    Where they are larger, all together, the truth isn't on these levels.

    Args:
      images: an answer, before it is moved.
      variances: expected squared error of each pixel.
      levels: number of levels above 0.
    """
    apart = (images - nearest(images, levels)) ** 2
    # A pixel that is exactly on a level was put there.
    moved = apart > 0
    if not moved.any():
        return True
    squared = np.sum(apart[moved] / np.maximum(variances[moved], np.finfo(float).tiny))
    return bool(squared <= scipy.stats.chi2.isf(_WRONGLY, int(moved.sum())))


def chance(
    images: Float[np.ndarray, "*shape"], levels: int, free: Bool[np.ndarray, "*shape"]
) -> float:
    """The natural logarithm of how likely free pixels come so near to levels by chance.

    Args:
      images: an answer, before it is moved.
      levels: number of levels above 0.
      free: whether nothing but theta has brought each pixel to its place.
    """
    apart = np.abs(images - nearest(images, levels))[free] * levels
    if not len(apart):
        return 0.0
    farthest = np.clip(2 * apart.max(), np.finfo(float).tiny, 1)
    return float(len(apart) * np.log(farthest))


def expected_mse(variances: Float[np.ndarray, "*shape"], levels: int) -> float:
    """The MSE that is left of independent Gaussian errors by moving onto levels.

    A pixel that was farther off than half a level becomes a whole level wrong.
    """
    half = 0.5 / levels
    deviations = np.sqrt(np.maximum(variances, np.finfo(float).tiny))
    wrong = 2 * scipy.stats.norm.sf(half / deviations)
    return float(np.mean(wrong) / levels**2)
