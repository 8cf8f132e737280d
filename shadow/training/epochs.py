"""Losses and mini-batches of `gradient_descent`; counts of private steps, for bounds.

Attacks that differentiate training take the same losses. `Factory.mechanism` and
`informed.experiment.protection` call `steps_taken`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32

from dp.gradient import PrivacyConfig
from shadow.training.private import participants


def cross_entropy(
    logits: Float[Array, "examples classes"], labels: Int32[Array, " examples"]
) -> Float[Array, " examples"]:
    """Compute the cross-entropy of each example, in nats.

    The same as optax's; laid out (classes, examples) like the victims' activations,
    which makes the whole training about 6 % faster on a CPU.
    """
    by_class = logits.T
    truth = jax.nn.one_hot(labels, len(by_class), axis=0, dtype=logits.dtype)
    return jax.nn.logsumexp(by_class, axis=0) - (by_class * truth).sum(axis=0)


def epoch_batches(
    key: Array, num_examples: int, batch_size: int
) -> Int32[Array, "batches batch_size"]:
    """Draw an epoch's mini-batches: a random order of 0 .. num_examples - 1, cut up.

    The last batch is filled with `num_examples + 1`, the index of no example; index
    num_examples - 1 is the target, the others are positions in the fixed set.
    """
    order = jax.random.permutation(key, num_examples).astype(jnp.int32)
    missing = -num_examples % batch_size
    padding = jnp.full((missing,), num_examples + 1, jnp.int32)
    return jnp.concatenate([order, padding]).reshape(-1, batch_size)


def steps_taken(
    privacy: PrivacyConfig, epochs: int, key: Array, num_fixed: int
) -> Int32[np.ndarray, " examples"]:
    """Count the private steps in which each example takes part, for privacy bounds.

    Args:
      key: the key that `GradientDescent.train` gets for the order.
    Returns: one count per example of D_-, and last that of the target.
    """
    count = num_fixed + 1

    def step(total: Array, number: Array) -> tuple[Array, None]:
        part = participants(privacy, key, number, count)
        return total + (1 if part is None else part.astype(jnp.int32)), None

    total, _ = jax.lax.scan(step, jnp.zeros(count, jnp.int32), jnp.arange(epochs))
    return np.asarray(total)
