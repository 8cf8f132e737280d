"""A dense first layer's weights as images, the input of a convolutional network.

The gradient of a first layer's weights W (pixels, units) at one record z is

    dL/dW = z delta^T,    delta = the derivative by the layer's outputs

so each unit's weights hold a picture of the target, mixed with those of all other
records. As an image with one channel per unit and colour the weights suit convolutions:
weights of neighbouring pixels are related as the pixels are.
"""

import dataclasses
import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32

from reconn.features import Standardiser
from shadow import checks
from shadow.victims import Slice
from shadow.views import Layers, View


@dataclasses.dataclass(frozen=True, eq=False)
class Pictures:
    """Which features of theta form pictures, and which don't.

    Attributes:
      index: (height, width, channels), positions among the features; for a weight that
        the standardiser dropped as constant, the number of features.
      factor: (height, width, channels), the feature's deviation over that of its unit:
        standardised weights of pixels that hardly vary would be noise.
      rest: (rest,), positions of the other features.
    """

    index: Int32[np.ndarray, "height width channels"]
    factor: Float32[np.ndarray, "height width channels"]
    rest: Int32[np.ndarray, " rest"]

    @classmethod
    def of(
        cls,
        layout: Sequence[Slice],
        view: View,
        standardiser: Standardiser,
        image_shape: tuple[int, ...],
    ) -> "Pictures":
        """Return the pictures of the first layer, if it is dense and all in the view.

        That is the first array (pixels, units) or (units, pixels) of the layout, with
        pixels in the order (height, width, channels). Without one, or where the view
        isn't of weights, `index` has no channels.
        """
        kept = np.cumsum(standardiser.scale > 0) - 1
        kept[standardiser.scale <= 0] = standardiser.num_features
        index = np.zeros((*image_shape[:2], 0), np.int32)
        factor = np.zeros(index.shape, np.float32)
        places = _columns(layout, view)
        pixels = math.prod(image_shape)
        matrices = [part for part in layout if len(part.shape) == 2]
        first = next((part for part in matrices if pixels in part.shape), None)
        if first is not None and (places[first.start : first.stop] >= 0).all():
            weights = places[first.start : first.stop].reshape(first.shape)
            weights = weights if first.shape[0] == pixels else weights.T
            scale = standardiser.scale[weights]
            unit = np.sqrt(np.mean(np.square(scale), axis=0))
            factor = np.divide(scale, unit, out=np.zeros_like(scale), where=unit > 0)
            # (pixels, units) -> (height, width, channels of the image * units)
            index = kept[weights].reshape(*image_shape[:2], -1).astype(np.int32)
            factor = factor.reshape(index.shape).astype(np.float32)
        rest = np.setdiff1d(np.arange(standardiser.num_features), index)
        return cls(index, factor, rest.astype(np.int32))

    def fingerprint(self) -> str:
        """Hash which features are pictures."""
        return checks.fingerprint([checks.digest(self.index), checks.digest(self.rest)])

    def __call__(
        self, features: Float32[Array, "models features"]
    ) -> Float32[Array, "models height width channels"]:
        """Return the pictures; weights that the standardiser dropped are 0."""
        padded = jnp.pad(features, ((0, 0), (0, 1)))
        return jnp.take(padded, self.index, axis=1) * self.factor[None]

    def others(
        self, features: Float32[Array, "models features"]
    ) -> Float32[Array, "models others"]:
        """Return the features outside the pictures."""
        return jnp.take(features, self.rest, axis=1)


def _columns(layout: Sequence[Slice], view: View) -> np.ndarray:
    """Return the position in a view of each weight of theta; -1: not in it."""
    places = np.full(layout[-1].stop if layout else 0, -1)
    if layout and isinstance(view, Layers):
        columns = np.arange(len(places)) if view.columns is None else view.columns
        places[columns] = np.arange(len(columns))
    return places
