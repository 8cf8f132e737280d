"""Losses of targets under released models."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32

from shadow.data import Examples
from shadow.precision import highest
from shadow.training import cross_entropy
from shadow.victims import Victim

_MODELS_AT_ONCE = 16


def target_losses(
    victim: Victim, weights: Float32[np.ndarray, "models params"], examples: Examples
) -> Float[np.ndarray, "models examples"]:
    """Cross-entropy of each example under each model, in nats."""
    losses = _losses(victim, jnp.asarray(weights), examples.images, examples.labels)
    return np.asarray(losses, np.float64)


@functools.partial(jax.jit, static_argnums=0)
@highest
def _losses(victim: Victim, thetas: Array, images: Array, labels: Array) -> Array:
    def one(theta: Array) -> Array:
        return cross_entropy(victim.apply(victim.unflatten(theta), images), labels)

    return jax.lax.map(one, thetas, batch_size=_MODELS_AT_ONCE)
