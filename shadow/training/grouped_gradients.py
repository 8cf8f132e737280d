"""Gradients of a loss over many examples, summed one small group after the other.

For networks whose activations for all examples don't fit a core's cache, or take long
to move on a GPU (`Victim.form`). Groups have equal sizes; the last is filled up with
empty images of weight 0. `gradient_descent` and `private` call it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32

from shadow.victims import Params
from shadow.victims.cnn_forms import Groups


class Cut(NamedTuple):
    """Examples in groups of equal size, each with the weight of its loss."""

    images: Float[Array, "groups size ..."]
    labels: Int32[Array, "groups size"]
    weights: Float[Array, "groups size"]


def cut(
    size: int,
    images: Float[Array, "examples ..."],
    labels: Int32[Array, " examples"],
    weights: Float[Array, " examples"],
) -> Cut:
    """Cut prepared images (`Groups.prepare`), labels and loss weights into groups.

    `size` is the largest size of a group.
    """
    number = -(-len(images) // size)
    size = -(-len(images) // number)

    def parts(values: Array) -> Array:
        fill = [(0, number * size - len(values)), *[(0, 0)] * (values.ndim - 1)]
        return jnp.pad(values, fill).reshape(number, size, *values.shape[1:])

    return Cut(parts(images), parts(labels), parts(weights))


def gradient(
    groups: Groups,
    losses: Callable[[Array, Array], Array],
    params: Params,
    examples: Cut,
) -> Params:
    """Compute the gradient of a weighted sum of losses in the victim's parameters.

    Args:
      losses: (logits (examples, classes), labels (examples,)) -> (examples,).
    """
    converted, pull = jax.vjp(groups.convert, params)

    def of_group(group: Cut) -> Any:
        def loss(weights: Any) -> Array:
            of_examples = losses(groups.apply(weights, group.images), group.labels)
            return (group.weights * of_examples).sum()

        return jax.grad(loss)(converted)

    return pull(total(of_group, converted, examples))[0]


def total(of_group: Callable[[Cut], Any], like: Any, examples: Cut) -> Any:
    """Return the sum over groups of trees of arrays, of the shapes of `like`."""

    def add(before: Any, group: Cut) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, before, of_group(group)), None

    start = jax.tree.map(jnp.zeros_like, like)
    # Reverse mode through training stores only the sum of a group.
    kept = jax.checkpoint(add, prevent_cse=False)
    return jax.lax.scan(kept, start, examples)[0]
