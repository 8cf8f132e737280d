"""What the files of a run hold, and what decided them."""

import dataclasses
import hashlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from informed.experiment.settings import Experiment
from informed.experiment.stages import Paths
from shadow import data, files, folders, sources, training, victims
from shadow.factory import Factory
from shadow.models import ShadowModels
from shadow.records import Record
from shadow.store import Store
from shadow.victims import architectures
from shadow.views import Layers, View

# Grows when results.json would say something else; see `shadow.records`.
REVISION = 5


def hashes(experiment: Experiment) -> dict[str, str]:
    """Of the user's own data: files, folders and what their functions load, by name.

    Prepared data sets are named by their version; what they hold doesn't change.
    """
    found = {}
    for name in (experiment.data.name, experiment.data.shadow_name):
        if name is None:
            continue
        path, of_user = Path(name), sources.registered_digest(name)
        if of_user is not None:
            found[name] = of_user
        elif path.is_file() and path.suffix == ".npz":
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.is_dir() and "/" in name:
            found[name] = folders.digest(path)
    return found


def guesses(workdir: Path, name: str) -> dict[str, np.ndarray]:
    """What an attack of a run returned, array by array."""
    return files.read_arrays(workdir / "attacks" / f"{name}.npz")


def shadow_record(experiment: Experiment) -> Record:
    """What decides both stores."""
    shadow = {
        "count": experiment.shadow.count,
        "block_size": experiment.shadow.block_size,
    }
    model = experiment.model_configuration
    return Record.of(
        model | {"shadow": shadow, "files": hashes(experiment)},
        data=data.REVISION,
        **training.revisions(model),
        **architectures.revisions(model),
    )


def stores(experiment: Experiment, paths: Paths) -> tuple[Store, Store]:
    """Shadow and released models, made under this experiment.

    Raises:
      NotMadeError: there are none.
      ConfigurationMismatchError, VersionMismatchError: they were made otherwise.
    """
    found = {role: Store(paths.store(role)) for role in ("shadow", "released")}
    sizes = {"shadow": experiment.shadow.count, "released": experiment.data.num_test}
    for role, store in found.items():
        configuration = experiment.model_configuration | {
            "num_models": sizes[role],
            "block_size": experiment.shadow.block_size,
        }
        store.require(
            Record.of(
                configuration,
                data=data.REVISION,
                **training.revisions(configuration),
                **architectures.revisions(configuration),
            )
        )
    return found["shadow"], found["released"]


def attack_record(
    experiment: Experiment, name: str, shadows: Store, released: Store
) -> Record:
    """What decides the reconstructions of one of `experiment.attacks`."""
    named = experiment.attacks[name]
    configuration = {
        "seed": experiment.seed,
        "view": dataclasses.asdict(experiment.view),
        "attacks": {name: named.values},
        "shadow_models": len(shadows),
        "shadow_fingerprint": shadows.fingerprint(),
        "released_fingerprint": released.fingerprint(),
    }
    return Record.of(configuration, **named.revisions)


def evaluate_record(experiment: Experiment, shadows: Store, released: Store) -> Record:
    """What decides results.json."""
    own = Record.of(
        {
            "evaluation": dataclasses.asdict(experiment.evaluation),
            "attacks": {},
            "shadow_fingerprint": shadows.fingerprint(),
            "released_fingerprint": released.fingerprint(),
        },
        evaluation=REVISION,
    )
    configuration, versions = dict(own.configuration), dict(own.versions)
    attacks: dict[str, Any] = {}
    for name in experiment.played:
        record = attack_record(experiment, name, shadows, released)
        attacks |= record.configuration["attacks"]
        configuration |= record.configuration
        versions |= record.versions
    return Record(configuration | {"attacks": attacks}, versions)


def victim_of(experiment: Experiment, store: Store) -> victims.Victim:
    """The victim whose models a store holds."""
    return victims.build(
        experiment.victim,
        image_shape=store.image_shape,
        num_classes=store.manifest["num_classes"],
    )


def factory_of(
    experiment: Experiment,
    store: Store,
    *,
    role: str,
    width: int | None = None,
    form: str | None = None,
) -> Factory:
    """The factory that made a store, on the store's own fixed set and theta_0."""
    return Factory(
        algorithm=experiment.training.algorithm(
            victim_of(experiment, store), form=form
        ),
        start=store.initialisation,
        fixed=fixed(store),
        key=experiment.training_key,
        role=role,
        width=width,
    )


def view_of(experiment: Experiment, store: Store) -> View:
    """What the RecoNN sees; the first shadow targets are the public images."""
    blocks = -(-experiment.view.public_images // store.manifest["block_size"])
    first = itertools.islice(store.blocks(), blocks)
    public = np.concatenate([block.images for block in first])
    return experiment.view.view(victim_of(experiment, store), public)


def whole_view(experiment: Experiment, store: Store) -> View:
    """What attacks on all weights see, whatever the reconstructor does."""
    return Layers.of(store.layout, precision=experiment.view.precision)


def targets(store: Store) -> data.Examples:
    """All targets of a store; its weights are not read."""
    return examples(store, *store.targets())


def targets_of(store: Store, models: ShadowModels) -> data.Examples:
    """The targets of models that were read from a store."""
    return examples(store, models.images, models.labels)


def fixed(store: Store) -> data.Examples:
    """The fixed set that all models of a store were trained on."""
    return examples(store, store.array("fixed_images"), store.array("fixed_labels"))


def examples(store: Store, images: np.ndarray, labels: np.ndarray) -> data.Examples:
    """Images and labels of a store as examples."""
    return data.Examples(
        images=images,
        labels=labels,
        num_classes=store.manifest["num_classes"],
        name="store",
    )
