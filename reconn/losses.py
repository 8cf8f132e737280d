"""What a RecoNN minimises, and the error it is judged by.

MNIST: mean absolute plus mean squared error. CIFAR-10: LPIPS and a discriminator's
judgement besides (least-squares GAN, Mao et al. 2017). Weights of the terms are ours,
the paper names none.
Source: Balle et al. 2022, Section V-A c), Table V.
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float32

from shadow import checks

Batch = Float32[Array, "models height width channels"]
Scores = Float32[Array, "..."]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LossConfig:
    """Weights of the terms; 0 leaves a term out.

    Attributes:
      mae, mse: mean absolute and mean squared error per pixel.
      lpips: perceptual distance; needs the extra "lpips".
      adversarial: the discriminator's judgement,
      discriminator_learning_rate: the constant rate at which the discriminator learns,
        by Adam.
    """

    mae: float = 1.0
    mse: float = 1.0
    lpips: float = 0.0
    adversarial: float = 0.0
    discriminator_learning_rate: float = 1e-5

    def __post_init__(self) -> None:
        terms = ("mae", "mse", "lpips", "adversarial")
        for field in (*terms, "discriminator_learning_rate"):
            checks.at_least(field, getattr(self, field), 0)
        if not any(getattr(self, field) for field in terms[:3]):
            raise checks.FieldError(
                "mse",
                "Expected {}, or mae or lpips, > 0: nothing else ties the"
                " reconstruction to its target.",
            )


def pixels(
    reconstructed: Batch, images: Batch, config: LossConfig
) -> Float32[Array, ""]:
    """The terms that compare pixels."""
    error = reconstructed - images
    return config.mae * jnp.mean(jnp.abs(error)) + config.mse * jnp.mean(
        jnp.square(error)
    )


def fooled(of_made: Scores) -> Float32[Array, ""]:
    """What the RecoNN minimises: a discriminator sees 1 in what is real."""
    return jnp.mean(jnp.square(of_made - 1))


def judged(of_real: Scores, of_made: Scores) -> Float32[Array, ""]:
    """What the discriminator minimises."""
    return jnp.mean(jnp.square(of_real - 1)) + jnp.mean(jnp.square(of_made))


def mse(reconstructed: Batch, images: Batch) -> Float32[Array, ""]:
    """Mean squared error per pixel."""
    return jnp.mean(jnp.square(reconstructed - images))
