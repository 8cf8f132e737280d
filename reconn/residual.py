"""A small residual CNN, to reconstruct images or to correct guesses of them.

It sees the weights of a first layer as pictures (`input_layout`): the target times
delta of each unit, whose bias has the gradient delta itself. So the target is a sum of
pictures whose coefficients depend on the other weights: the network first makes such
mixtures, with coefficients from a small dense network. `modules` offers it to
`network`, and `refined` uses it on the guesses of `kernel`.

It works at half the image's height and width, where a convolution takes a quarter of
the time: the pixels of a block of 2 x 2 are channels. All other inputs, such as the
output layer's weights or the votes for each label, scale and shift the channels of
every block (FiLM, Perez et al. 2018, arXiv:1709.07871). The rest is ours.
"""

import dataclasses
import functools
from collections.abc import Callable

import haiku as hk
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from reconn.input_layout import InputLayout
from shadow import checks

Grid = Float[Array, "models rows columns depth"]
Images = Float[Array, "models height width channels"]
Outputs = Float[Array, "models height width outputs"]
Vectors = Float[Array, "models entries"]
_BLOCK = 2  # pixels along a side of the block that becomes one place of the grid
_CONDITION = 64  # width of the layer that reads the vectors
_MIXING = 128  # width of the layer that makes the mixtures' coefficients
_PROJECTED = 16  # channels made of the vectors, where there are no pictures


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResidualCnn:
    """Residual blocks of two 3 x 3 convolutions, each with layer norm and FiLM.

    Attributes:
      channels: the channels of every convolution.
      blocks: the number of residual blocks.
      mixtures: the number of sums of pictures.
    """

    channels: int = 48
    blocks: int = 3
    mixtures: int = 8

    def __post_init__(self) -> None:
        checks.at_least("channels", self.channels, 1)
        checks.at_least("blocks", self.blocks, 1)
        checks.at_least("mixtures", self.mixtures, 0)

    def build(self, layout: InputLayout) -> Callable[..., Array]:
        """Return the Haiku function (rows, *, training) -> images of `Network`."""

        def forward(rows: Array, *, training: bool) -> Array:
            values = self._outputs(
                layout.images(rows),
                layout.vectors(rows),
                outputs=layout.image_shape[2],
                training=training,
            )
            bias = hk.get_parameter("bias", values.shape[1:], init=jnp.zeros)
            return jax.nn.sigmoid(values + bias[None])

        return forward

    def correction(self, image_shape: tuple[int, ...]) -> Callable[..., Array]:
        """Return the Haiku function (images, vectors, *, training) of `Refined`.

        It corrects the first of the images, and returns zeros before training.
        """
        return functools.partial(self._outputs, outputs=image_shape[2])

    def _outputs(
        self, images: Images, vectors: Vectors, *, outputs: int, training: bool
    ) -> Outputs:
        """Return `outputs` numbers per pixel; 0 before training."""
        del training
        height, width = images.shape[1:3]
        rows, columns = -(-height // _BLOCK), -(-width // _BLOCK)
        fill = [(0, 0), (0, rows * _BLOCK - height), (0, columns * _BLOCK - width)]
        if images.shape[3]:
            if self.mixtures and vectors.shape[1]:
                hidden = jax.nn.gelu(hk.Linear(_MIXING)(vectors))
                factors = hk.Linear(self.mixtures * images.shape[3])(hidden)
                factors = factors.reshape(-1, self.mixtures, images.shape[3])
                mixed = jnp.einsum("nhwc,nkc->nhwk", images, factors)
                images = jnp.concatenate([images, mixed], axis=-1)
            grid = _blocks(jnp.pad(images, [*fill, (0, 0)]))
        else:
            projected = hk.Linear(rows * columns * _PROJECTED)(vectors)
            grid = projected.reshape(-1, rows, columns, _PROJECTED)
        condition = None
        if vectors.shape[1]:
            condition = jax.nn.gelu(hk.Linear(_CONDITION)(vectors))
        shape = rows, columns, self.channels
        small = hk.initializers.TruncatedNormal(0.02)
        embedding = hk.get_parameter("position_embedding", shape, init=small)
        values = hk.Conv2D(self.channels, 3)(grid) + embedding[None]
        zeros = hk.initializers.Constant(0.0)  # nothing changes before training
        for _ in range(self.blocks):
            change = _norm(values)
            if condition is not None:
                film = hk.Linear(2 * self.channels, w_init=zeros)(condition)
                film = film[:, None, None]
                change = change * (1 + film[..., : self.channels])
                change = change + film[..., self.channels :]
            change = hk.Conv2D(self.channels, 3)(jax.nn.gelu(change))
            change = hk.Conv2D(self.channels, 3)(jax.nn.gelu(_norm(change)))
            values = values + change
        last = hk.Linear(_BLOCK * _BLOCK * outputs, w_init=zeros)(_norm(values))
        return _pixels(last, outputs)[:, :height, :width]


def _norm(values: Grid) -> Grid:
    return hk.LayerNorm(-1, create_scale=True, create_offset=True)(values)


def _blocks(images: Images) -> Grid:
    """Turn the pixels of every block into channels of one place."""
    _, height, width, channels = images.shape
    rows, columns = height // _BLOCK, width // _BLOCK
    parts = images.reshape(-1, rows, _BLOCK, columns, _BLOCK, channels)
    parts = parts.transpose(0, 1, 3, 2, 4, 5)
    return parts.reshape(-1, rows, columns, _BLOCK * _BLOCK * channels)


def _pixels(grid: Grid, channels: int) -> Outputs:
    """Undo `_blocks`."""
    _, rows, columns, _ = grid.shape
    parts = grid.reshape(-1, rows, columns, _BLOCK, _BLOCK, channels)
    parts = parts.transpose(0, 1, 3, 2, 4, 5)
    return parts.reshape(-1, rows * _BLOCK, columns * _BLOCK, channels)
