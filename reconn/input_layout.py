"""The layout of a network's input: where a row has weights, images and label votes.

A plain network sees the features of theta alone. One that refines the guesses of kernel
regression (`refined`) sees, after these, the guesses and the votes for each label.
Builders of networks (`modules`, `residual`) take it. `trainer` and `reconstructor` make
a layout, and `informed.experiment.feasible` to check settings.

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

Rows = Float32[Array, "models inputs"]
Features = Float32[Array, "models features"]
Images = Float32[Array, "models height width channels"]


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
        """Return a hash of which features are pictures."""
        return checks.fingerprint([checks.digest(self.index), checks.digest(self.rest)])

    def __call__(self, features: Features) -> Images:
        """Return the pictures; weights that the standardiser dropped are 0."""
        padded = jnp.pad(features, ((0, 0), (0, 1)))
        return jnp.take(padded, self.index, axis=1) * self.factor[None]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class InputLayout:
    """The parts of a row: features, images that guess the target, votes.

    Attributes:
      num_features: the number of features of theta, at the beginning of a row.
      image_shape: (height, width, channels) of a target.
      pictures: the features that form pictures; None: none do.
      num_labels: the number of different labels among the models that train.
      num_guesses: the number of images after the features; the first one is corrected.
      num_votes: the number of votes after the images: one per label, or none.
    """

    num_features: int
    image_shape: tuple[int, ...]
    pictures: Pictures | None = None
    num_labels: int = 0
    num_guesses: int = 0
    num_votes: int = 0

    @property
    def num_inputs(self) -> int:
        """The length of a row."""
        images = self.num_guesses * math.prod(self.image_shape)
        return self.num_features + images + self.num_votes

    def images(self, rows: Rows) -> Images:
        """Return the guesses, then the weights that are pictures, as channels."""
        pixels = math.prod(self.image_shape)
        parts = [jnp.zeros((rows.shape[0], *self.image_shape[:2], 0), rows.dtype)]
        for i in range(self.num_guesses):
            start = self.num_features + i * pixels
            guess = rows[:, start : start + pixels]
            parts.append(guess.reshape(-1, *self.image_shape))
        if self.pictures is not None:
            parts.append(self.pictures(rows[:, : self.num_features]))
        return jnp.concatenate(parts, axis=-1)

    def vectors(self, rows: Rows) -> Float32[Array, "models entries"]:
        """Return the features outside the pictures, and the votes."""
        features = rows[:, : self.num_features]
        if self.pictures is not None:
            features = jnp.take(features, self.pictures.rest, axis=1)
        votes = rows[:, self.num_inputs - self.num_votes :]
        return jnp.concatenate([features, votes], axis=-1)


def _columns(layout: Sequence[Slice], view: View) -> np.ndarray:
    """Return the position in a view of each weight of theta; -1: not in it."""
    places = np.full(layout[-1].stop if layout else 0, -1)
    if layout and isinstance(view, Layers):
        columns = np.arange(len(places)) if view.columns is None else view.columns
        places[columns] = np.arange(len(columns))
    return places
