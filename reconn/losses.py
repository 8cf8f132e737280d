"""Losses between reconstructed and true images, and the error they are judged by."""

import jax.numpy as jnp
from jaxtyping import Array, Float32

Batch = Float32[Array, "models height width channels"]


def mae_plus_mse(reconstructed: Batch, images: Batch) -> Float32[Array, ""]:
    """Mean absolute plus mean squared error per pixel (Table V, MNIST)."""
    error = reconstructed - images
    return jnp.mean(jnp.abs(error)) + jnp.mean(jnp.square(error))


def mse(reconstructed: Batch, images: Batch) -> Float32[Array, ""]:
    """Mean squared error per pixel."""
    return jnp.mean(jnp.square(reconstructed - images))
