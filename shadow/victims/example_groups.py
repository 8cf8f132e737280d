"""The CNN of Table VI for few examples at a time, as a core's cache likes it.

The plain form makes 190 kB of patches an example; for a whole data set they leave the
cache, and training waits for memory. Here a training algorithm takes a group of
examples, adds its gradient to a sum and goes on (`shadow.training.grouped_gradients`).

The second convolution is nearly all of the work. Along rows it is done by Toom-Cook
(`toom_cook`), three outputs at a time with 6 products in place of 12. Along columns a
window of five gives two outputs at once, as one matrix product of 80 x 64, since
products with thin matrices are slow; a quarter of it are zeros. So it takes 0.625 of
the products, and copies 11,520 numbers an example in place of 36,864.

The first convolution has stride 2, so it is one of 2 x 2 with stride 1 on blocks of
2 x 2 pixels. Its outputs come in the order that Toom-Cook reads: every third row
together.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from shadow.victims import toom_cook

Params = Any
_TAPS, _ROWS, _COLUMNS = 4, 3, 2  # of a kernel; outputs of a tile, of a window
_WINDOW = _COLUMNS + _TAPS - 1
_EXAMPLES = 10  # measured: 5, 10 and 20 within 5 % of each other
# Read off the programs that XLA compiles for an H100: all patches of 5,000 examples at
# once move 10.5 GB a model and epoch, groups of 500 6 GB, and 10 models fit beside each
# other (docs/gpus.md).
FOR_ACCELERATORS = 500
# Forms of the CNN, by name.
WHOLE, TOOM_COOK, PATCHES = "whole", "toom-cook", "patches"
CONVOLUTIONS, ONE_BY_ONE = "convolutions", "one-by-one"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """A form of a network for few examples at a time.

    Attributes:
      size: examples in a group.
      prepare: images (examples, height, width, channels) -> an array (examples, ...).
      convert: params -> what `apply` takes of them; linear.
      apply: (converted params, prepared images) -> logits (examples, classes).
    """

    size: int
    prepare: Callable[[Any], Array]
    convert: Callable[[Params], Any]
    apply: Callable[[Any, Array], Array]


@dataclasses.dataclass(frozen=True, eq=False)
class _Cnn:
    """The sizes of `cnn`'s arrays, and its three functions.

    Attributes:
      image_shape: (height, width, channels) of an image.
      activation: the activation after each layer but the last.
      layers: names of the dense layers, in their order.
      outputs: (rows, columns) of the second convolution's outputs.
      tiles: the number of tiles of `_ROWS` rows that hold the outputs.
      windows: the number of windows of `_COLUMNS` columns that hold the outputs.
    """

    image_shape: tuple[int, ...]
    activation: Callable[[Array], Array]
    layers: tuple[str, ...]
    outputs: tuple[int, ...]
    tiles: int
    windows: int

    @property
    def blocks(self) -> int:
        """Tiles that the first convolution's outputs are filled up to."""
        return self.tiles + 1

    @property
    def rows(self) -> int:
        """Rows of the first convolution's outputs, filled up to whole tiles."""
        return self.blocks * _ROWS

    @property
    def columns(self) -> int:
        """Columns of the first convolution's outputs, filled up to whole windows."""
        return self.windows * _COLUMNS + _TAPS - 1

    def prepare(self, images: Any) -> Array:
        """See `Groups.prepare`: blocks of 2 x 2 pixels, as channels."""
        height, width, channels = self.image_shape
        rows, columns = self.rows, self.columns
        images = jnp.asarray(images)
        sides = 2 * (rows + 1), 2 * (columns + 1)
        fill = [
            (0, 0, 0),
            (0, sides[0] - height, 0),
            (0, sides[1] - width, 0),
            (0, 0, 0),
        ]
        padded = jax.lax.pad(images, jnp.zeros((), images.dtype), fill)
        cut = padded.reshape(-1, rows + 1, 2, columns + 1, 2, channels)
        return cut.transpose(0, 1, 3, 2, 4, 5).reshape(
            -1, rows + 1, columns + 1, 4 * channels
        )

    def convert(self, params: Params) -> dict[str, Any]:
        """See `Groups.convert`: kernels at Toom-Cook's points, dense layers by tile."""
        first_dense, *others = self.layers
        outputs, tiles, windows = self.outputs, self.tiles, self.windows
        channels = self.image_shape[2]
        first, second, output = (params[n] for n in ("conv_0", "conv_1", first_dense))
        units = second["w"].shape[-1]
        # (2 rows, 2 of a block, 2 columns, 2 of a block, in, out)
        blocked = first["w"].reshape(2, 2, 2, 2, channels, -1).swapaxes(1, 2)
        kernel = jnp.einsum(
            "pr,rcio->pcio", jnp.asarray(toom_cook.G, second["w"].dtype), second["w"]
        )
        sides = [(0, 0), None, (0, 0), (0, 0)]
        window = jnp.stack(
            [
                jnp.pad(kernel, [s or (t, _COLUMNS - 1 - t) for s in sides])
                for t in range(_COLUMNS)
            ],
            axis=3,
        )
        classes = output["w"].shape[-1]
        dense = output["w"].reshape(*outputs, units, classes)
        fill = [
            (0, tiles * _ROWS - outputs[0]),
            (0, windows * _COLUMNS - outputs[1]),
            (0, 0),
            (0, 0),
        ]
        dense = jnp.pad(dense, fill).reshape(tiles, _ROWS, -1, classes)
        return {
            "first": blocked.reshape(16 * channels, -1),
            "first_shift": first["b"],
            "second": window.reshape(len(kernel), -1, _COLUMNS * units),
            "second_shift": second["b"],
            "dense": dense.transpose(1, 3, 0, 2).reshape(_ROWS, classes, -1),
            "dense_shift": output["b"],
            "others": [(params[name]["w"], params[name]["b"]) for name in others],
        }

    def apply(self, weights: dict[str, Any], blocked: Array) -> Array:
        """See `Groups.apply`: the second convolution row by row, by Toom-Cook."""
        blocks, tiles, windows = self.blocks, self.tiles, self.windows
        rows, columns, activation = self.rows, self.columns, self.activation
        count, depth = len(blocked), len(weights["first_shift"])
        patches = jnp.concatenate(
            [blocked[:, i : i + rows, j : j + columns] for i in (0, 1) for j in (0, 1)],
            axis=-1,
        )
        patches = patches.reshape(-1, patches.shape[-1])
        values = activation(patches @ weights["first"] + weights["first_shift"][None])
        thirds = _apart(values.reshape(count, blocks, _ROWS, -1), axis=2)
        inputs = [
            thirds[k % _ROWS][:, k // _ROWS : k // _ROWS + tiles]
            for k in range(len(toom_cook.B))
        ]
        # (points, examples, tiles, columns * in)
        tall = jnp.stack(_mixed(toom_cook.B, inputs))
        steps = jax.lax.split(tall, [depth] * columns, axis=3)
        wide = jnp.stack(
            [
                jnp.concatenate(steps[start : start + _WINDOW], axis=3)
                for start in range(0, windows * _COLUMNS, _COLUMNS)
            ],
            axis=3,
        )
        products = wide.reshape(len(wide), -1, _WINDOW * depth) @ weights["second"]
        logits = weights["dense_shift"][None]
        for dense, activate in zip(
            _apart(weights["dense"]), _mixed(toom_cook.A, _apart(products)), strict=True
        ):
            values = activate.reshape(-1, len(weights["second_shift"]))
            values = activation(values + weights["second_shift"][None])
            logits = logits + values.reshape(count, -1) @ dense.T
        for w, b_of in weights["others"]:
            logits = activation(logits) @ w + b_of[None]
        return logits


def plain(apply: Callable[[Params, Any], Array], size: int) -> Groups:
    """The network as it is, for so many examples at a time."""
    return Groups(size=size, prepare=jnp.asarray, convert=lambda p: p, apply=apply)


def convolutions(
    activation: Callable[[Array], Array], layers: tuple[str, ...]
) -> Groups:
    """The CNN of `networks.build` by XLA's own convolutions, on a GPU those of cuDNN.

    Under `vmap` over models they become grouped convolutions, which can be slow; one
    model after another they stay what cuDNN is made for.
    """

    def apply(params: Params, images: Array) -> Array:
        values = images
        for name, stride in (("conv_0", 2), ("conv_1", 1)):
            values = jax.lax.conv_general_dilated(
                values,
                params[name]["w"],
                (stride, stride),
                "VALID",
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            )
            values = activation(values + params[name]["b"][None, None, None])
        values = values.reshape(len(images), -1)
        for i, name in enumerate(layers):
            values = values if not i else activation(values)
            values = values @ params[name]["w"] + params[name]["b"][None]
        return values

    return plain(apply, FOR_ACCELERATORS)


def cnn(
    image_shape: tuple[int, ...],
    activation: Callable[[Array], Array],
    layers: tuple[str, ...],
) -> Groups:
    """Two convolutions of 4 x 4, the first with stride 2, and dense layers.

    Args:
      image_shape: (height, width, channels), large enough for both convolutions.
      activation: the activation after each layer but the last.
      layers: names of the dense layers, in their order.
    Returns: a form that takes the parameters of `networks.build`: conv_0, conv_1 and
      the dense layers, each with w and b.
    """
    outputs = tuple((side - _TAPS) // 2 + 1 - (_TAPS - 1) for side in image_shape[:2])
    network = _Cnn(
        image_shape=image_shape,
        activation=activation,
        layers=layers,
        outputs=outputs,
        tiles=-(-outputs[0] // _ROWS),
        windows=-(-outputs[1] // _COLUMNS),
    )
    return Groups(
        size=_EXAMPLES,
        prepare=network.prepare,
        convert=network.convert,
        apply=network.apply,
    )


def _mixed(
    matrix: Float[np.ndarray, "rows points"], values: list[Array]
) -> list[Array]:
    """Combinations of `values`, one a row of the matrix."""
    return [
        sum(
            (
                float(factor) * value
                for factor, value in zip(row, values, strict=True)
                if factor
            ),
            start=jnp.zeros((), values[0].dtype),
        )
        for row in matrix
    ]


def _apart(values: Array, axis: int = 0) -> list[Array]:
    """What lies along an axis, one by one.

    By `split`, whose gradient is one concatenation. That of indexing is as many padded
    arrays as there are parts, and their sum: 1.2 times the time of the whole gradient.
    """
    parts = jax.lax.split(values, [1] * values.shape[axis], axis)
    return [part.squeeze(axis) for part in parts]
