"""The compiled training steps of a reconstructor network and its discriminator.

`network` makes a `Steps` for each run and calls `epoch`. One compiled call takes
several steps, to save overhead, except for convolutions on a CPU. It writes no file.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from reconn import objective, perceptual
from reconn.feed import Batches
from reconn.modules import Pure, patch_discriminator
from reconn.objective import Loss
from reconn.placement import Placement
from shadow import devices

LOWER_THE_RATE = "Lower the learning rate, and begin in another folder."
_BEST = ("best", "best_mse")  # parts of the state that steps pass on


class Steps:
    """The compiled steps of one training run: state in, state and loss out.

    The state is a dict, which `network` saves: `params`, `optimiser` and, if there
    is one, `discriminator`, which the steps change; `best` and `best_mse`, which the
    module `network` sets after validation and the steps pass on. Records of validation
    never come here.
    """

    def __init__(
        self,
        network: Pure,
        optimiser: optax.GradientTransformation,
        loss: Loss,
        batches: Batches,
        *,
        epochs: int,
        key: Array,
        placement: Placement,
    ) -> None:
        """Prepare the steps for so many epochs at most; the first call compiles them.

        The key is that of initialisation, order of batches and dropout.

        Raises: ImportError: the loss needs LPIPS, and the extra isn't installed.
        """
        self.network, self.optimiser, self.loss = network, optimiser, loss
        self.batches, self.placement = batches, placement
        inputs, images = batches.arrays
        self.init_key, order_key, self.dropout_key = jax.random.split(key, 3)
        self._key_kind = jax.random.key_impl(key)
        order_keys = jax.vmap(jax.random.fold_in, (None, 0))(
            order_key, jnp.arange(epochs)
        )
        self._order_seeds = np.asarray(jax.random.key_data(order_keys))
        self._lpips = placement.tree(perceptual.load()) if loss.lpips else None
        self._discriminator = patch_discriminator(images.shape[1:])
        self._judging = optax.adam(loss.discriminator_learning_rate)
        self.scan = jax.jit(self._scan, donate_argnums=0)
        # XLA's convolutions on a CPU have a fast form that loops can't use: in a scan,
        # even of one step, Table VII's take 25 times as long (`benchmarks.reconn`).
        row = jax.ShapeDtypeStruct((1, inputs.shape[1]), jnp.float32)
        trace = str(jax.make_jaxpr(network.apply)(network.shapes, row))
        convolves = loss.lpips or loss.adversarial or "conv_general_dilated" in trace
        self._one_by_one = devices.cache_bound() and bool(convolves)
        self._resident: bool | None = None
        self._on_device: tuple[Array, ...] | None = None

    def start(self, params: Any = None) -> dict[str, Any]:
        """Return the state before the first epoch; parameters are drawn if None."""
        if params is None:
            params = self.network.init(self.init_key)
        else:  # the steps reuse their state's memory, which here is the caller's
            params = jax.tree.map(jnp.copy, params)
        state = {
            "params": params,
            # A state may hold the parameters themselves; no array is donated twice.
            "optimiser": jax.tree.map(jnp.copy, self.optimiser.init(params)),
            "best": jax.tree.map(jnp.copy, params),
            "best_mse": jnp.float32(jnp.inf),
        }
        if self.loss.adversarial:
            judge = self._discriminator.init(jax.random.fold_in(self.init_key, 1))
            state["discriminator"] = {
                "params": judge,
                "optimiser": self._judging.init(judge),
            }
        return self.placement.tree(state)

    def epoch(self, state: dict[str, Any], epoch: int) -> tuple[dict[str, Any], float]:
        """Pass over all batches in a new order; return the state and the mean loss.

        The memory of the given state is reused, so it can't be used again.

        Raises: FloatingPointError: a loss isn't finite.
        """
        batches, rng = self.batches, np.random.default_rng(self._order_seeds[epoch])
        epoch_key = jax.random.fold_in(self.dropout_key, epoch)
        keys: Any = jax.random.key_data(jax.random.split(epoch_key, batches.steps))
        if len(self.placement.devices) > 1:
            keys = np.asarray(keys)  # to be divided among them
        moving = {name: state[name] for name in state if name not in _BEST}
        order = rng.permutation(len(batches))
        if self._is_resident():
            if self._on_device is None:
                self._on_device = self.placement.tree(batches.arrays)
            fed: Iterable[Any] = [batches.rows(order).astype(np.int32)]
        else:
            at_once = 1 if self._one_by_one else batches.steps
            gathered = batches.epoch(order, at_once)
            fed = (self.placement.batches(*arrays) for arrays in gathered)
        done, parts = 0, list[Array]()
        for batch in fed:
            steps = slice(done, done + len(jax.tree.leaves(batch)[0]))
            moving, values = self.scan(
                moving, self._on_device, batch, keys[steps], self._lpips
            )
            # At most two calls are in flight, with their batches on the device.
            if parts:
                parts[-1].block_until_ready()
            parts.append(values)
            done = steps.stop
        # The losses are read once per epoch, because reading waits for the device.
        losses = np.concatenate(jax.device_get(parts))
        wrong = np.flatnonzero(~np.isfinite(losses))
        if len(wrong):
            raise FloatingPointError(
                f"The RecoNN's loss became {losses[wrong[0]]} in epoch {epoch + 1},"
                f" step {wrong[0] + 1} of {batches.steps}. {LOWER_THE_RATE}"
            )
        best = {name: state[name] for name in _BEST}
        return best | moving, float(losses.mean(dtype=np.float64))

    def _is_resident(self) -> bool:
        """Decide once whether the device holds all models and gathers batches there.

        After parameters and moments are there: models may take half of what is left.
        """
        if self._resident is None:
            self._resident = (
                not devices.cache_bound()
                and len(self.placement.devices) == 1
                and sum(a.nbytes for a in self.batches.arrays)
                <= devices.free_bytes() // 2
            )
        return self._resident

    def _scan(
        self,
        moving: dict[str, Any],
        arrays: tuple[Array, ...] | None,
        batches: Any,
        keys: Array,
        lpips: perceptual.Lpips | None,
    ) -> tuple[dict[str, Any], Array]:
        """Take several steps in one call; return the new state, and the losses.

        Args:
          moving: the part of the state that a step changes.
          arrays: features and images of all models, on the device; or None.
          batches: rows of these arrays, (steps, batch), int32; where they are None,
            features and images themselves, (steps, batch, ...).
          keys: (steps, ...), the keys of dropout.
        """

        def step(moving: dict[str, Any], now: Any) -> tuple[dict[str, Any], Array]:
            batch, key = now
            if arrays is not None:
                batch = [a.at[batch].get(mode="promise_in_bounds") for a in arrays]
            return self._step(moving, batch, key, lpips)

        if self._one_by_one and arrays is None:
            only = jax.tree.map(lambda values: values[0], (batches, keys))
            moving, loss = step(moving, only)
            return moving, loss[None]
        return jax.lax.scan(step, moving, (batches, keys))

    def _step(
        self,
        moving: dict[str, Any],
        batch: Sequence[Array],
        key_data: Array,
        lpips: perceptual.Lpips | None,
    ) -> tuple[dict[str, Any], Array]:
        """Take one step on a batch; return the new state, and the loss."""
        (inputs, images), terms = batch, self.loss
        key = jax.random.wrap_key_data(key_data, impl=self._key_kind)
        judge, discriminator = moving.get("discriminator"), self._discriminator

        def loss(params: Any) -> tuple[Array, Array]:
            guesses = self.network.apply_dropout(params, key, inputs)
            value = objective.pixels(guesses, images, terms)
            if lpips is not None:
                value += terms.lpips * lpips(guesses, images).mean()
            if judge is not None:
                scores = discriminator.apply(judge["params"], guesses)
                value += terms.adversarial * objective.fooled(scores)
            return value, guesses

        (value, guesses), slope = jax.value_and_grad(loss, has_aux=True)(
            moving["params"]
        )
        updated: dict[str, Any] = _updated(self.optimiser, moving, slope)
        if judge is not None:

            def judged(params: Any) -> Array:
                return objective.judged(
                    discriminator.apply(params, images),
                    discriminator.apply(params, guesses),
                )

            slope = jax.grad(judged)(judge["params"])
            updated["discriminator"] = _updated(self._judging, judge, slope)
        return self.placement.constrained(updated), value


def _updated(
    optimiser: optax.GradientTransformation, moving: Mapping[str, Any], slope: Any
) -> dict[str, Any]:
    """Return parameters and the optimiser's state after a step."""
    change, state = optimiser.update(slope, moving["optimiser"], moving["params"])
    return {"params": optax.apply_updates(moving["params"], change), "optimiser": state}
