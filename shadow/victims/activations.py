"""Activation functions by name; ReLUs with a useful second derivative.

Victims (`architectures`) and the RecoNN (`reconn.modules`) look them up. ReLU and leaky
ReLU have their exact values and gradients, so training is unchanged. Their second
derivative, which only derivatives *of* training use, is a narrow bump instead of zero.
When a target moves, some units switch between active and inactive on some examples, and
the bump estimates how many. With zero, inversion ends ten times as far off.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

_BUMP = 0.03  # scale of the bump, a logistic density; activations move by less


@jax.custom_jvp
def _step(x: Array) -> Array:
    return (x > 0).astype(x.dtype)


@_step.defjvp
def _step_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    x, moved = primals[0], tangents[0]
    below = jax.nn.sigmoid(x / _BUMP)
    return _step(x), moved * below * (1 - below) / _BUMP


@jax.custom_jvp
def relu(x: Array) -> Array:
    """Compute max(x, 0), with derivative 0 at 0."""
    return jnp.maximum(x, 0)


@relu.defjvp
def _relu_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    return relu(primals[0]), _step(primals[0]) * tangents[0]


def leaky_relu(x: Array) -> Array:
    """Compute x where positive, else x / 100."""
    return 0.01 * x + 0.99 * relu(x)


def elu(x: Array) -> Array:
    """Compute x where positive, else exp(x) - 1; faster than `jax.nn.elu` on a CPU."""
    return jnp.where(x > 0, x, jnp.exp(jnp.where(x > 0, 0, x)) - 1)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "elu": elu,
    "gelu": jax.nn.gelu,
    "leaky_relu": leaky_relu,
    "relu": relu,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
}
