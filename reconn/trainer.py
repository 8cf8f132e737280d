"""Training of a reconstructor on shadow models: `reconn.train`.

It sees no released model and no target of one: statistics, training and the choice of
the best epoch use shadow models only, of which the last ones validate. Users call it,
and runs and audits by `informed.attacks.shadow_trained`. It writes into `workdir`, or
into a temporary folder that is removed.
"""

import contextlib
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from reconn import features, modules, reconstructor
from reconn.input_layout import InputLayout, Pictures
from reconn.kernel import Kernel
from reconn.method import JUDGED, Method, Run
from reconn.network import Network, TrainedNetwork
from reconn.reconstructor import Reconstructor
from reconn.refined import Refined
from reconn.shrinkage import Shrinkage, best_weight
from shadow import checks, places, records
from shadow.models import ShadowModels
from shadow.records import Record
from shadow.store import Store
from shadow.views import EVERYTHING, View

_FEW = 20  # as many labels may be in order by chance


def train(
    models: ShadowModels | Store,
    method: Kernel | Network | Refined,
    *,
    key: Array,
    workdir: str | os.PathLike | None = None,
    view: View = EVERYTHING,
    start: Reconstructor | None = None,
    devices: Sequence[jax.Device] | None = None,
    progress: bool = True,
    on_epoch: Callable[[], None] = lambda: None,
) -> Reconstructor:
    """Train a reconstructor on shadow models, and return it: an attack.

    Args:
      models: the shadow models and their targets, in memory or in a finished store.
      key: of the network's initialisation, the order of batches, and dropout.
      workdir: takes what `load` reads, checkpoints, and metrics.jsonl: a line per epoch
        (epoch, train_loss, validation_loss of the pixels, validation_mse, seconds), or
        one of a kernel. A run that was begun there with the same arguments, which
        run.json records, is continued. None: nothing is kept.
      view: the view of theta that the attack gets; default: all weights.
      start: a network of the same architecture to begin with, such as that of another
        fixed set (Figure 12 of Balle et al. 2022). It keeps its features, standardised
        by the new models. None: random parameters.
      devices: the devices that share batches and large arrays; None: all accelerators,
        or else one CPU device per process. A run may continue on other devices. They
        may belong to several processes (`jax.distributed`), which all call this.
      on_epoch: called after each epoch.
    Raises:
      FloatingPointError: a loss became NaN or infinite; says where.
      ConfigurationMismatchError, VersionMismatchError: another run was begun in the
        folder; names each field that differs, of a store's factory as well.
      FieldError: a `start` of another architecture, an invalid module, several
        processes without a `workdir` or for a kernel, which one process fits.
      ValueError: fewer than three shadow models, or than method.models.
    """
    fits = isinstance(method, Method)
    checks.require("method", method, fits, "to be one, such as reconn.Kernel()")
    fits = isinstance(view, View) and not isinstance(view, type)
    checks.require("view", view, fits, "to be one, such as shadow.Layers()")
    fits = isinstance(models, Store | ShadowModels)
    checks.require("models", models, fits, "to be a shadow.Store or ShadowModels")
    if isinstance(models, Store) and models.manifest["role"] != "shadow":
        raise checks.FieldError(
            "models",
            "Expected {} of the role shadow, got released models, whose targets are"
            " what an attack is judged by.",
        )
    begin, processes = None, jax.process_count()
    if processes > 1 and (workdir is None or not isinstance(method, Network)):
        raise checks.FieldError(
            "method",
            "Expected {} to be a Network, and a workdir that all see, since there are"
            f" {processes} processes; one process fits a Kernel.",
        )
    least = max(3, method.models or 0)
    if len(models) < least:
        raise ValueError(f"Expected at least {least} shadow models, got {len(models)}.")
    num_models = method.models or len(models)
    num_train = num_models - max(1, math.floor(num_models * method.validation_fraction))
    run: dict[str, Any] = {
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "models": models.fingerprint(),
        "view": {"fingerprint": view.fingerprint(), "what": view.what},
    }
    if (kind := str(jax.random.key_impl(key))) != "threefry2x32":
        run["key"] = [kind, *run["key"]]
    if isinstance(models, Store):  # so that a refusal names the field that differs
        theta_0 = models.manifest["sha256"].get("initialisation")
        run["store"] = {**models.manifest["configuration"], "theta_0": theta_0}
    # The last models validate; targets are in random order. Statistics come from the
    # training part alone, so that validation sees no more than an attack does.
    standardiser = features.fit(
        models,
        view,
        num_models=num_train,
        clip=method.clip,
        standardise=method.standardise,
    )
    if start is not None:
        trained = start.model
        if not (isinstance(method, Network) and isinstance(trained, TrainedNetwork)):
            raise checks.FieldError(
                "start",
                "{} is for reconn.Network alone, which begins with the parameters of"
                " another one. Leave it out.",
            )
        begin = modules.named(trained.params)
        arrays = [checks.digest(np.asarray(array)) for array in begin.values()]
        run["start"] = checks.fingerprint(arrays)
        standardiser = standardiser.seeing(start.standardiser)
    image_shape = tuple(models.image_shape)
    pictures = Pictures.of(models.layout, view, standardiser, image_shape)
    labels = models.targets()[1] if isinstance(models, Store) else models.labels
    changes = np.count_nonzero(np.diff(labels[:num_models]))
    kinds = len(np.unique(labels[:num_models]))
    if num_models > _FEW and 1 < kinds == changes + 1 <= num_models // 2:
        raise checks.FieldError(
            "models",
            "Expected {} whose targets are in random order, as the last ones validate;"
            " they are grouped by label. Shuffle the targets before training.",
        )
    layout = InputLayout(
        num_features=standardiser.num_features,
        image_shape=image_shape,
        pictures=pictures,
        num_labels=len(np.unique(labels[:num_train])),
    )
    run["pictures"] = pictures.fingerprint()
    run[method.kind] = method.identity(layout, num_train)
    record = Record.of(run, **method.revisions)
    with contextlib.ExitStack() as stack:
        folder = places.folder(
            workdir or stack.enter_context(tempfile.TemporaryDirectory())
        )
        results = ("checkpoints/[0-9]*", "kernel/*.npy", reconstructor.FILE)
        begun = any(any(folder.glob(pattern)) for pattern in results)
        still_ours = records.claim(
            folder / "run.json",
            record,
            f"The reconstructor in {folder}",
            begun=begun,
        )
        if not begun:
            (folder / "metrics.jsonl").unlink(missing_ok=True)
        # A file name of this record and process, as another run may take the folder.
        mark = f"{record.fingerprint()[:12]}-{jax.process_index()}"
        scratch = folder / f"features-{mark}.npy"
        inputs, images, labels = features.read(
            models, view, standardiser, num_models=num_models, scratch=scratch
        )
        model = method.learn(
            Run(
                features=inputs,
                images=images,
                labels=labels,
                layout=layout,
                num_train=num_train,
                key=key,
                workdir=folder,
                kept=workdir is not None,
                mark=mark,
                start=begin,
                devices=devices,
                still_ours=still_ours,
                progress=progress,
                on_epoch=on_epoch,
            )
        )
        unseen = slice(num_train, num_train + JUDGED)
        mean, guesses = images[:num_train].mean(axis=0), model(inputs[unseen])
        factor = 1.0
        if method.shrink:
            factor = best_weight(guesses - mean, images[unseen] - mean, default=1.0)
        shrinkage = Shrinkage(mean=mean, factor=factor)
        attack = Reconstructor(
            view=run["view"],
            standardiser=standardiser,
            model=model,
            shrinkage=shrinkage,
            errors=images[unseen] - np.clip(shrinkage(guesses), 0, 1),
        )
        still_ours()
        if workdir is not None:
            attack._save(folder)
        scratch.unlink(missing_ok=True)
    return attack
