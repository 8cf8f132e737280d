"""The compiled steps of a RecoNN's training, an epoch at a time."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from reconn import losses
from reconn.batches import Batches
from reconn.config import ReconnConfig
from reconn.networks import Network
from shadow.victims import Params

LOWER = "Lower reconn.learning_rate, and begin in another folder."


class Steps:
    """The compiled steps of one training run."""

    def __init__(
        self,
        network: Network,
        config: ReconnConfig,
        steps: int,
        key: Array,
    ) -> None:
        """`steps`: of an epoch."""
        self.network, self.steps = network, steps
        self.init_key, self.order_key, self.dropout_key = jax.random.split(key, 3)
        self.optimiser = _optimiser(config, steps)
        self._steps = jax.jit(self._scan_steps, donate_argnums=0)

    def start(self) -> dict[str, Any]:
        """The state before the first epoch."""
        params = self.network.init(self.init_key)
        return {
            "params": params,
            "optimiser": self.optimiser.init(params),
            "best": jax.tree.map(jnp.copy, params),
            "best_mse": jnp.float32(jnp.inf),
        }

    def epoch(
        self, state: dict[str, Any], batches: Batches, epoch: int
    ) -> tuple[dict[str, Any], float]:
        """One pass in a new order; returns the state and the mean loss."""
        rng = np.random.default_rng(
            np.asarray(jax.random.key_data(jax.random.fold_in(self.order_key, epoch)))
        )
        keys = jax.random.split(jax.random.fold_in(self.dropout_key, epoch), self.steps)
        moving = (state["params"], state["optimiser"])
        done, total = 0, 0.0
        for inputs, images in batches.epoch(rng.permutation(len(batches))):
            rows = slice(done, done + len(inputs))
            moving, values = self._steps(moving, inputs, images, keys[rows])
            mean = float(values.mean())
            if not math.isfinite(mean):
                raise FloatingPointError(
                    f"The RecoNN's loss became {mean} in epoch {epoch + 1}, steps"
                    f" {done + 1} to {rows.stop} of {self.steps}. {LOWER}"
                )
            done, total = rows.stop, total + float(values.sum())
        params, optimiser_state = moving
        return state | {"params": params, "optimiser": optimiser_state}, (
            total / self.steps
        )

    def _scan_steps(
        self,
        moving: Any,
        inputs: Array,
        images: Array,
        keys: Array,
    ) -> tuple[Any, Array]:
        """Several steps in one call: (params, optimiser), their losses."""

        def loss(params: Params, inputs: Array, images: Array, key: Array) -> Array:
            reconstructed = self.network.apply_dropout(params, key, inputs)
            return losses.mae_plus_mse(reconstructed, images)

        def step(moving: Any, batch: tuple[Array, ...]) -> tuple[Any, Array]:
            params, optimiser_state = moving
            value, gradient = jax.value_and_grad(loss)(params, *batch)
            change, optimiser_state = self.optimiser.update(
                gradient, optimiser_state, params
            )
            return (optax.apply_updates(params, change), optimiser_state), value

        return jax.lax.scan(step, moving, (inputs, images, keys))


def _optimiser(
    config: ReconnConfig, steps_per_epoch: int
) -> optax.GradientTransformation:
    """The optax optimiser with its schedule."""
    warmup = round(config.warmup_epochs * steps_per_epoch)
    total = max(config.epochs * steps_per_epoch, warmup + 1)
    rise = optax.linear_schedule(0.0, config.learning_rate, warmup)
    if config.schedule == "cosine":
        rest = optax.cosine_decay_schedule(config.learning_rate, total - warmup)
    else:
        rest = optax.constant_schedule(config.learning_rate)
    rate = optax.join_schedules([rise, rest], [warmup])
    if config.optimiser == "rmsprop":
        return optax.rmsprop(rate, initial_scale=1.0)
    return optax.adamw(rate, weight_decay=config.weight_decay)
