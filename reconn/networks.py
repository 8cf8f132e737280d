"""Reconstructor networks (RecoNN): from features of theta to an image.

Haiku stays in here and in `enlarging`: a network is a pair of pure functions.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
from jaxtyping import Array

from reconn.enlarging import Enlarging
from shadow import checks
from shadow.victims import Params
from shadow.victims.activations import ACTIVATIONS

_UPSAMPLING = 4  # of Table VII: two transposed convolutions of stride 2
_PATCHES = ((64, 2), (128, 2), (256, 2), (512, 1), (1, 1))


@dataclasses.dataclass(frozen=True)
class Network:
    """Pure functions of a network.

    Attributes:
      init: key -> params.
      apply: (params, inputs) -> outputs.
      apply_dropout: (params, key, inputs) -> outputs, as in training.
    """

    init: Callable[[Array], Params]
    apply: Callable[[Params, Array], Array]
    apply_dropout: Callable[[Params, Array, Array], Array]

    @classmethod
    def of(
        cls, forward: Callable[..., Array], input_shape: tuple[int, ...]
    ) -> "Network":
        """Of a Haiku function of (inputs, *, training); the shape is of one input."""
        network, example = hk.transform(forward), jnp.zeros((1, *input_shape))
        return cls(
            init=lambda key: network.init(key, example, training=False),
            apply=lambda params, inputs: network.apply(
                params, None, inputs, training=False
            ),
            apply_dropout=lambda params, key, inputs: network.apply(
                params, key, inputs, training=True
            ),
        )


def require_of(network: Network, params: Params) -> None:
    """Raise FieldError unless the parameters, a training's start, are of a network."""

    def shapes(params: Params) -> dict[str, tuple[int, ...]]:
        leaves = jax.tree_util.tree_leaves_with_path(params)
        return {jax.tree_util.keystr(path): leaf.shape for path, leaf in leaves}

    own = shapes(jax.eval_shape(network.init, jax.random.key(0)))
    differing = checks.differences(shapes(params), own)
    if differing:
        raise checks.FieldError(
            "start",
            "Expected {} to have the architecture of this reconstructor; it differs in"
            f" {'; '.join(differing)}.",
        )


def mlp(
    num_features: int,
    image_shape: tuple[int, ...],
    **dense: Any,
) -> Network:
    """The MNIST reconstructor of Table V: dense layers, ending in a sigmoid.

    The table doesn't mention the sigmoid; the authors' notebook has it, and without it
    the reconstruction is far worse (design measurements: 0.0161 against 0.0101).

    Args:
      num_features: of theta.
      image_shape: (height, width, channels).
      dense: keywords of `_dense`.
    """

    def decode(hidden: Array) -> Array:
        return hk.Linear(math.prod(image_shape))(hidden)

    return _dense(num_features, image_shape, decode, **dense)


def transposed_cnn(
    num_features: int,
    image_shape: tuple[int, ...],
    *,
    widths: tuple[int, ...],
    activation: str,
    **dropout: float,
) -> Network:
    """The CIFAR-10 reconstructor of Table VII, ending in a sigmoid.

    Dense layers of `widths`, of which (4096,) is the table's; the last one becomes an
    image of a quarter of the size, 8 x 8 x 64, and is enlarged by two transposed
    convolutions of 5 x 5, stride 2, with 32 and with the image's own channels. On
    55,098 weights it has 225.7 million parameters.

    Raises: ValueError: sides that 4 doesn't divide, or a width that doesn't fit.
    """
    height, width, channels = image_shape
    rows, columns = height // _UPSAMPLING, width // _UPSAMPLING
    if height % _UPSAMPLING or width % _UPSAMPLING:
        raise checks.FieldError(
            "architecture",
            "{} is 'transposed_cnn', which makes images whose sides are multiples of"
            f" {_UPSAMPLING}; got {height} x {width}. Use 'mlp'.",
        )
    if not widths or widths[-1] % (rows * columns):
        raise checks.FieldError(
            "widths",
            f"Expected the last of {{}} to be a multiple of {rows * columns} for images"
            f" of {height} x {width}, got {widths}.",
        )

    def decode(hidden: Array) -> Array:
        grid = hidden.reshape(len(hidden), rows, columns, -1)
        grid = ACTIVATIONS[activation](Enlarging(32)(grid))
        return Enlarging(channels)(grid)

    layers: dict[str, Any] = {"widths": widths, "activation": activation, **dropout}
    return _dense(num_features, image_shape, decode, **layers)


def patch_discriminator(image_shape: tuple[int, ...]) -> Network:
    """The PatchGAN discriminator of Table VIII: 4 x 4 convolutions, leaky ReLUs.

    Its outputs are scores (models, rows, columns), one a patch; 1 is real, 0 is made.
    """

    def forward(images: Array, *, training: bool) -> Array:
        values = 2 * images - 1
        for i, (channels, stride) in enumerate(_PATCHES):
            if i:
                values = jax.nn.leaky_relu(values, 0.2)
            values = hk.Conv2D(channels, 4, stride)(values)
        return values[..., 0]

    return Network.of(forward, image_shape)


def _dense(
    num_features: int,
    image_shape: tuple[int, ...],
    decode: Callable[[Array], Array],
    *,
    widths: tuple[int, ...],
    activation: str,
    input_dropout: float = 0.0,
    dropout: float = 0.0,
) -> Network:
    """Dense layers with dropout, then `decode`, then a sigmoid."""

    def forward(hidden: Array, *, training: bool) -> Array:
        def drop(values: Array, rate: float) -> Array:
            if not (training and rate):
                return values
            return hk.dropout(hk.next_rng_key(), rate, values)

        hidden = drop(hidden, input_dropout)
        for width in widths:
            hidden = ACTIVATIONS[activation](hk.Linear(width)(hidden))
            hidden = drop(hidden, dropout)
        return jax.nn.sigmoid(decode(hidden)).reshape(-1, *image_shape)

    return Network.of(forward, (num_features,))


ARCHITECTURES: dict[str, Callable[..., Network]] = {
    "mlp": mlp,
    "transposed_cnn": transposed_cnn,
}
