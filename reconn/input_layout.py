"""The layout of a network's input: where a row has weights, images and label votes.

A plain network sees the features of theta alone. One that refines the guesses of kernel
regression (`refined`) sees, after these, the guesses and the votes for each label.
Builders of networks (`modules`, `residual`) take it.
"""

import dataclasses
import math

import jax.numpy as jnp
from jaxtyping import Array, Float32

from reconn.pictures import Pictures

Rows = Float32[Array, "models inputs"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class InputLayout:
    """The parts of a row: features, images that guess the target, votes.

    Attributes:
      num_features: the number of features of theta, at the beginning of a row.
      image_shape: (height, width, channels) of a target.
      pictures: the features that form pictures (`pictures`); None: none do.
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

    def images(self, rows: Rows) -> Float32[Array, "models height width channels"]:
        """Return the guesses, then the weights that are pictures, as channels."""
        pixels = math.prod(self.image_shape)
        parts = [jnp.zeros((len(rows), *self.image_shape[:2], 0), rows.dtype)]
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
            features = self.pictures.others(features)
        votes = rows[:, self.num_inputs - self.num_votes :]
        return jnp.concatenate([features, votes], axis=-1)
