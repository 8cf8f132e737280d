"""Forms of the CNN under attack: the same network in small groups of examples, faster.

The CNN is that of Table VI of Balle et al. 2022. Its forms compute the same logits in
different ways, so that intermediates fit in the cache or move less. The user picks one
by name (`GradientDescent.form`, `--form`), or `Victim.form` picks one for the device.
`architectures` makes them. The rest describes `cnn`, the default on a CPU.

The plain form copies 190 kB of patches per example. For a whole data set they exceed
the cache, and training waits for memory. The second convolution is nearly all of the
work. Along rows we use Toom-Cook
(`toom_cook`), which computes three outputs at a time with 6 products instead of 12.
Along columns a window of five gives two outputs at once, as one product (80 x 64),
because products with thin matrices are slow; a fifth of its entries are zeros. In total
this takes 0.625 of the products and copies 11,520 numbers per example instead of
36,864. The first convolution has stride 2, so we compute it as one of 2 x 2 with stride
1 on blocks of 2 x 2 pixels. Its output rows are reordered for Toom-Cook: rows whose
indices agree modulo three lie together.
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
_TAPS, _ROWS, _COLUMNS = 4, 3, 2  # side of a kernel; outputs of a tile, of a window
_WINDOW = _COLUMNS + _TAPS - 1
_EXAMPLES = 10  # per group on a CPU; measured: 5, 10 and 20 within 5 % of each other
# Examples per group on a GPU. By the programs that XLA compiles for an H100, patches of
# 5,000 examples at once move 10.5 GB per model and epoch, groups of 500 move 6 GB.
GPU_GROUP_SIZE = 500
# Names of the forms, as users write them.
WHOLE, TOOM_COOK, PATCHES = "whole", "toom-cook", "patches"


@dataclasses.dataclass(frozen=True, eq=False)
class Groups:
    """A form of a network that takes a small group of examples at a time.

    Attributes:
      size: examples per group.
      prepare: images (examples, height, width, channels) -> an array (examples, ...).
      convert: params -> the weights as `apply` takes them; a linear function.
      apply: (converted params, prepared images) -> logits (examples, classes).
    """

    size: int
    prepare: Callable[[Any], Array]
    convert: Callable[[Params], Any]
    apply: Callable[[Any, Array], Array]


class _Cnn:
    """The array sizes of `cnn`, and the three functions of its `Groups`."""

    def __init__(
        self,
        image_shape: tuple[int, ...],
        activation: Callable[[Array], Array],
        layers: tuple[str, ...],
    ) -> None:
        self.image_shape, self.activation, self.layers = image_shape, activation, layers
        # Rows and columns of the second convolution's outputs, and how many tiles of
        # rows and windows of columns cover them.
        self.outputs = tuple(
            (side - _TAPS) // 2 + 1 - (_TAPS - 1) for side in image_shape[:2]
        )
        self.tiles = -(-self.outputs[0] // _ROWS)
        self.windows = -(-self.outputs[1] // _COLUMNS)
        # The first convolution's outputs are padded to whole tiles and windows.
        self.blocks = self.tiles + 1
        self.rows = self.blocks * _ROWS
        self.columns = self.windows * _COLUMNS + _TAPS - 1

    def prepare(self, images: Any) -> Array:
        """Rearrange blocks of 2 x 2 pixels as channels; see `Groups.prepare`."""
        height, width, channels = self.image_shape
        rows, columns = self.rows, self.columns
        images, none = jnp.asarray(images), (0, 0, 0)
        below, right = (
            (0, 2 * (rows + 1) - height, 0),
            (0, 2 * (columns + 1) - width, 0),
        )
        zero = jnp.zeros((), images.dtype)
        padded = jax.lax.pad(images, zero, [none, below, right, none])
        cut = padded.reshape(-1, rows + 1, 2, columns + 1, 2, channels)
        return cut.transpose(0, 1, 3, 2, 4, 5).reshape(
            -1, rows + 1, columns + 1, 4 * channels
        )

    def convert(self, params: Params) -> dict[str, Any]:
        """Evaluate kernels at Toom-Cook's points, order dense weights by tile."""
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
        none = (0, 0)
        shifts = [(t, _COLUMNS - 1 - t) for t in range(_COLUMNS)]
        window = jnp.stack(
            [jnp.pad(kernel, [none, shift, none, none]) for shift in shifts], axis=3
        )
        classes = output["w"].shape[-1]
        dense = output["w"].reshape(*outputs, units, classes)
        below = 0, tiles * _ROWS - outputs[0]
        right = 0, windows * _COLUMNS - outputs[1]
        dense = jnp.pad(dense, [below, right, none, none])
        dense = dense.reshape(tiles, _ROWS, -1, classes)
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
        """Compute logits, the second convolution by Toom-Cook along rows."""
        blocks, tiles, windows = self.blocks, self.tiles, self.windows
        rows, columns, activation = self.rows, self.columns, self.activation
        count, depth = len(blocked), len(weights["first_shift"])
        patches = jnp.concatenate(
            [blocked[:, i : i + rows, j : j + columns] for i in (0, 1) for j in (0, 1)],
            axis=-1,
        )
        patches = patches.reshape(-1, patches.shape[-1])
        values = activation(patches @ weights["first"] + weights["first_shift"][None])
        rows_modulo_3 = _unstack(values.reshape(count, blocks, _ROWS, -1), axis=2)
        inputs = [
            rows_modulo_3[k % _ROWS][:, k // _ROWS : k // _ROWS + tiles]
            for k in range(len(toom_cook.B))
        ]
        # (points, examples, tiles, columns * in)
        at_points = jnp.stack(_combinations(toom_cook.B, inputs))
        by_column = jax.lax.split(at_points, [depth] * columns, axis=3)
        in_windows = jnp.stack(
            [
                jnp.concatenate(by_column[start : start + _WINDOW], axis=3)
                for start in range(0, windows * _COLUMNS, _COLUMNS)
            ],
            axis=3,
        )
        in_windows = in_windows.reshape(len(in_windows), -1, _WINDOW * depth)
        products = in_windows @ weights["second"]
        logits = weights["dense_shift"][None]
        output_rows = _combinations(toom_cook.A, _unstack(products))
        for dense, row in zip(_unstack(weights["dense"]), output_rows, strict=True):
            values = row.reshape(-1, len(weights["second_shift"]))
            values = activation(values + weights["second_shift"][None])
            logits = logits + values.reshape(count, -1) @ dense.T
        for w, bias in weights["others"]:
            logits = activation(logits) @ w + bias[None]
        return logits


def plain(apply: Callable[[Params, Any], Array], size: int) -> Groups:
    """Return the form that takes groups of `size` examples through `apply` itself."""
    return Groups(size, jnp.asarray, lambda params: params, apply)


def cnn(
    image_shape: tuple[int, ...],
    activation: Callable[[Array], Array],
    layers: tuple[str, ...],
) -> Groups:
    """Return the cache-friendly form: two convolutions of 4 x 4, then dense layers.

    Args:
      image_shape: (height, width, channels), large enough for both convolutions.
      activation: the activation after each layer but the last.
      layers: names of the dense layers, in their order, beside conv_0 (stride 2) and
        conv_1; each has parameters w and b.
    """
    network = _Cnn(image_shape, activation, layers)
    return Groups(_EXAMPLES, network.prepare, network.convert, network.apply)


def _combinations(
    matrix: Float[np.ndarray, "rows points"], values: list[Array]
) -> list[Array]:
    """Compute linear combinations of `values`, one per row of the matrix."""
    zero = jnp.zeros((), values[0].dtype)
    combinations = []
    for row in matrix:
        terms = (float(f) * v for f, v in zip(row, values, strict=True) if f)
        combinations.append(sum(terms, start=zero))
    return combinations


def _unstack(values: Array, axis: int = 0) -> list[Array]:
    """Split an array into its slices along an axis.

    We use `split`, whose gradient is one concatenation. With indexing it is a sum of
    padded arrays, and the whole gradient takes 1.2 times as long.
    """
    parts = jax.lax.split(values, [1] * values.shape[axis], axis)
    return [part.squeeze(axis) for part in parts]
