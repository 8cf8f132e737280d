"""The compiled steps of a RecoNN's training, an epoch at a time."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from reconn import losses, perceptual
from reconn.batches import Batches
from reconn.config import ReconnConfig
from reconn.networks import Network, patch_discriminator
from reconn.placement import Placement
from shadow import devices
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
        resident: bool | None = None,
    ) -> None:
        """Compile nothing yet.

        Args:
          network: the RecoNN.
          config: the configuration of the RecoNN and its training.
          steps: the number of steps in an epoch.
          key: the key of initialisation, order of batches and dropout.
          image_shape: (height, width, channels).
          placement: the devices that parameters and batches lie on.
          resident: whether all features and images lie on the device, and batches are
            gathered there; None: on one accelerator that has twice the room for them.
        Raises: ImportError: the loss needs LPIPS, and the extra isn't installed.
        """
        self.network, self.config, self.steps = network, config, steps
        self.placement = placement
        self.init_key, self.order_key, self.dropout_key = jax.random.split(key, 3)
        self.optimiser = _optimiser(config, steps)
        loss = config.loss
        self._lpips = placement.tree(perceptual.load()) if loss.lpips else None
        self._discriminator: Network | None = None
        if loss.adversarial:
            self._discriminator = patch_discriminator(image_shape)
        self._judging = optax.adam(loss.discriminator_learning_rate)
        self._steps = jax.jit(self._scan_steps, donate_argnums=0)
        self._gathering = jax.jit(self._scan_rows, donate_argnums=0)
        # XLA's convolutions on a CPU have a fast form that loops can't use: in a scan,
        # even of one step, Table VII's take 25 times as long (`benchmarks.reconn`).
        self._one_by_one = devices.cache_bound() and config.convolutional
        self._resident = resident
        self._there: tuple[Array, ...] | None = None

    def start(self, params: Params | None = None) -> dict[str, Any]:
        """The state before the first epoch.

        Args:
          params: parameters to begin with; None: drawn from the key.
        """
        if params is None:
            params = self.network.init(self.init_key)
        else:  # the steps take their state's memory, which here is the caller's
            params = jax.tree.map(jnp.copy, params)
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
        rng = np.random.default_rng(self._order_seeds[epoch])
        own = jax.random.fold_in(self.dropout_key, epoch)
        keys: Any = jax.random.key_data(jax.random.split(own, self.steps))
        if len(self.placement.devices) > 1:
            keys = np.asarray(keys)  # to be divided among them
        still = {name: state[name] for name in ("best", "best_mse")}
        moving = {name: state[name] for name in state.keys() - still.keys()}
        order = rng.permutation(len(batches))
        if self._is_resident(batches):
            if self._there is None:
                self._there = self.placement.tree(batches.arrays)
            rows = batches.rows(order).astype(np.int32)
            moving, values = self._gathering(
                moving, *self._there, rows, keys, self._lpips
            )
            parts = [values]
        else:
            moving, parts = self._fed(moving, batches, order, keys)
        # The losses are read once an epoch: to read is to wait for the device.
        losses = np.concatenate(jax.device_get(parts))
        wrong = np.flatnonzero(~np.isfinite(losses))
        if len(wrong):
            raise FloatingPointError(
                f"The RecoNN's loss became {losses[wrong[0]]} in epoch {epoch + 1},"
                f" step {wrong[0] + 1} of {self.steps}. {LOWER}"
            )
        return still | moving, float(losses.mean(dtype=np.float64))

    @functools.cached_property
    def _order_seeds(self) -> np.ndarray:
        """Of the order of batches, a row an epoch."""
        epochs = jnp.arange(self.config.epochs)
        keys = jax.vmap(jax.random.fold_in, (None, 0))(self.order_key, epochs)
        return np.asarray(jax.random.key_data(keys))

    def _is_resident(self, batches: Batches) -> bool:
        """Decided once, when parameters and their moments are on the device."""
        if self._resident is None:
            self._resident = (
                not devices.cache_bound()
                and len(self.placement.devices) == 1
                and batches.nbytes <= devices.free_bytes() // 2
            )
        return self._resident

    def _fed(
        self, moving: dict[str, Any], batches: Batches, order: np.ndarray, keys: Any
    ) -> tuple[dict[str, Any], list[Array]]:
        """All steps of an epoch with batches from the host: what moves, the losses."""
        done, losses = 0, list[Array]()
        most = 1 if self._one_by_one else batches.steps
        some = (
            (inputs[i : i + most], images[i : i + most])
            for inputs, images in batches.epoch(order)
            for i in range(0, len(inputs), most)
        )
        for inputs, images in some:
            rows = slice(done, done + len(inputs))
            moving, values = self._steps(
                moving, *self.placement.batches(inputs, images), keys[rows], self._lpips
            )
            # One call computes, one waits with its batches on the device, no more.
            if losses:
                losses[-1].block_until_ready()
            losses.append(values)
            done = rows.stop
        return moving, losses

    def _scan_rows(
        self,
        moving: dict[str, Any],
        inputs: Array,
        images: Array,
        rows: Array,
        keys: Array,
        lpips: perceptual.Lpips | None,
    ) -> tuple[dict[str, Any], Array]:
        """All steps of an epoch in one call, with batches gathered on the device.

        Args:
          moving: what a step changes.
          inputs, images: of all models.
          rows: (steps, batch), int32.
          keys: (steps, ...), of dropout.
          lpips: the weights of LPIPS, where the loss has it.
        """

        def step(moving: dict[str, Any], now: Any) -> tuple[dict[str, Any], Array]:
            rows, key = now
            some = [
                whole.at[rows].get(mode="promise_in_bounds")
                for whole in (inputs, images)
            ]
            return self._step(moving, some[0], some[1], key, lpips)

        return jax.lax.scan(step, moving, (rows, keys))

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
            return self._step(moving, *batch, lpips)

        if self._one_by_one:
            moving, loss = step(moving, (inputs[0], images[0], keys[0]))
            return moving, loss[None]
        return jax.lax.scan(step, moving, (inputs, images, keys))

    def _step(
        self,
        moving: dict[str, Any],
        inputs: Array,
        images: Array,
        key_data: Array,
        lpips: perceptual.Lpips | None,
    ) -> tuple[dict[str, Any], Array]:
        """One step on a batch: what moves, and the loss."""
        key = jax.random.wrap_key_data(key_data)

        def loss(params: Params) -> tuple[Array, Array]:
            made = self.network.apply_dropout(params, key, inputs)
            return self._loss(made, images, moving, lpips), made

        (value, made), slope = jax.value_and_grad(loss, has_aux=True)(moving["params"])
        new = _updated(self.optimiser, moving, slope)
        if "discriminator" in moving:
            new["discriminator"] = self._judge(moving["discriminator"], images, made)
        return self.placement.constrained(new), value

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
