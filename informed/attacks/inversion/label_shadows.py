"""Guess a starting image from the weights of a few shadow models of one label.

`shared_measurements` trains the models, and `starting_images` asks for the images and
for the label: for outliers, which aren't reached from the mean image of their class.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from reconn import features
from reconn.ridge import Regression
from shadow.models import ShadowModels
from shadow.views import EVERYTHING

# Scale of distances in the kernel regression, large so that outliers get smooth values.
_SCALE = 16.0
# Ridge of that regression; a few models of a label are noisy.
_RIDGE = 1e-2
# Scale of distances in the regression on labels.
_LABEL_SCALE = 4.0
# Bound on standardised weights, in standard deviations.
_CLIP = 10.0


@dataclasses.dataclass(frozen=True, eq=False)
class LabelShadows:
    """A few shadow models of one label, and the starting images that they suggest."""

    models: ShadowModels

    @functools.cached_property
    def _image(self) -> Callable[[np.ndarray], np.ndarray]:
        flat = self.models.images.reshape(len(self.models), -1)
        return _regression(self.models, flat, _SCALE)

    def guess(self, theta: np.ndarray) -> Float[np.ndarray, "height width channels"]:
        """Return the kernel regression's prediction of the image from weights theta."""
        if len(self.models) == 1:
            return self.models.images[0].astype(np.float64)
        return np.clip(self._image(theta), 0, 1).reshape(self.models.image_shape)

    def nearest(self, theta: np.ndarray) -> float:
        """Return the squared distance of the model of nearest theta."""
        apart = self.models.weights - theta.astype(np.float32)[None]
        return float(np.einsum("ij,ij->i", apart, apart).min())


def by_vote(shadows: Sequence[LabelShadows], theta: np.ndarray) -> np.ndarray:
    """Order shadow models of several labels by a regression on labels, best first."""
    if len(shadows) == 1:
        return np.zeros(1, int)
    several = [shadow.models for shadow in shadows]
    weights = np.concatenate([models.weights for models in several])
    images = np.concatenate([models.images for models in several])
    counts = [len(models) for models in several]
    labels = np.repeat(np.arange(len(several), dtype=np.int32), counts)
    models = ShadowModels(weights=weights, images=images, labels=labels)
    votes = _regression(models, np.eye(len(several))[labels], _LABEL_SCALE)
    return np.argsort(-votes(theta))


def _regression(
    models: ShadowModels, targets: np.ndarray, scale: float
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a kernel regression from weights theta to one row of targets."""
    standardise = features.fit(models, EVERYTHING, num_models=len(models), clip=_CLIP)
    weights = standardise(models.weights)
    regression = Regression.fit(weights, targets, scale=scale, ridge=_RIDGE)
    return lambda theta: regression(standardise(theta[None].astype(np.float32)))[0]
