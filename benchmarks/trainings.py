"""Training as users write it, in JAX: what inversion is tried on beside our own A.

Each is a pure function train(images, labels, key) -> weights, with one habit of real
training code: dropout, crops and flips, batch normalisation, pooling, schedules, AdamW.
All randomness comes from the key.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """One network and its training.

    Attributes:
      activation: of the hidden layer.
      optimiser: "sgd" (momentum 0.9), "adam", "adamw".
      learning_rate: the highest.
      cosine: whether it falls to 0 by a cosine.
      epochs: passes over the data.
      batch_size: None for full batches; otherwise a new order every epoch.
      dropout: rate, on the hidden layer.
      augment: shift every image by up to one pixel and flip half of them, each step.
      normalise: batch normalisation before the activation; running averages are
        released with the weights.
      pool: a convolution of 3 x 3 with 8 channels and 2 x 2 max pooling come first.
    """

    activation: str = "tanh"
    optimiser: str = "sgd"
    learning_rate: float = 0.1
    cosine: bool = False
    epochs: int = 60
    batch_size: int | None = None
    dropout: float = 0.0
    augment: bool = False
    normalise: bool = False
    pool: bool = False


RECIPES = {
    "leaky ReLU": Recipe(activation="leaky_relu"),
    "max pooling": Recipe(pool=True, learning_rate=0.05),
    "dropout of 0.2, key known": Recipe(dropout=0.2),
    "crops and flips, key known": Recipe(augment=True),
    "batch normalisation": Recipe(normalise=True),
    "cosine schedule": Recipe(cosine=True, learning_rate=0.2),
    "Adam, ReLU": Recipe(activation="relu", optimiser="adam", learning_rate=0.003),
    "AdamW, batches of 32 in known order": Recipe(
        optimiser="adamw", learning_rate=0.003, batch_size=32
    ),
    "Adam, ReLU, batches of 32 in known order": Recipe(
        activation="relu", optimiser="adam", learning_rate=0.003, batch_size=32
    ),
}


def train_by(recipe: Recipe, hidden: int = 10) -> Callable[..., Any]:
    """The training function of a recipe.

    Returns: (images (examples, height, width, channels), labels (examples,), key) ->
      a tree of weights.
    """

    def train(images: Array, labels: Array, key: Array) -> Any:
        start_key, order_key = jax.random.split(key)
        count = len(images)
        size = min(recipe.batch_size or count, count)
        steps = -(-count // size)
        params, moments = _start(recipe, images, hidden, start_key)
        optimiser = _optimiser(recipe, recipe.epochs * steps)

        def loss(params: Any, moments: Any, rows: Array, key: Array) -> Any:
            present = rows < count  # the last batch is filled up with nobody
            rows = jnp.minimum(rows, count - 1)
            logits, moments = _apply(
                recipe, params, moments, images[rows], present, key
            )
            each = optax.softmax_cross_entropy_with_integer_labels(logits, labels[rows])
            return jnp.where(present, each, 0).sum() / present.sum(), moments

        def step(state: Any, now: Any) -> Any:
            params, moments, memory = state
            slopes, moments = jax.grad(loss, has_aux=True)(params, moments, *now)
            change, memory = optimiser.update(slopes, memory, params)
            return (optax.apply_updates(params, change), moments, memory), None

        def epoch(state: Any, key: Array) -> Any:
            order_key, step_key = jax.random.split(key)
            order = jnp.arange(count)
            if recipe.batch_size:
                order = jax.random.permutation(order_key, count)
            missing = jnp.full((steps * size - count,), count, order.dtype)
            batches = jnp.concatenate([order, missing]).reshape(steps, size)
            keys = jax.random.split(step_key, steps)
            return jax.lax.scan(step, state, (batches, keys))[0], None

        state = (params, moments, optimiser.init(params))
        keys = jax.random.split(order_key, recipe.epochs)
        params, moments, _ = jax.lax.scan(jax.checkpoint(epoch), state, keys)[0]
        return params, moments

    return train


def _optimiser(recipe: Recipe, steps: int) -> optax.GradientTransformation:
    rate: Any = recipe.learning_rate
    if recipe.cosine:
        rate = optax.cosine_decay_schedule(rate, steps)
    if recipe.optimiser == "sgd":
        return optax.sgd(rate, momentum=0.9)
    # eps_root keeps derivatives at zero gradients finite
    return {"adam": optax.adam, "adamw": optax.adamw}[recipe.optimiser](
        rate, eps_root=1e-20
    )


def _start(recipe: Recipe, images: Array, hidden: int, key: Array) -> tuple[Any, Any]:
    keys = jax.random.split(key, 3)
    _, height, width, channels = images.shape
    inputs, params = height * width * channels, {}
    if recipe.pool:
        params["filters"] = jax.random.normal(keys[2], (3, 3, channels, 8)) / 3
        inputs = (height // 2) * (width // 2) * 8
    params["hidden"] = jax.random.normal(keys[0], (inputs, hidden)) / inputs**0.5
    params["bias"] = jnp.zeros(hidden)
    params["output"] = jax.random.normal(keys[1], (hidden, 10)) / hidden**0.5
    if not recipe.normalise:
        return params, {}
    params["scale"] = jnp.ones(hidden)
    return params, {"mean": jnp.zeros(hidden), "variance": jnp.ones(hidden)}


def _apply(
    recipe: Recipe, params: Any, moments: Any, x: Array, present: Array, key: Array
) -> tuple[Array, Any]:
    """Logits, in training, and the running averages."""
    drop_key, shift_key, flip_key = jax.random.split(key, 3)
    if recipe.augment:
        x = _augmented(x, shift_key, flip_key)
    if recipe.pool:
        x = jax.lax.conv_general_dilated(
            x,
            params["filters"],
            (1, 1),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        n, height, width, channels = x.shape
        blocks = x.reshape(n, height // 2, 2, width // 2, 2, channels)
        x = blocks.max(axis=(2, 4))
    x = x.reshape(len(x), -1) @ params["hidden"]
    if recipe.normalise:
        weight = present[:, None] / present.sum()
        mean = (weight * x).sum(axis=0)
        variance = (weight * (x - mean) ** 2).sum(axis=0)
        x = params["scale"] * (x - mean) / jnp.sqrt(variance + 1e-5)
        moments = {
            "mean": 0.9 * moments["mean"] + 0.1 * mean,
            "variance": 0.9 * moments["variance"] + 0.1 * variance,
        }
    x = getattr(jax.nn, recipe.activation)(x + params["bias"])
    if recipe.dropout:
        kept = jax.random.bernoulli(drop_key, 1 - recipe.dropout, x.shape)
        x = jnp.where(kept, x / (1 - recipe.dropout), 0)
    return x @ params["output"], moments


def _augmented(x: Array, shift_key: Array, flip_key: Array) -> Array:
    """Every image moved by up to one pixel each way, and half of them flipped."""
    n, height, width, _ = x.shape
    shifts = jax.random.randint(shift_key, (n, 2), 0, 3)
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))

    def crop(image: Array, shift: Array) -> Array:
        start = (shift[0], shift[1], 0)
        return jax.lax.dynamic_slice(image, start, (height, width, image.shape[-1]))

    x = jax.vmap(crop)(padded, shifts)
    flipped = jax.random.bernoulli(flip_key, 0.5, (n, 1, 1, 1))
    return jnp.where(flipped, x[:, :, ::-1], x)
