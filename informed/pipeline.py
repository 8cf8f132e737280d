"""The main job in five stages, each resumable, each reading what the one before wrote.

    shadow     <shadow>/shadow/, <shadow>/released/   stores of trained models
    train      <workdir>/reconn/                      the RecoNN
    attack     <workdir>/reconstructions.npz          its guesses at the test targets
    invert     <workdir>/inversions.npz               inversions of a few of them
    evaluate   <workdir>/results.json, *.png          the comparison with the truth

A finished stage does nothing; an interrupted one goes on; one begun with another
configuration is refused, and the message names the fields that differ. `<shadow>` is
the same folder as `<workdir>` unless another run's shadow models are to be attacked.
"""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from informed import evaluation, stored
from informed.attacks.inversion import TrainingInversion
from informed.attacks.reconn import ReconnAttack
from informed.experiment import Experiment
from informed.stages import Paths, Stage
from informed.threat import Knowledge, Release
from reconn import trainer
from shadow import data, victims
from shadow.factory import Factory
from shadow.store import ShadowStore


def run(experiment: Experiment, paths: Paths, *, progress: bool = True) -> dict:
    """All stages. Returns the contents of results.json."""
    shadow(experiment, paths, progress=progress)
    train(experiment, paths, progress=progress)
    attack(experiment, paths)
    invert(experiment, paths, progress=progress)
    return evaluation.evaluate(experiment, paths)


def shadow(experiment: Experiment, paths: Paths, *, progress: bool = True) -> None:
    """Train the shadow models and the released models of the test targets."""
    stage = Stage(
        paths.shadow,
        "shadow",
        _shadow_configuration(experiment),
        outputs=("shadow/manifest.json", "released/manifest.json"),
    )
    if stage.done and not any(store.missing() for store in _stores(paths)):
        return
    config = experiment.data
    pool = data.load(config.name, data_dir=paths.data_dir)
    split = data.split(
        pool,
        num_fixed=config.num_fixed,
        num_shadow=experiment.shadow.count,
        num_test=config.num_test,
        seed=experiment.seed,
        balanced=config.balanced,
        shadow_pool=(
            data.load(config.shadow_name, data_dir=paths.data_dir)
            if config.shadow_name
            else None
        ),
    )
    victim = victims.build(
        experiment.victim, image_shape=pool.image_shape, num_classes=pool.num_classes
    )
    with stage.running():
        for role, targets in (("released", split.test), ("shadow", split.shadow)):
            factory = Factory(
                victim=victim,
                training=experiment.training,
                fixed=split.fixed,
                key=experiment.training_key,
                role=role,
                width=experiment.shadow.models_per_batch,
            )
            store = ShadowStore.create(
                paths.shadow / role,
                configuration=experiment.model_configuration,
                victim=victim,
                split=split,
                role=role,
                block_size=experiment.shadow.block_size,
                initialisation=Knowledge.informed(factory).initialisation,
                models_per_batch=factory.width,
            )
            width = store.manifest["models_per_batch"]
            if experiment.shadow.models_per_batch is None and width != factory.width:
                factory = dataclasses.replace(factory, width=width)
            factory.fill(store, targets, progress=progress, on_block=stage.note)


def verify(paths: Paths, *, progress: bool = True) -> dict[str, list[int]]:
    """Check every block of the stores against its checksum; remake corrupt ones.

    Returns: store name -> numbers of the blocks that were corrupt.
    Raises: FileNotFoundError: no shadow models there.
    """
    corrupt = {}
    for store in _stores(paths):
        blocks = store.verify()
        for block in blocks:
            store.drop_block(block)
        corrupt[store.path.name] = blocks
    if any(corrupt.values()):
        configuration = Stage.read(paths.shadow, "shadow")["configuration"]
        del configuration["files"]
        shadow(Experiment.from_mapping(configuration), paths, progress=progress)
    return corrupt


def train(experiment: Experiment, paths: Paths, *, progress: bool = True) -> None:
    """Train the RecoNN on the shadow models. The released ones are not opened."""
    store = ShadowStore(paths.shadow / "shadow")
    stage = Stage(
        paths.workdir,
        "train",
        stored.train_configuration(experiment, store),
        outputs=("reconn/run.json",),
    )
    if stage.done:
        return
    with stage.running():
        trainer.train(
            store,
            experiment.reconn,
            key=experiment.reconn_key,
            workdir=paths.workdir / "reconn",
            view=stored.view_of(experiment, store),
            progress=progress,
            on_epoch=stage.note,
        )


def attack(experiment: Experiment, paths: Paths) -> None:
    """Reconstruct the test targets from the weights of the released models alone."""
    store = ShadowStore(paths.shadow / "shadow")
    released = ShadowStore(paths.shadow / "released")
    stage = Stage(
        paths.workdir,
        "attack",
        stored.attack_configuration(experiment, store, released),
        outputs=("reconstructions.npz",),
    )
    if stage.done:
        return
    with stage.running():
        attacker = ReconnAttack(
            trainer.load(
                paths.workdir / "reconn",
                experiment.reconn,
                store.image_shape,
                stored.view_of(experiment, store),
            )
        )
        release = Release(weights=released.read().weights)
        guess = attacker(release, Knowledge(), key=experiment.reconn_key)
        arrays = {"images": guess.images}
        if guess.labels is not None:
            arrays["labels"] = guess.labels
        stored.write_arrays(paths.workdir / "reconstructions.npz", **arrays)


def invert(experiment: Experiment, paths: Paths, *, progress: bool = True) -> None:
    """Invert the training of the first released models, from weights and D_- alone."""
    count = experiment.inversion.targets
    if not count:
        return
    store = ShadowStore(paths.shadow / "shadow")
    released = ShadowStore(paths.shadow / "released")
    stage = Stage(
        paths.workdir,
        "invert",
        stored.invert_configuration(experiment, store, released),
        outputs=("inversions.npz",),
    )
    if stage.done:
        return
    with stage.running():
        public = stored.examples(store, *stored.targets(store))
        developer = stored.factory_of(experiment, store, role="released", width=1)
        attacker = TrainingInversion(
            config=experiment.inversion.attack, progress=progress
        )
        found = attacker(
            Release(weights=released.read().weights[:count]),
            Knowledge.informed(developer, public=public),
            key=experiment.inversion_key,
        )
        stored.write_arrays(
            paths.workdir / "inversions.npz",
            images=found.images,
            labels=np.asarray(found.labels),
            residuals=np.asarray(found.residuals),
            certified=np.asarray(found.certified),
            expected_mse=np.asarray(found.expected_mse),
        )


def _shadow_configuration(experiment: Experiment) -> dict[str, Any]:
    """What decides the two stores."""
    shadow = {
        "count": experiment.shadow.count,
        "block_size": experiment.shadow.block_size,
    }
    names = (experiment.data.name, experiment.data.shadow_name)
    hashes = {
        name: hashlib.sha256(Path(name).read_bytes()).hexdigest()
        for name in names
        if name and name.endswith(".npz") and Path(name).is_file()
    }
    return experiment.model_configuration | {"shadow": shadow, "files": hashes}


def _stores(paths: Paths) -> list[ShadowStore]:
    """Both stores of the shadow stage."""
    return [ShadowStore(paths.shadow / role) for role in ("released", "shadow")]
