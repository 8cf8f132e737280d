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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import Array, Float32
from tqdm import tqdm

from reconn import features, losses, networks
from reconn.batches import Batches
from reconn.config import ReconnConfig
from reconn.placement import Placement
from reconn.steps import LOWER, Steps
from reconn.views import EVERYTHING, View
from shadow import checks, files
from shadow.store import ConfigurationMismatchError, ShadowModels, ShadowStore
from shadow.victims import Params

_PREDICT_BATCH = 1024
_CHECKPOINT_SECONDS = 30.0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Reconstructor:
    """A trained RecoNN: weights of released models in, images out."""

    network: networks.Network
    params: Params
    view: View
    standardiser: features.Standardiser

    def __call__(
        self, weights: Float32[np.ndarray, "models params"]
    ) -> Float32[np.ndarray, "models height width channels"]:
        """Reconstruct one image a model; pixels in [0, 1]."""
        inputs = self.standardiser(self.view(weights))
        return _predict(self.network, self.params, inputs)


def train(
    models: ShadowModels | ShadowStore,
    config: ReconnConfig,
    *,
    key: Array,
    workdir: str | os.PathLike,
    view: View = EVERYTHING,
    devices: Sequence[jax.Device] | None = None,
    progress: bool = True,
    on_epoch: Callable[[], None] = lambda: None,
) -> Reconstructor:
    """Train a RecoNN on shadow models.

    Args:
      models: the shadow models and their targets, in memory or in a finished store.
      config: architecture and optimisation.
      key: of the RecoNN's initialisation and of the order of batches.
      workdir: takes checkpoints/, metrics.jsonl (one line an epoch: epoch,
        train_loss, validation_loss (of the pixels), validation_mse, seconds) and
        standardiser.npz. A run that was begun there with the same arguments is
        continued; run.json remembers them.
      view: what the RecoNN sees of theta; default: all weights.
      devices: among which batches and large arrays are divided; None: all accelerators,
        or else one CPU device, which uses all cores. A run may go on on others.
      progress: show a bar with the time left.
      on_epoch: called after each epoch.
    Returns: the RecoNN of the epoch with the smallest validation MSE.
    Raises:
      FloatingPointError: a loss became NaN or infinite; says where.
      ConfigurationMismatchError: another run was begun in `workdir`.
      ValueError: fewer than two shadow models, or than config.models.
    """
    if len(models) < max(2, config.models or 0):
        raise ValueError(
            f"Expected at least {max(2, config.models or 0)} shadow models, got"
            f" {len(models)}."
        )
    workdir = Path(workdir)
    _claim(workdir, models, config, key, view)
    num_models = config.models or len(models)
    num_validation = max(1, math.floor(num_models * config.validation_fraction))
    num_train = num_models - num_validation
    # The last models validate; targets lie in random order. Statistics of the training
    # part alone, so that validation is as blind as an attack.
    standardiser = features.fit(
        models,
        view,
        num_models=num_train,
        clip=config.clip,
        standardise=config.standardise,
    )
    inputs, images = features.read(
        models,
        view,
        standardiser,
        num_models=num_models,
        scratch=workdir / "features.npy",
    )
    standardiser.save(workdir / "standardiser.npz")
    network = config.network(standardiser.num_features, images.shape[1:])
    batches = Batches(
        inputs[:num_train], images[:num_train], batch_size=config.batch_size
    )
    run = Steps(
        network,
        config,
        batches.steps,
        key,
        image_shape=images.shape[1:],
        placement=Placement.of(devices),
    )
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
                        losses.pixels(predicted, validation[1], config.loss)
                    ),
                    "validation_mse": float(losses.mse(predicted, validation[1])),
                    "seconds": round(time.monotonic() - started, 3),
                }
                if not math.isfinite(line["validation_mse"]):
                    raise FloatingPointError(
                        f"The RecoNN's validation error became {line['validation_mse']}"
                        f" after epoch {epoch + 1}. {LOWER}"
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
    (workdir / "features.npy").unlink(missing_ok=True)
    return Reconstructor(
        network=network, params=state["best"], view=view, standardiser=standardiser
    )


def load(
    workdir: str | os.PathLike,
    config: ReconnConfig,
    image_shape: tuple[int, ...],
    view: View = EVERYTHING,
) -> Reconstructor:
    """The RecoNN that a finished `train` left in `workdir`.

    Raises:
      FileNotFoundError: there is none, or it isn't finished.
      ConfigurationMismatchError: it was trained on another view.
    """
    workdir = Path(workdir)
    if not (workdir / "standardiser.npz").exists():
        raise FileNotFoundError(
            f"No RecoNN in {workdir}. Train one with `informed train`."
        )
    standardiser = features.Standardiser.load(workdir / "standardiser.npz")
    trained = json.loads((workdir / "run.json").read_text()).get("view")
    if trained != view.fingerprint():
        raise ConfigurationMismatchError(
            f"The RecoNN in {workdir} was trained on another view of theta. Pass the"
            " view that it was trained on."
        )
    network = config.network(standardiser.num_features, image_shape)
    run = Steps(
        network,
        config,
        1,
        jax.random.key(0),
        image_shape=image_shape,
        placement=Placement.of(None),
    )
    with _checkpoints(workdir) as manager:
        if manager.latest_step() != config.epochs:
            raise FileNotFoundError(
                f"The RecoNN in {workdir} has {manager.latest_step() or 0} of"
                f" {config.epochs} epochs. Go on with `informed train`."
            )
        state, _ = _restore(manager, run.start())
    return Reconstructor(
        network=network, params=state["best"], view=view, standardiser=standardiser
    )


def _claim(
    workdir: Path,
    models: ShadowModels | ShadowStore,
    config: ReconnConfig,
    key: Array,
    view: View,
) -> None:
    """Record what is trained in a folder, or check that it is the same."""
    run = {
        "config": json.loads(json.dumps(dataclasses.asdict(config))),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "models": models.fingerprint(),
        "view": view.fingerprint(),
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
