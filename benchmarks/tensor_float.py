"""The default victim as an accelerator trains it in TF32: factors of 11 bits."""

import haiku as hk
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

import shadow


def victim(image_shape: tuple[int, ...], num_classes: int) -> shadow.Victim:
    """Table V's MLP; every factor of a product loses 13 of its 24 bits, sums none."""

    def network(images: Array) -> Array:
        hidden = _dense("hidden_0", images.reshape(len(images), -1), 10)
        return _dense("output", jax.nn.elu(hidden), num_classes)

    return shadow.from_haiku(network, image_shape=image_shape, num_classes=num_classes)


def _dense(name: str, values: Array, width: int) -> Array:
    class Dense(hk.Module):
        def __call__(self, values: Array) -> Array:
            shape = (values.shape[1], width)
            w = hk.get_parameter("w", shape, init=jnp.zeros)
            b = hk.get_parameter("b", (width,), init=jnp.zeros)
            return _product(values, w) + b[None]

    return Dense(name=name)(values)


def _short(values: Array) -> Array:
    return jax.lax.reduce_precision(values, exponent_bits=8, mantissa_bits=10)


@jax.custom_vjp
def _product(values: Float[Array, "n i"], w: Float[Array, "i o"]) -> Array:
    return _short(values) @ _short(w)


def _forward(values: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    return _product(values, w), (values, w)


def _backward(kept: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    values, w = map(_short, kept)
    return _short(slope) @ w.T, values.T @ _short(slope)


_product.defvjp(_forward, _backward)
