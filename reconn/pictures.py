"""Weights of a dense first layer as pictures.

The gradient of a first layer's weights W (pixels, units) at one record z is

    dL/dW = z delta^T,    delta = the derivative by the layer's outputs

so each unit's weights hold a picture of the target, mixed with the answer of the fixed
set. Seen as an image with one channel per unit they suit convolutions: neighbouring
pixels' weights have one cause.
"""

import dataclasses
import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32

from reconn.features import Standardiser
from shadow.victims import Slice
from shadow.views import Layers, View

_MOST_REST = 1024  # other features that a network sees beside the pictures


@dataclasses.dataclass(frozen=True, eq=False)
class Pictures:
    """The features that are pictures, and the rest.

    Attributes:
      index: (height, width, channels), positions among the features; that of a weight
        that was dropped is the number of features.
      factor: (height, width, channels), the feature's deviation over that of its unit:
        standardised weights of pixels that hardly vary would be noise.
      rest: (rest,), positions of other features.
      num_features: of theta.
    """

    index: Int32[np.ndarray, "height width channels"]
    factor: Float32[np.ndarray, "height width channels"]
    rest: Int32[np.ndarray, " rest"]
    num_features: int

    @classmethod
    def of(
        cls,
        layout: Sequence[Slice],
        view: View,
        standardiser: Standardiser,
        image_shape: tuple[int, ...],
    ) -> "Pictures":
        """Return those of the arrays (pixels, units) or (units, pixels) that are seen.

        A view of something else than weights, or a victim without such an array, gives
        no pictures: then `index` has no channels.
        """
        places = np.full(layout[-1].stop if layout else 0, -1)
        if layout and isinstance(view, Layers):
            columns = np.arange(len(places)) if view.columns is None else view.columns
            places[columns] = np.arange(len(columns))
        kept = np.cumsum(standardiser.scale > 0) - 1
        kept[standardiser.scale <= 0] = standardiser.num_features
        indices, factors = [], []
        for part in layout:
            seen = places[part.start : part.stop]
            across = _across(part.shape, math.prod(image_shape))
            if across is None or (seen < 0).any():
                continue
            # (pixels, units) -> (height, width, units of each of the image's channels)
            shape = (*image_shape[:2], -1)
            weights = seen.reshape(part.shape)
            weights = weights if across else weights.T
            scale = standardiser.scale[weights]
            unit = np.sqrt(np.mean(np.square(scale), axis=0))
            factor = np.divide(scale, unit, out=np.zeros_like(scale), where=unit > 0)
            indices.append(kept[weights].reshape(shape))
            factors.append(factor.reshape(shape))
        empty = np.zeros((*image_shape[:2], 0))
        index = np.concatenate([empty, *indices], axis=2).astype(np.int32)
        factor = np.concatenate([empty, *factors], axis=2).astype(np.float32)
        rest = np.setdiff1d(np.arange(standardiser.num_features), index)
        return cls(index, factor, rest.astype(np.int32), standardiser.num_features)

    def alone(self) -> tuple[np.ndarray, "Pictures"]:
        """Return the positions of all features that are seen, and these among them."""
        rest = self.rest[:_MOST_REST]
        columns = np.union1d(self.index, rest)
        columns = columns[columns < self.num_features]
        index, rest = (
            np.searchsorted(columns, places).astype(np.int32)
            for places in (self.index, rest)
        )
        return columns, Pictures(index, self.factor, rest, len(columns))

    def __call__(
        self, features: Float32[Array, "models features"]
    ) -> Float32[Array, "models height width channels"]:
        """Return the pictures; weights that were dropped are 0."""
        padded = jnp.pad(features, ((0, 0), (0, 1)))
        return jnp.take(padded, self.index, axis=1) * self.factor[None]

    def others(
        self, features: Float32[Array, "models features"]
    ) -> Float32[Array, "models others"]:
        """Return the other features, or the first 1,024 of them."""
        return jnp.take(features, self.rest[:_MOST_REST], axis=1)


def _across(shape: tuple[int, ...], pixels: int) -> bool | None:
    """Return whether the first axis is that of pixels; None: neither is."""
    if len(shape) != 2 or pixels not in shape:
        return None
    return shape[0] == pixels
