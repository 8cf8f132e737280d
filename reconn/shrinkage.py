"""Shrinkage of reconstructions towards the mean image, against overfitting to noise.

Where the weights theta say little, as under the noise of private training, a
reconstructor that was fitted to noise ends farther from the target than the mean image,
which the adversary has anyway. The best mixture of reconstruction and mean image, on
validation shadow models, has a closed form. It is used only where it beats the plain
reconstruction by two standard errors. `trainer` fits it, `reconstructor` applies it.

Source: least squares in one unknown; the idea is James and Stein's.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

TargetImages = Float[np.ndarray, "models height width channels"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Shrinkage:
    """The map mean + factor (reconstruction - mean).

    Attributes:
      mean: (height, width, channels), the mean of the training targets.
      factor: the weight of a reconstruction beside the mean image, in [0, 1]; 1 leaves
        reconstructions as they are.
    """

    mean: Float[np.ndarray, "height width channels"]
    factor: float

    @classmethod
    def fit(
        cls,
        mean: Float[np.ndarray, "height width channels"],
        predicted: TargetImages,
        truth: TargetImages,
    ) -> "Shrinkage":
        """Choose the factor of least squared error on validation models.

        It is 1 where the best factor isn't better than 1 by two standard errors over
        the models, as with few validation models.
        """
        moved = (predicted - mean).astype(np.float64).reshape(len(predicted), -1)
        wanted = (truth - mean).astype(np.float64).reshape(len(truth), -1)
        length = float(np.sum(moved**2))
        if len(truth) < 2 or not length:
            return cls(mean=mean, factor=1.0)
        factor = float(np.clip(np.sum(moved * wanted) / length, 0.0, 1.0))
        plain = np.sum((moved - wanted) ** 2, axis=1)
        gains = plain - np.sum((factor * moved - wanted) ** 2, axis=1)
        error = gains.std(ddof=1) / np.sqrt(len(gains))
        return cls(mean=mean, factor=factor if gains.mean() > 2 * error else 1.0)

    def __call__(self, images: TargetImages) -> TargetImages:
        """Draw reconstructions towards the mean; the type stays."""
        if self.factor == 1:
            return images
        factor = images.dtype.type(self.factor)
        return np.asarray(self.mean + factor * (images - self.mean), images.dtype)
