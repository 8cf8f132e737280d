"""Guess a starting image from the weights of a few shadow models of one label.

`shared_measurements` trains the models, and `starting_images` asks for the images: for
outliers, which aren't reached from the mean image of their class.
"""

import dataclasses
import functools

import numpy as np
from jaxtyping import Float

from reconn import features
from reconn.features import Standardiser
from reconn.ridge import Regression
from shadow.models import ShadowModels
from shadow.views import EVERYTHING

# Scale of distances in the kernel regression, large so that outliers get smooth values.
_SCALE = 16.0
# Ridge of that regression; a few models of a label are noisy.
_RIDGE = 1e-2
# Bound on standardised weights, in standard deviations.
_CLIP = 10.0


@dataclasses.dataclass(frozen=True, eq=False)
class LabelShadows:
    """A few shadow models of one label, and the starting images that they suggest."""

    models: ShadowModels

    @functools.cached_property
    def _fitted(self) -> tuple[Standardiser, Regression]:
        """A standardiser of weights, and kernel regression from weights to images."""
        models, count = self.models, len(self.models)
        standardise = features.fit(models, EVERYTHING, num_models=count, clip=_CLIP)
        flat = models.images.reshape(count, -1)
        weights = standardise(models.weights)
        return standardise, Regression.fit(weights, flat, scale=_SCALE, ridge=_RIDGE)

    def guess(self, theta: np.ndarray) -> Float[np.ndarray, "height width channels"]:
        """Return the kernel regression's prediction of the image from weights theta."""
        if len(self.models) == 1:
            return self.models.images[0].astype(np.float64)
        standardise, regression = self._fitted
        image = np.clip(regression(standardise(theta[None].astype(np.float32))), 0, 1)
        return image.reshape(self.models.image_shape)

    def nearest(self, theta: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the models of nearest theta: squared distances and images."""
        apart = self.models.weights - theta.astype(np.float32)[None]
        distances = np.einsum("ij,ij->i", apart, apart)
        rows = np.argsort(distances)[:count]
        return distances[rows], self.models.images[rows].astype(np.float64)
