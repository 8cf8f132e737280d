"""Training a reconstructor on a shadow store, and using it.

Nothing here sees a released model or its target: statistics, training and the choice of
the best epoch use shadow models only, a fixed part of them for validation.

A training run is a function of (store, configuration, key). It writes one line of
metrics per epoch and a checkpoint every half minute, or in so long that checkpoints
take a tenth of the time; one that was interrupted goes on from its checkpoint with the
same batches, and on a CPU ends in the same weights as one that wasn't (a GPU adds in
any order).
"""

import dataclasses
import functools
import hashlib
import itertools
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
from jaxtyping import Array, Float32, Int

from reconn import checkpoints, features, kernel, losses, networks, saving
from reconn.batches import Batches
from reconn.config import ReconnConfig
from reconn.placement import Placement
from reconn.saving import Saved
from reconn.shrinkage import Shrinkage
from reconn.steps import LOWER, Steps
from shadow import bars, checks, files, records, views
from shadow.models import ShadowModels
from shadow.records import ConfigurationMismatchError, NotMadeError, Record
from shadow.store import Store
from shadow.threat import Release
from shadow.victims import Params
from shadow.views import EVERYTHING, View

# Of the network and its training, with and without convolutions; see `shadow.records`.
REVISION, REVISION_CONVOLUTIONAL = 2, 3
_PREDICT_BATCH = 1024
# Seconds between checkpoints, and the least multiple of what the last one took: 113
# million parameters, their moments and the best so far take 9 s, an epoch takes 10.
_CHECKPOINT_SECONDS, _CHECKPOINT_SHARE = 30.0, 10.0
_JUDGED = 1000  # validation models that choose the shrinkage, at most


@dataclasses.dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """Features in, images out."""

    network: networks.Network
    params: Params
    placement: Placement | None = None

    def __call__(
        self, inputs: Float32[np.ndarray, "models features"]
    ) -> Float32[np.ndarray, "models height width channels"]:
        """The network's images, in batches."""
        parts = []
        for i in range(0, len(inputs), _PREDICT_BATCH):
            some = inputs[i : i + _PREDICT_BATCH]
            made = _apply(self.network.apply, self.params, some)
            parts.append(
                np.asarray(
                    made if self.placement is None else self.placement.whole(made)
                )
            )
        return np.concatenate(parts)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Reconstructor:
    """A trained reconstructor: a release in, images out.

    Attributes:
      view: the view of theta that it was trained on.
      standardiser: makes its input of that.
      model: and this the images,
      shrinkage: reconstructions are drawn towards the mean image where theta tells
        little.
    """

    view: View
    standardiser: features.Standardiser
    model: TrainedNetwork | kernel.KernelRegression
    shrinkage: Shrinkage

    def __call__(
        self, release: Release
    ) -> Float32[np.ndarray, "releases height width channels"]:
        """Reconstruct one image a released model; pixels in [0, 1]."""
        return self.labelled(release)[0]

    def labelled(
        self, release: Release
    ) -> tuple[
        Float32[np.ndarray, "releases height width channels"],
        Int[np.ndarray, " releases"] | None,
    ]:
        """Images, and labels where the model recovers them (a network doesn't).

        Raises: FieldError: the release shows something else of theta than the shadow
          models did.
        """
        if release.view.fingerprint() != self.view.fingerprint():
            raise checks.FieldError(
                "view",
                f"Expected a release of {self.view.what}, as of the shadow models that"
                f" this reconstructor was trained on; got one of {release.view.what}"
                " (or of other ones).",
            )
        inputs = self.standardiser(release.values)
        if isinstance(self.model, kernel.KernelRegression):
            images, labels = self.model.labelled(inputs)
            return self.shrinkage(images), labels
        return self.shrinkage(self.model(inputs)), None


def train(
    models: ShadowModels | Store,
    config: ReconnConfig,
    *,
    key: Array,
    workdir: str | os.PathLike,
    view: View = EVERYTHING,
    start: Reconstructor | None = None,
    devices: Sequence[jax.Device] | None = None,
    progress: bool = True,
    on_epoch: Callable[[], None] = lambda: None,
) -> Reconstructor:
    """Train a reconstructor on shadow models.

    Args:
      models: the shadow models and their targets, in memory or in a finished store.
      config: architecture and optimisation.
      key: the key of the RecoNN's initialisation and of the order of batches.
      workdir: takes checkpoints/, metrics.jsonl (one line per epoch: epoch,
        train_loss, validation_loss (of the pixels), validation_mse, seconds) and, in
        the end, reconstructor.safetensors (`saving`). A run that was begun there with
        the same arguments is continued; run.json remembers them. A kernel regression is
        kept in kernel/, and has one line of metrics.
      view: the view of theta that the RecoNN gets; default: all weights.
      start: a RecoNN of the same architecture whose parameters training begins with,
        such as that of another fixed set (Figure 12 of Balle et al. 2022). It keeps its
        features; they are standardised by the new shadow models. None: parameters are
        drawn.
      devices: among which batches and large arrays are divided; None: all accelerators,
        or else one CPU device per process, which uses all cores. A run may go on on
        others. They may be those of several processes (`jax.distributed`); all of them
        call this, with a `workdir` that all see.
      progress: show a bar with the time left.
      on_epoch: called after each epoch.
    Returns: the kernel regression, or the RecoNN of the epoch that `config.kept` says.
    Raises:
      FloatingPointError: a loss became NaN or infinite; says where.
      ConfigurationMismatchError, VersionMismatchError: another run was begun in
        `workdir`.
      FieldError: `start` is not a network, or one of another architecture.
      ValueError: fewer than two shadow models, or than config.models.
    """
    _require_enough(models, config)
    workdir = Path(workdir)
    begin = None if start is None else _params_of(start, config)
    still_own = _claim(workdir, models, config, key, view, begin)
    num_models, num_train = config.models or len(models), _num_train(models, config)
    # The last models validate; targets lie in random order. Statistics of the training
    # part alone, so that validation is as blind as an attack.
    standardiser = features.fit(
        models,
        view,
        num_models=num_train,
        clip=config.clip,
        standardise=config.standardise,
    )
    if start is not None:
        standardiser = standardiser.seeing(start.standardiser)
    scratch = _scratch(workdir)
    inputs, images, labels = features.read(
        models, view, standardiser, num_models=num_models, scratch=scratch
    )
    model: TrainedNetwork | kernel.KernelRegression
    if config.kind == "kernel":
        model = kernel.fitted_in(
            workdir,
            inputs,
            images,
            labels,
            config.kernel,
            num_train=num_train,
            still_own=still_own,
            progress=progress,
        )
    else:
        model = _train_network(
            inputs,
            images,
            config,
            num_train=num_train,
            key=key,
            workdir=workdir,
            begin=begin,
            still_own=still_own,
            placement=Placement.of(devices),
            progress=progress,
            on_epoch=on_epoch,
        )
    unseen = slice(num_train, num_train + _JUDGED)
    mean = images[:num_train].mean(axis=0)
    shrinkage = Shrinkage(mean=mean, factor=1.0)
    if config.shrink:
        shrinkage = Shrinkage.fit(mean, model(inputs[unseen]), images[unseen])
    params = model.params if isinstance(model, TrainedNetwork) else {}
    still_own()
    Saved(standardiser=standardiser, shrinkage=shrinkage, params=params).write(workdir)
    scratch.unlink(missing_ok=True)
    return Reconstructor(
        view=view, standardiser=standardiser, model=model, shrinkage=shrinkage
    )


def _scratch(workdir: Path) -> Path:
    """A file of this record and process alone: another run may take the folder."""
    mark = hashlib.sha256((workdir / "run.json").read_bytes()).hexdigest()[:12]
    return workdir / f"features-{mark}-{jax.process_index()}.npy"


def _params_of(start: Reconstructor, config: ReconnConfig) -> Params:
    """The parameters that training begins with.

    Raises: FieldError: one of the two is a kernel regression, which has none.
    """
    if config.kind != "network" or not isinstance(start.model, TrainedNetwork):
        raise checks.FieldError(
            "start",
            "{} is for networks alone: a kernel regression has no parameters to begin"
            " with. Leave it out.",
        )
    return start.model.params


def held_out(models: ShadowModels | Store, config: ReconnConfig) -> ShadowModels:
    """The shadow models that a reconstructor was not trained on: they validate it.

    Args: as of `train`.
    """
    first, last = _num_train(models, config), config.models or len(models)
    parts, position = [], 0
    for block in models.blocks():
        own = slice(max(first - position, 0), max(last - position, 0))
        position += len(block)
        if position > first and own.stop:
            parts.append((block.weights[own], block.images[own], block.labels[own]))
    weights, images, labels = map(np.concatenate, zip(*parts, strict=True))
    return ShadowModels(weights=weights, images=images, labels=labels)


def _num_train(models: ShadowModels | Store, config: ReconnConfig) -> int:
    """How many of the shadow models train; the last ones validate."""
    count = config.models or len(models)
    return count - max(1, math.floor(count * config.validation_fraction))


def _require_enough(models: ShadowModels | Store, config: ReconnConfig) -> None:
    """Raise ValueError: too few models, or several processes for what one fits."""
    if config.kind == "kernel" and jax.process_count() > 1:
        raise checks.FieldError(
            "kind",
            '{} is "kernel", which one process fits; only "network" is trained by'
            f" several, and there are {jax.process_count()}.",
        )
    if len(models) < max(2, config.models or 0):
        raise ValueError(
            f"Expected at least {max(2, config.models or 0)} shadow models, got"
            f" {len(models)}."
        )


def load(
    workdir: str | os.PathLike,
    config: ReconnConfig,
    image_shape: tuple[int, ...],
    view: View = EVERYTHING,
) -> Reconstructor:
    """The reconstructor that a finished `train` left in `workdir`.

    Raises:
      NotMadeError: there is none, or it isn't finished.
      ConfigurationMismatchError, VersionMismatchError: it was trained with another
        configuration, or on another view.
    """
    workdir = Path(workdir)
    if not (workdir / "run.json").exists():
        raise NotMadeError(f"There is no reconstructor in {workdir}.", by="train")
    found = Record.read(json.loads((workdir / "run.json").read_text()))
    if found.configuration.get("view") != view.fingerprint():
        raise ConfigurationMismatchError(
            f"The reconstructor in {workdir} was trained on another view of theta. Pass"
            " the view that it was trained on."
        )
    of_training = {
        name: found.configuration[name]
        for name in ("key", "models", "view", "start")
        if name in found.configuration
    }
    asked = {"reconn": dataclasses.asdict(config), **of_training}
    records.require_same(
        found, _record(asked, config), f"The reconstructor in {workdir}"
    )
    saved = Saved.read(workdir)
    model: TrainedNetwork | kernel.KernelRegression
    if config.kind == "kernel":
        model = kernel.load(workdir / "kernel", config.kernel, image_shape)
    else:
        network = config.network(saved.standardiser.num_features, image_shape)
        model = TrainedNetwork(network, saved.params)
    return Reconstructor(
        view=view,
        standardiser=saved.standardiser,
        model=model,
        shrinkage=saved.shrinkage,
    )


def _train_network(
    inputs: np.ndarray,
    images: np.ndarray,
    config: ReconnConfig,
    *,
    num_train: int,
    key: Array,
    workdir: Path,
    begin: Params | None,
    still_own: Callable[[], None],
    placement: Placement,
    progress: bool,
    on_epoch: Callable[[], None],
) -> TrainedNetwork:
    """Epoch after epoch; see `train`."""
    network = config.network(inputs.shape[1], images.shape[1:])
    if begin is not None:
        networks.require_of(network, begin)
    batches = Batches(
        inputs[:num_train], images[:num_train], batch_size=config.batch_size
    )
    run = Steps(
        network,
        config,
        batches.steps,
        key,
        image_shape=images.shape[1:],
        placement=placement,
    )
    validation = (inputs[num_train:], jnp.asarray(images[num_train:]))

    state, history = run.start(begin), list[dict[str, Any]]()
    placement.meet("reconn")
    with checkpoints.manager_of(workdir) as manager:
        if manager.latest_step() is not None:
            state, history = checkpoints.restore(manager, state)
        saved_at, pause = time.monotonic(), _CHECKPOINT_SECONDS
        with bars.bar(
            total=config.epochs,
            initial=len(history),
            desc="RecoNN",
            unit="epoch",
            show=progress,
        ) as bar:
            for epoch in range(len(history), config.epochs):
                started = time.monotonic()
                state, train_loss = run.epoch(state, batches, epoch)
                trained = TrainedNetwork(network, state["params"], placement)
                predicted = jnp.asarray(trained(validation[0]))
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
                        "best_mse": placement.tree(jnp.float32(line["validation_mse"])),
                    }
                still_own()
                files.write_bytes(
                    workdir / "metrics.jsonl",
                    "".join(
                        json.dumps(entry, allow_nan=False) + "\n" for entry in history
                    ).encode(),
                )
                on_epoch()
                bar.update()
                bar.set_postfix(validation_mse=f"{line['validation_mse']:.5f}")
                began = time.monotonic()
                if began - saved_at > pause or epoch + 1 == config.epochs:
                    checkpoints.save(manager, state, history)
                    saved_at = time.monotonic()
                    took = saved_at - began
                    pause = max(_CHECKPOINT_SECONDS, _CHECKPOINT_SHARE * took)
    best = placement.whole(state["best" if config.kept == "best" else "params"])
    if placement.several_processes:
        best = jax.tree.map(np.asarray, best)
    return TrainedNetwork(network, best)


def _claim(
    workdir: Path,
    models: ShadowModels | Store,
    config: ReconnConfig,
    key: Array,
    view: View,
    begin: Params | None,
) -> Callable[[], None]:
    """Record what is trained in a folder, or check that it is the same.

    Returns: see `records.claim`.
    """
    run: dict[str, Any] = {
        "reconn": dataclasses.asdict(config),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "models": models.fingerprint(),
        "view": view.fingerprint(),
    }
    if begin is not None:
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(begin)]
        run["start"] = checks.fingerprint([checks.digest(leaf) for leaf in leaves])
    begun = itertools.chain(
        (workdir / "checkpoints").glob("[0-9]*"),
        (workdir / "kernel").glob("*.npy"),
        workdir.glob(saving.FILE),
    )
    return records.claim(
        workdir / "run.json",
        _record(run, config),
        f"The reconstructor in {workdir}",
        begun=any(begun),
    )


def revisions(config: ReconnConfig) -> dict[str, int]:
    """Of the components that decide a reconstructor; see `shadow.records`."""
    own = REVISION_CONVOLUTIONAL if config.convolutional else REVISION
    if config.kind == "kernel":
        own = kernel.REVISION
    return {config.kind: own, "view": views.REVISION}


def _record(run: dict[str, Any], config: ReconnConfig) -> Record:
    """What decides a reconstructor."""
    return Record.of(run, **revisions(config))


@functools.partial(jax.jit, static_argnums=0)
def _apply(apply: Callable[[Params, Array], Array], params: Params, x: Array) -> Array:
    return apply(params, x)
