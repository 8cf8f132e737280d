"""Dense and convolution layers of networks, laid out for many models at once.

`architectures` builds victims of them. Dense activations are (features, examples),
those of convolutions (channels, examples, rows, columns).
"""

import itertools
import math
from collections.abc import Callable

import haiku as hk
import jax.numpy as jnp
from jaxtyping import Array

Initialiser = Callable[[int], hk.initializers.Initializer]


class Dense(hk.Module):
    """A dense layer on (features, examples): its product and its bias, separately.

    Weights w (`in`, `width`) by w_init(in), and b (`width`,), as in hk.Linear.
    """

    def __init__(self, width: int, w_init: Initialiser, name: str) -> None:
        super().__init__(name=name)
        self.width, self.w_init = width, w_init

    def product(self, inputs: Array) -> Array:
        """Return w^T inputs, without the bias."""
        fan_in = inputs.shape[0]
        shape = (fan_in, self.width)
        return hk.get_parameter("w", shape, jnp.float32, self.w_init(fan_in)).T @ inputs

    def shift(self, products: Array) -> Array:
        """Add the bias to products of the weights."""
        b = hk.get_parameter("b", (self.width,), jnp.float32, jnp.zeros)
        return products + b[:, None]


class Conv(hk.Module):
    """A VALID convolution on (channels, examples, height, width).

    Weights (size, size, in, channels) as in hk.Conv2D. It is one matrix product with
    all patches: XLA's own convolution becomes a grouped one under `vmap` over models,
    which on a CPU took 18 times as long (3,005 against 166 us per image and step).
    """

    def __init__(
        self, channels: int, size: int, stride: int, w_init: Initialiser, name: str
    ) -> None:
        super().__init__(name=name)
        self.channels, self.size, self.stride = channels, size, stride
        self.w_init = w_init

    def __call__(self, inputs: Array) -> Array:
        """Convolve inputs (channels, examples, height, width), and add the bias."""
        b = hk.get_parameter("b", (self.channels,), inputs.dtype, jnp.zeros)
        return self.product(self.patches(inputs)) + b[:, None, None, None]

    def patches(self, inputs: Array) -> Array:
        """Return the patches (size * size * channels, examples, rows, columns)."""
        size, stride = self.size, self.stride
        rows, columns = ((extent - size) // stride + 1 for extent in inputs.shape[2:])
        high, wide = stride * (rows - 1) + 1, stride * (columns - 1) + 1
        taps = itertools.product(range(size), repeat=2)
        return jnp.concatenate(
            [
                inputs[:, :, i : i + high : stride, j : j + wide : stride]
                for i, j in taps
            ]
        )

    def product(self, patches: Array) -> Array:
        """Return w^T patches, without the bias."""
        fan_in, size = len(patches), self.size
        shape = (size, size, fan_in // size**2, self.channels)
        w = hk.get_parameter("w", shape, patches.dtype, self.w_init(fan_in))
        flat = w.reshape(fan_in, -1).T @ patches.reshape(fan_in, -1)
        return flat.reshape(-1, *patches.shape[1:])


# Each takes the fan-in, by the definition of hk.Linear and hk.ConvND.
INITIALISERS: dict[str, Initialiser] = {
    "lecun_normal": lambda fan_in: hk.initializers.TruncatedNormal(
        1 / math.sqrt(fan_in)
    ),
    "he_normal": lambda fan_in: hk.initializers.VarianceScaling(
        2.0, "fan_in", "truncated_normal"
    ),
    "glorot_uniform": lambda fan_in: hk.initializers.VarianceScaling(
        1.0, "fan_avg", "uniform"
    ),
}
