"""A run's files: records that make stages resumable, and objects built from its stores.

A run has a folder and two stores by role: "shadow", the adversary's own models, and
"released", those under attack. Three things are here:

Stage         whether a stage is begun or done, and the record by which it is resumed or
              a change is refused
*_record      everything that determines the stores, an attack, results.json
stores, *_of  the stores, opened if they match; victim, factory, view, fixed set and
              targets of one of them

The targets of the released store are the truth. Evaluation and reports may ask for
them, `shadow_sets` to retrain, and `pipeline` for pixels that the adversary knows;
attacks are given its weights, its fixed set and the shadow store.
"""

import contextlib
import dataclasses
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from informed.experiment.settings import Experiment
from shadow import data, files, places, records, sources, training, victims
from shadow.factory import Factory
from shadow.models import ShadowModels
from shadow.places import Address, Place
from shadow.records import NotMadeError, Record
from shadow.store import Store
from shadow.victims import architectures
from shadow.views import Layers, View

# Incremented when a change alters results.json; see `shadow.records`.
REVISION = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Paths:
    """Where a run reads and writes.

    Attributes:
      workdir: folder of the run.
      shadow: folder or address ("s3://bucket/mnist") whose shadow and released models
        are used.
      data_dir: TFDS folder; None: TFDS_DATA_DIR.
    """

    workdir: Path
    shadow: Address
    data_dir: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "workdir", places.folder(self.workdir))

    def store(self, role: str) -> Place:
        """Return the place of the store of a role."""
        return places.at(self.shadow).below(role)


class Stage:
    """A stage of a run in `folder`, which may be in a bucket; written by `running`.

    Attributes:
      record: everything that determines the stage's outputs.
      done: whether the stage is finished and its outputs are there.
      progress: whether it was begun and there may be a part of its outputs.
      wall_s: seconds that it took so far.
    Raises: ConfigurationMismatchError, VersionMismatchError: the stage was begun there
      under another record.
    """

    def __init__(
        self, folder: Address, name: str, record: Record, *, outputs: Sequence[str]
    ) -> None:
        self._folder, self._place = folder, places.at(folder)
        self._name, self.record = name, record
        self.done, self.progress, self.wall_s = False, False, 0.0
        self._accepted: list[str] = []
        content = self._place.get(_file(name))
        if content is not None:
            there = json.loads(content)
            if not there["progress"]:
                return  # begun, but without any output
            accepted = _require(there, folder, name, record)
            self._accepted = sorted({*there.get("accepted", []), *accepted})
            self.done = there["done"] and all(
                self._place.has(output) for output in outputs
            )
            self.progress, self.wall_s = True, there["wall_s"]

    @staticmethod
    def read(folder: Address, name: str) -> dict[str, Any]:
        """Return the record of a stage that was begun.

        Raises: NotMadeError: it was never begun.
        """
        content = places.at(folder).get(_file(name))
        if content is None:
            raise NotMadeError(
                f"The stage {name!r} was never run in {folder}.", by=name
            )
        return json.loads(content)

    @staticmethod
    def require(folder: Address, name: str, record: Record) -> None:
        """Require that a stage is finished, under the same record.

        Raises:
          NotMadeError: it isn't finished.
          ConfigurationMismatchError, VersionMismatchError: it has another record.
        """
        there = Stage.read(folder, name)
        _require(there, folder, name, record)
        if not there["done"]:
            raise NotMadeError(
                f"The stage {name!r} in {folder} is not finished.", by=name
            )

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Record the start, the time and, unless an error is raised, the end."""
        self._clock = time.monotonic()
        self._write(done=False)
        yield
        self.note()
        self._write(done=True)

    def note(self) -> None:
        """Record the time until now, so that an interruption doesn't lose it.

        Raises: ConfigurationMismatchError, VersionMismatchError: another run has begun
          the stage since, under another record.
        """
        there = Stage.read(self._folder, self._name)
        _require(there, self._folder, self._name, self.record)
        self.progress = True
        now = time.monotonic()
        self.wall_s, self._clock = self.wall_s + now - self._clock, now
        self._write(done=False)

    def _write(self, *, done: bool) -> None:
        self.done = done
        values = {
            **self.record.values,
            "accepted": self._accepted,
            "done": done,
            "progress": self.progress,
            "wall_s": round(self.wall_s, 3),
        }
        self._place.put(_file(self._name), files.as_json(values))


def _file(name: str) -> str:
    return f"stages/{name}.json"


def _require(
    there: dict[str, Any], folder: Address, name: str, record: Record
) -> list[str]:
    what = f"The stage {name!r} in {folder}"
    return records.require_same(Record.read(there), record, what)


def guesses(workdir: Path, name: str) -> dict[str, np.ndarray]:
    """Return the arrays that an attack of a run returned, by name."""
    return files.read_arrays(workdir / "attacks" / f"{name}.npz")


def shadow_record(experiment: Experiment) -> Record:
    """Return the record of both stores: everything that determines them, and versions.

    It includes hashes of the user's own data, by name (`sources.digest`).
    """
    data, shadow = experiment.data, experiment.shadow
    digests = {n: sources.digest(n) for n in (data.name, data.shadow_name) if n}
    more = {
        "shadow": {"count": shadow.count, "block_size": shadow.block_size},
        "files": {name: digest for name, digest in digests.items() if digest},
    }
    return _model_record(experiment, more)


def stores(experiment: Experiment, paths: Paths) -> tuple[Store, Store]:
    """Return shadow and released models, if their record is this experiment's.

    Raises:
      NotMadeError: there are no stores.
      ConfigurationMismatchError, VersionMismatchError: they have another record.
    """
    sizes = {"shadow": experiment.shadow.count, "released": experiment.data.num_test}
    opened = {role: Store(paths.store(role)) for role in sizes}
    for role, store in opened.items():
        size = {"num_models": sizes[role], "block_size": experiment.shadow.block_size}
        store.require(_model_record(experiment, size))
    return opened["shadow"], opened["released"]


def _model_record(experiment: Experiment, more: dict[str, Any]) -> Record:
    """Return the record of trained models, with further fields."""
    model = experiment.model_configuration
    return Record.of(
        model | more,
        data=data.REVISION,
        **training.revisions(model),
        **architectures.revisions(model),
    )


def attack_record(
    experiment: Experiment, name: str, shadows: Store, released: Store
) -> Record:
    """Return the record that determines the result of one of `experiment.attacks`."""
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
    """Return the record that determines results.json."""
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
    """Return the victim of a store's models."""
    return victims.build(
        experiment.victim,
        image_shape=store.image_shape,
        num_classes=store.num_classes,
    )


def factory_of(
    experiment: Experiment,
    store: Store,
    *,
    role: str,
    width: int | None = None,
    form: str | None = None,
) -> Factory:
    """Return the factory of a store, with the store's fixed set and theta_0."""
    return Factory(
        fixed=fixed(store),
        start=store.initialisation,
        algorithm=experiment.training.algorithm(
            victim_of(experiment, store), form=form
        ),
        key=experiment.training_key,
        role=role,
        width=width,
    )


def view_of(experiment: Experiment, store: Store) -> View:
    """Return the view that learned attacks get, with shadow targets as public images.

    Args:
      store: the shadow store; the released store's targets would be the truth.
    """
    blocks = -(-experiment.view.public_images // store.manifest["block_size"])
    first = itertools.islice(store.blocks(), blocks)
    public = np.concatenate([block.images for block in first])
    return experiment.view.view(victim_of(experiment, store), public)


def whole_view(experiment: Experiment, store: Store) -> View:
    """Return the view for attacks that see all weights."""
    return Layers.of(store.layout, precision=experiment.view.precision)


def targets(store: Store) -> data.Examples:
    """Return all targets of a store without its weights; for "released", the truth."""
    return examples(store, *store.targets())


def targets_of(store: Store, models: ShadowModels) -> data.Examples:
    """Return the targets of models that were read from a store."""
    return examples(store, models.images, models.labels)


def fixed(store: Store) -> data.Examples:
    """Return the fixed set that all models of a store were trained on."""
    return examples(store, store.array("fixed_images"), store.array("fixed_labels"))


def examples(store: Store, images: np.ndarray, labels: np.ndarray) -> data.Examples:
    """Return images and labels of a store as examples."""
    return data.Examples(
        images=images,
        labels=labels,
        num_classes=store.num_classes,
        name="store",
    )
