"""Shadow models of one label, and the starts of an inversion that they suggest."""

import numpy as np

from reconn import features
from reconn.regression import Regression
from shadow.models import ShadowModels
from shadow.views import EVERYTHING

_SCALE = 16.0  # of distances: smooth, for outliers
_RIDGE = 1e-2
_CLIP = 10.0  # of standardised weights


class LabelShadows:
    """Models of one label, and what they say of the target's image."""

    def __init__(self, models: ShadowModels) -> None:
        self._models = models
        if len(models) > 1:
            self._standardiser = features.fit(
                models, EVERYTHING, num_models=len(models), clip=_CLIP
            )
            self._fitted = Regression.fit(
                self._standardiser(models.weights),
                models.images.reshape(len(models), -1),
                scale=_SCALE,
                ridge=_RIDGE,
            )

    def guess(self, theta: np.ndarray) -> np.ndarray:
        """The image that a kernel regression reads out of theta."""
        if len(self._models) == 1:
            return self._models.images[0].astype(np.float64)
        seen = self._standardiser(theta[None].astype(np.float32))
        image = np.clip(self._fitted(seen), 0, 1)
        return image.reshape(self._models.image_shape)

    def nearest(self, theta: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances and images of the models whose theta is nearest."""
        apart = self._models.weights - theta.astype(np.float32)[None]
        distances = np.einsum("ij,ij->i", apart, apart)
        rows = np.argsort(distances)[:count]
        return distances[rows], self._models.images[rows].astype(np.float64)
