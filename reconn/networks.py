"""Reconstructor networks (RecoNN): from features of theta to an image.

Haiku stays inside this file: a network is a pair of pure functions.
"""

import dataclasses
import math
from collections.abc import Callable

import haiku as hk
import jax
import jax.numpy as jnp
from jaxtyping import Array

from shadow.activations import ACTIVATIONS
from shadow.victims import Params


@dataclasses.dataclass(frozen=True)
class Network:
    """Pure functions of a reconstructor.

    Attributes:
      init: key -> params.
      apply: (params, features (models, features)) -> images (models, height, width,
        channels) in [0, 1].
      apply_dropout: (params, key, features) -> images, as in training.
    """

    init: Callable[[Array], Params]
    apply: Callable[[Params, Array], Array]
    apply_dropout: Callable[[Params, Array, Array], Array]


def mlp(
    num_features: int,
    image_shape: tuple[int, ...],
    *,
    widths: tuple[int, ...],
    activation: str,
    input_dropout: float = 0.0,
    dropout: float = 0.0,
) -> Network:
    """The MNIST reconstructor of Table V: dense layers, ending in a sigmoid.

    The table doesn't mention the sigmoid; the authors' notebook has it, and without it
    the reconstruction is far worse (design measurements: 0.0161 against 0.0101).
    """

    def forward(hidden: Array, *, training: bool) -> Array:
        def drop(values: Array, rate: float) -> Array:
            if not (training and rate):
                return values
            return hk.dropout(hk.next_rng_key(), rate, values)

        hidden = drop(hidden, input_dropout)
        for width in widths:
            hidden = ACTIVATIONS[activation](hk.Linear(width)(hidden))
            hidden = drop(hidden, dropout)
        flat = hk.Linear(math.prod(image_shape))(hidden)
        return jax.nn.sigmoid(flat).reshape(-1, *image_shape)

    network = hk.transform(forward)
    example = jnp.zeros((1, num_features))
    return Network(
        init=lambda key: network.init(key, example, training=False),
        apply=lambda params, features: network.apply(
            params, None, features, training=False
        ),
        apply_dropout=lambda params, key, features: network.apply(
            params, key, features, training=True
        ),
    )
