"""Training the RecoNN on a shadow store, and using it.

Nothing here sees a released model or its target: statistics, training and the choice of
the best epoch use shadow models only, a fixed part of them for validation.

A training run is a function of (store, configuration, key). It writes one line of
metrics an epoch and a checkpoint at least every half minute; one that was interrupted
goes on from its checkpoint and ends in the same weights as one that wasn't.
"""

import dataclasses
import functools
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from jaxtyping import Array, Float32
from tqdm import tqdm

from reconn import features, losses, networks
from reconn.batches import Batches
from shadow import checks, files
from shadow.activations import ACTIVATIONS
from shadow.store import ConfigurationMismatchError, ShadowModels, ShadowStore
from shadow.victims import Params

OPTIMISERS = ("adam", "rmsprop")
SCHEDULES = ("constant", "cosine")
_PREDICT_BATCH = 1024
_CHECKPOINT_SECONDS = 30.0
_LOWER = "Lower reconn.learning_rate, and begin in another folder."


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReconnConfig:
    """Architecture and training of the RecoNN.

    Attributes:
      architecture: "mlp" (Table V) or "transposed_cnn" (Table VII).
      widths: hidden widths; (1000, 1000) is Table V, (4096,) Table VII.
      activation: of the hidden layers; Table V has ReLU.
      optimiser: "adam" (decoupled weight decay) or "rmsprop" (Table V; started with a
        second moment of 1, since from 0 its first steps kill the ReLUs).
      learning_rate: the largest one.
      schedule: "constant" or "cosine" (down to zero), after `warmup_epochs`.
      warmup_epochs: linear rise from zero; may be a fraction.
      weight_decay: of "adam".
      batch_size: shadow models a step.
      epochs: passes over the training part of the shadow models.
      input_dropout, dropout: share of the inputs, and of each hidden layer, that is set
        to zero in training, in [0, 1). Not in Table V; where shadow models are few they
        are what keeps the network from learning them by heart.
      clip: standardised weights are cut to [-clip, clip].
      validation_fraction: share of the shadow models kept for choosing the best epoch.
    """

    architecture: str = "mlp"
    widths: tuple[int, ...] = (1000, 1000)
    activation: str = "relu"
    optimiser: str = "adam"
    learning_rate: float = 5e-4
    schedule: str = "cosine"
    warmup_epochs: float = 1.0
    weight_decay: float = 0.0
    batch_size: int = 128
    epochs: int = 40
    input_dropout: float = 0.2
    dropout: float = 0.2
    clip: float = 10.0
    validation_fraction: float = 0.05

    def __post_init__(self) -> None:
        checks.choice("reconn.architecture", self.architecture, networks.ARCHITECTURES)
        checks.choice("reconn.activation", self.activation, ACTIVATIONS)
        checks.choice("reconn.optimiser", self.optimiser, OPTIMISERS)
        checks.choice("reconn.schedule", self.schedule, SCHEDULES)
        checks.at_least("reconn.epochs", self.epochs, 1)
        checks.at_least("reconn.batch_size", self.batch_size, 1)
        checks.at_least("reconn.warmup_epochs", self.warmup_epochs, 0)
        checks.at_least("reconn.weight_decay", self.weight_decay, 0)
        for field in ("learning_rate", "clip"):
            if not getattr(self, field) > 0:
                raise ValueError(
                    f"Expected reconn.{field} > 0, got {getattr(self, field)!r}."
                )
        for field in ("input_dropout", "dropout"):
            if not 0 <= getattr(self, field) < 1:
                raise ValueError(
                    f"Expected reconn.{field} in [0, 1), got {getattr(self, field)!r}."
                )
        if self.weight_decay and self.optimiser != "adam":
            raise ValueError(
                "reconn.weight_decay is of the optimiser 'adam'; it would do nothing to"
                f" {self.optimiser!r}. Set it to 0."
            )
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                "Expected reconn.validation_fraction in (0, 1), got"
                f" {self.validation_fraction!r}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Reconstructor:
    """A trained RecoNN: weights of released models in, images out."""

    network: networks.Network
    params: Params
    standardiser: features.Standardiser

    def __call__(
        self, weights: Float32[np.ndarray, "models params"]
    ) -> Float32[np.ndarray, "models height width channels"]:
        """Reconstruct one image a model; pixels in [0, 1]."""
        return _predict(self.network, self.params, self.standardiser(weights))


def train(
    models: ShadowModels | ShadowStore,
    config: ReconnConfig,
    *,
    key: Array,
    workdir: str | os.PathLike,
    progress: bool = True,
    on_epoch: Callable[[], None] = lambda: None,
) -> Reconstructor:
    """Train a RecoNN on shadow models.

    Args:
      models: the shadow models and their targets, in memory or in a finished store.
      config: architecture and optimisation.
      key: of the RecoNN's initialisation and of the order of batches.
      workdir: takes checkpoints/, metrics.jsonl (one line an epoch: epoch,
        train_loss, validation_loss, validation_mse, seconds) and standardiser.npz. A
        run that was begun there with the same arguments is continued; run.json
        remembers them.
      progress: show a bar with the time left.
      on_epoch: called after each epoch.
    Returns: the RecoNN of the epoch with the smallest validation MSE.
    Raises:
      FloatingPointError: a loss became NaN or infinite; says where.
      ConfigurationMismatchError: another run was begun in `workdir`.
      ValueError: fewer than two shadow models.
    """
    if len(models) < 2:
        raise ValueError(f"Expected at least 2 shadow models, got {len(models)}.")
    workdir = Path(workdir)
    _claim(workdir, models, config, key)
    num_validation = max(1, math.floor(len(models) * config.validation_fraction))
    num_train = len(models) - num_validation
    # The last models validate; targets lie in random order. Statistics of the training
    # part alone, so that validation is as blind as an attack.
    standardiser = features.fit(models, num_models=num_train, clip=config.clip)
    scratch = workdir / "features.npy"
    inputs, images = features.read(models, standardiser, scratch)
    standardiser.save(workdir / "standardiser.npz")
    network = _network(config, standardiser, images.shape[1:])
    batches = Batches(
        inputs[:num_train], images[:num_train], batch_size=config.batch_size
    )
    run = _Run(network, config, batches.steps, key)
    validation = (inputs[num_train:], jnp.asarray(images[num_train:]))

    state, history = run.start(), list[dict[str, Any]]()
    with _checkpoints(workdir) as manager:
        if manager.latest_step() is not None:
            state, history = _restore(manager, state)
        saved_at = time.monotonic()
        with tqdm(
            total=config.epochs,
            initial=len(history),
            desc="RecoNN",
            unit="epoch",
            disable=None if progress else True,
        ) as bar:
            for epoch in range(len(history), config.epochs):
                started = time.monotonic()
                state, train_loss = run.epoch(state, batches, epoch)
                predicted = jnp.asarray(
                    _predict(network, state["params"], validation[0])
                )
                line = {
                    "epoch": epoch + 1,
                    "train_loss": train_loss,
                    "validation_loss": float(
                        losses.mae_plus_mse(predicted, validation[1])
                    ),
                    "validation_mse": float(losses.mse(predicted, validation[1])),
                    "seconds": round(time.monotonic() - started, 3),
                }
                if not math.isfinite(line["validation_mse"]):
                    raise FloatingPointError(
                        f"The RecoNN's validation error became {line['validation_mse']}"
                        f" after epoch {epoch + 1}. {_LOWER}"
                    )
                history.append(line)
                if line["validation_mse"] < float(state["best_mse"]):
                    state |= {
                        "best": jax.tree.map(jnp.copy, state["params"]),
                        "best_mse": jnp.float32(line["validation_mse"]),
                    }
                files.write_bytes(
                    workdir / "metrics.jsonl",
                    "".join(
                        json.dumps(entry, allow_nan=False) + "\n" for entry in history
                    ).encode(),
                )
                on_epoch()
                bar.update()
                bar.set_postfix(validation_mse=f"{line['validation_mse']:.5f}")
                if (
                    time.monotonic() - saved_at > _CHECKPOINT_SECONDS
                    or epoch + 1 == config.epochs
                ):
                    _save(manager, state, history)
                    saved_at = time.monotonic()
    scratch.unlink(missing_ok=True)
    return Reconstructor(
        network=network, params=state["best"], standardiser=standardiser
    )


def load(
    workdir: str | os.PathLike, config: ReconnConfig, image_shape: tuple[int, ...]
) -> Reconstructor:
    """The RecoNN that a finished `train` left in `workdir`.

    Raises: FileNotFoundError: there is none, or it isn't finished.
    """
    workdir = Path(workdir)
    if not (workdir / "standardiser.npz").exists():
        raise FileNotFoundError(
            f"No RecoNN in {workdir}. Train one with `informed train`."
        )
    standardiser = features.Standardiser.load(workdir / "standardiser.npz")
    network = _network(config, standardiser, image_shape)
    run = _Run(network, config, 1, jax.random.key(0))
    with _checkpoints(workdir) as manager:
        if manager.latest_step() != config.epochs:
            raise FileNotFoundError(
                f"The RecoNN in {workdir} has {manager.latest_step() or 0} of"
                f" {config.epochs} epochs. Go on with `informed train`."
            )
        state, _ = _restore(manager, run.start())
    return Reconstructor(
        network=network, params=state["best"], standardiser=standardiser
    )


class _Run:
    """The compiled steps of one training run."""

    def __init__(
        self,
        network: networks.Network,
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
                    f" {done + 1} to {rows.stop} of {self.steps}. {_LOWER}"
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


def _claim(
    workdir: Path, models: ShadowModels | ShadowStore, config: ReconnConfig, key: Array
) -> None:
    """Record what is trained in a folder, or check that it is the same."""
    run = {
        "config": json.loads(json.dumps(dataclasses.asdict(config))),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "models": models.fingerprint(),
    }
    file = workdir / "run.json"
    if file.exists() and any((workdir / "checkpoints").glob("[0-9]*")):
        differing = checks.differences(json.loads(file.read_text()), run)
        if differing:
            raise ConfigurationMismatchError(
                f"Another RecoNN was begun in {workdir}: {'; '.join(differing)}. Use"
                " another folder, or the same arguments."
            )
    files.write_json(file, run)


def _network(
    config: ReconnConfig, standardiser: features.Standardiser, image_shape: tuple
) -> networks.Network:
    """The network of a configuration."""
    return networks.ARCHITECTURES[config.architecture](
        standardiser.num_features,
        image_shape,
        widths=config.widths,
        activation=config.activation,
        input_dropout=config.input_dropout,
        dropout=config.dropout,
    )


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


@functools.partial(jax.jit, static_argnums=0)
def _apply(apply: Callable[[Params, Array], Array], params: Params, x: Array) -> Array:
    return apply(params, x)


def _predict(
    network: networks.Network, params: Params, inputs: np.ndarray
) -> np.ndarray:
    """The network's images, in batches."""
    parts = [
        np.asarray(_apply(network.apply, params, inputs[i : i + _PREDICT_BATCH]))
        for i in range(0, len(inputs), _PREDICT_BATCH)
    ]
    return np.concatenate(parts)


def _checkpoints(workdir: Path) -> ocp.CheckpointManager:
    """Orbax manager that keeps the newest checkpoint; a save is whole or absent."""
    options = ocp.CheckpointManagerOptions(
        max_to_keep=1, enable_async_checkpointing=False
    )
    return ocp.CheckpointManager((workdir / "checkpoints").resolve(), options=options)


def _save(manager: ocp.CheckpointManager, state: Any, history: list) -> None:
    """Checkpoint numbered by the epochs done."""
    manager.save(
        len(history),
        args=ocp.args.Composite(
            state=ocp.args.StandardSave(state), history=ocp.args.JsonSave(history)
        ),
    )


def _restore(manager: ocp.CheckpointManager, like: Any) -> tuple[Any, list]:
    """State and history of the newest checkpoint."""
    restored = manager.restore(
        manager.latest_step(),
        args=ocp.args.Composite(
            state=ocp.args.StandardRestore(like), history=ocp.args.JsonRestore()
        ),
    )
    return restored["state"], restored["history"]
