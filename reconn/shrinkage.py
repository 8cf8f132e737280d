"""Shrinkage of reconstructions towards the mean image, against overfitting to noise.

Where the weights theta say little, as under the noise of private training, a
reconstructor that was fitted to noise ends farther from the target than the mean image,
which the adversary has anyway. The best mixture of reconstruction and mean image, on
validation shadow models, has a closed form. `trainer` fits it, `reconstructor` applies
it; `refined` weighs its correction in the same way (`best_weight`).

Source: least squares in one unknown; the idea is James and Stein's.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

TargetImages = Float[np.ndarray, "models height width channels"]
Mean = Float[np.ndarray, "height width channels"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Shrinkage:
    """The map mean + factor (reconstruction - mean).

    Attributes:
      mean: (height, width, channels), the mean of the training targets.
      factor: the weight of a reconstruction beside the mean image, in [0, 1]; 1 leaves
        reconstructions as they are.
    """

    mean: Mean
    factor: float

    def __call__(self, images: TargetImages) -> TargetImages:
        """Draw reconstructions towards the mean; the type stays."""
        if self.factor == 1:
            return images
        factor = images.dtype.type(self.factor)
        return np.asarray(self.mean + factor * (images - self.mean), images.dtype)


def best_weight(
    moves: np.ndarray, wanted: np.ndarray, *, default: float, sure: float = 2.0
) -> float:
    """Return the weight in [0, 1] of `moves` whose product is nearest to `wanted`.

    The default, unless another weight is better by `sure` standard errors over the
    models, the first axis of both.
    """
    moves = moves.astype(np.float64).reshape(len(moves), -1)
    wanted = wanted.astype(np.float64).reshape(len(wanted), -1)
    length = float(np.sum(moves**2))
    if len(wanted) < 2 or not length:
        return default
    weight = float(np.clip(np.sum(moves * wanted) / length, 0.0, 1.0))
    plain = (default * moves - wanted) ** 2
    gains = np.sum(plain - (weight * moves - wanted) ** 2, axis=1)
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    return weight if gains.mean() > sure * error else default
