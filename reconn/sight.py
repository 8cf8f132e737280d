"""What a row of a network's input holds.

A plain network sees features of theta alone. One that refines the kernel's guesses
sees, after these, the guesses and the votes for each label.
"""

import dataclasses
import math

import jax.numpy as jnp
from jaxtyping import Array, Float32

from reconn.pictures import Pictures

Rows = Float32[Array, "models inputs"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sight:
    """The parts of a row: features, images that guess the target, votes.

    Attributes:
      num_features: features of theta, at the beginning of a row.
      image_shape: (height, width, channels) of a target.
      pictures: the features that are pictures; None: none are.
      guesses: images after the features; the first is the one to correct.
      votes: numbers after these.
    """

    num_features: int
    image_shape: tuple[int, ...]
    pictures: Pictures | None = None
    guesses: int = 0
    votes: int = 0

    @property
    def num_inputs(self) -> int:
        """The length of a row."""
        images = self.guesses * math.prod(self.image_shape)
        return self.num_features + images + self.votes

    def images(self, rows: Rows) -> Float32[Array, "models height width channels"]:
        """Return the guesses, then the weights that are pictures, as channels."""
        height, width, channels = self.image_shape
        pixels = math.prod(self.image_shape)
        parts = [jnp.zeros((rows.shape[0], height, width, 0), rows.dtype)]
        for i in range(self.guesses):
            start = self.num_features + i * pixels
            guess = rows[:, start : start + pixels]
            parts.append(guess.reshape(-1, height, width, channels))
        if self.pictures is not None:
            parts.append(self.pictures(rows[:, : self.num_features]))
        return jnp.concatenate(parts, axis=-1)

    def facts(self, rows: Rows) -> Float32[Array, "models facts"]:
        """Return the features that are no pictures, and the votes."""
        features, votes = rows[:, : self.num_features], rows[:, rows.shape[1] :]
        if self.votes:
            votes = rows[:, -self.votes :]
        if self.pictures is not None:
            features = self.pictures.others(features)
        return jnp.concatenate([features, votes], axis=-1)
