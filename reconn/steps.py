"""The compiled steps of a RecoNN's training, an epoch at a time."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from reconn import losses, perceptual
from reconn.batches import Batches
from reconn.config import ReconnConfig
from reconn.networks import Discriminator, Network, patch_discriminator
from reconn.placement import Placement
from shadow.victims import Params

LOWER = "Lower learning_rate, and begin in another folder."


class Steps:
    """The compiled steps of one training run."""

    def __init__(
        self,
        network: Network,
        config: ReconnConfig,
        steps: int,
        key: Array,
        *,
        image_shape: tuple[int, ...],
        placement: Placement,
    ) -> None:
        """Compile nothing yet.

        Args:
          network: the RecoNN.
          config: the configuration of the RecoNN and its training.
          steps: the number of steps in an epoch.
          key: the key of initialisation, order of batches and dropout.
          image_shape: (height, width, channels).
          placement: the devices that parameters and batches lie on.
        Raises: ImportError: the loss needs LPIPS, and the extra isn't installed.
        """
        self.network, self.config, self.steps = network, config, steps
        self.placement = placement
        self.init_key, self.order_key, self.dropout_key = jax.random.split(key, 3)
        self.optimiser = _optimiser(config, steps)
        loss = config.loss
        self._lpips = placement.tree(perceptual.load()) if loss.lpips else None
        self._discriminator: Discriminator | None = None
        if loss.adversarial:
            self._discriminator = patch_discriminator(image_shape)
        self._judging = optax.adam(loss.discriminator_learning_rate)
        self._steps = jax.jit(self._scan_steps, donate_argnums=0)

    def start(self) -> dict[str, Any]:
        """The state before the first epoch."""
        params = self.network.init(self.init_key)
        state = {
            "params": self.placement.tree(params),
            "optimiser": self.placement.tree(self.optimiser.init(params)),
            "best": self.placement.tree(jax.tree.map(jnp.copy, params)),
            "best_mse": self.placement.tree(jnp.float32(jnp.inf)),
        }
        if self._discriminator is not None:
            judge = self._discriminator.init(jax.random.fold_in(self.init_key, 1))
            state["discriminator"] = self.placement.tree(
                {"params": judge, "optimiser": self._judging.init(judge)}
            )
        return state

    def epoch(
        self, state: dict[str, Any], batches: Batches, epoch: int
    ) -> tuple[dict[str, Any], float]:
        """One pass in a new order; returns the state and the mean loss."""
        rng = np.random.default_rng(
            np.asarray(jax.random.key_data(jax.random.fold_in(self.order_key, epoch)))
        )
        own = jax.random.fold_in(self.dropout_key, epoch)
        keys = np.asarray(jax.random.key_data(jax.random.split(own, self.steps)))
        still = {name: state[name] for name in ("best", "best_mse")}
        moving = {name: state[name] for name in state.keys() - still.keys()}
        done, total = 0, 0.0
        for inputs, images in batches.epoch(rng.permutation(len(batches))):
            rows = slice(done, done + len(inputs))
            moving, values = self._steps(
                moving, *self.placement.batches(inputs, images), keys[rows], self._lpips
            )
            mean = float(values.mean())
            if not math.isfinite(mean):
                raise FloatingPointError(
                    f"The RecoNN's loss became {mean} in epoch {epoch + 1}, steps"
                    f" {done + 1} to {rows.stop} of {self.steps}. {LOWER}"
                )
            done, total = rows.stop, total + float(values.sum())
        return still | moving, total / self.steps

    def _scan_steps(
        self,
        moving: dict[str, Any],
        inputs: Array,
        images: Array,
        keys: Array,
        lpips: perceptual.Lpips | None,
    ) -> tuple[dict[str, Any], Array]:
        """Several steps in one call: what moves, and the losses."""

        def step(
            moving: dict[str, Any], batch: tuple[Array, Array, Array]
        ) -> tuple[dict[str, Any], Array]:
            inputs, images, key_data = batch
            key = jax.random.wrap_key_data(key_data)

            def loss(params: Params) -> tuple[Array, Array]:
                made = self.network.apply_dropout(params, key, inputs)
                return self._loss(made, images, moving, lpips), made

            (value, made), slope = jax.value_and_grad(loss, has_aux=True)(
                moving["params"]
            )
            new = _updated(self.optimiser, moving, slope)
            if "discriminator" in moving:
                new["discriminator"] = self._judge(
                    moving["discriminator"], images, made
                )
            return self.placement.constrained(new), value

        return jax.lax.scan(step, moving, (inputs, images, keys))

    def _loss(
        self,
        made: Array,
        images: Array,
        moving: dict[str, Any],
        lpips: perceptual.Lpips | None,
    ) -> Array:
        """All terms of a batch of reconstructions."""
        terms = self.config.loss
        value = losses.pixels(made, images, terms)
        if lpips is not None:
            value += terms.lpips * lpips(made, images).mean()
        if self._discriminator is not None:
            judge = moving["discriminator"]["params"]
            value += terms.adversarial * losses.fooled(
                self._discriminator.apply(judge, made)
            )
        return value

    def _judge(self, judge: dict[str, Any], images: Array, made: Array) -> Any:
        """One step of the discriminator."""
        assert self._discriminator is not None
        scores = self._discriminator.apply

        def loss(params: Params) -> Array:
            return losses.judged(scores(params, images), scores(params, made))

        return _updated(self._judging, judge, jax.grad(loss)(judge["params"]))


def _updated(
    optimiser: optax.GradientTransformation, moving: dict[str, Any], slope: Params
) -> dict[str, Any]:
    """params and optimiser after a step."""
    change, state = optimiser.update(slope, moving["optimiser"], moving["params"])
    return {"params": optax.apply_updates(moving["params"], change), "optimiser": state}


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
