"""The loss of a reconstructor network: pixel errors, LPIPS and a discriminator's score.

The paper uses mean absolute plus mean squared error on MNIST, and adds LPIPS and a
discriminator's score (least-squares GAN, Mao et al. 2017) on CIFAR-10. It names no
weights. `steps` trains by these terms, and `network` validates by `pixels`.

Source: Balle et al. 2022, Section V-A c), Table V.
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float32

from shadow import checks

Batch = Float32[Array, "models height width channels"]
Scores = Float32[Array, "..."]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loss:
    """Weights of the terms of the loss; 0 leaves a term out.

    Attributes:
      mae, mse: mean absolute and mean squared error per pixel.
      lpips: perceptual distance; needs the extra "lpips".
      adversarial: the score of a discriminator, which Adam trains at the constant rate
        `discriminator_learning_rate`.
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


def pixels(reconstructed: Batch, images: Batch, loss: Loss) -> Float32[Array, ""]:
    """Return the weighted sum of the two errors per pixel."""
    error = reconstructed - images
    return loss.mae * jnp.mean(jnp.abs(error)) + loss.mse * jnp.mean(jnp.square(error))


def fooled(of_guesses: Scores) -> Float32[Array, ""]:
    """Return the RecoNN's adversarial term: least where guesses are scored 1, real."""
    return jnp.mean(jnp.square(of_guesses - 1))


def judged(of_real: Scores, of_guesses: Scores) -> Float32[Array, ""]:
    """Return the discriminator's loss: least at scores 1 for real, 0 for guesses."""
    return jnp.mean(jnp.square(of_real - 1)) + jnp.mean(jnp.square(of_guesses))
