"""What the files of a run hold, and what decided them."""

import dataclasses
import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from informed.experiment import Experiment
from reconn.views import View
from shadow import data, files, victims
from shadow.factory import Factory
from shadow.store import ShadowStore


def train_configuration(experiment: Experiment, store: ShadowStore) -> dict[str, Any]:
    """What decides the RecoNN."""
    return {
        "seed": experiment.seed,
        "view": dataclasses.asdict(experiment.view),
        "reconn": dataclasses.asdict(experiment.reconn),
        "shadow_models": len(store),
        "shadow_fingerprint": store.fingerprint(),
    }


def attack_configuration(
    experiment: Experiment, store: ShadowStore, released: ShadowStore
) -> dict[str, Any]:
    """What decides the reconstructions."""
    return train_configuration(experiment, store) | {
        "released_fingerprint": released.fingerprint()
    }


def invert_configuration(
    experiment: Experiment, store: ShadowStore, released: ShadowStore
) -> dict[str, Any]:
    """What decides the inversions."""
    return {
        "seed": experiment.seed,
        "inversion": dataclasses.asdict(experiment.inversion),
        "shadow_fingerprint": store.fingerprint(),
        "released_fingerprint": released.fingerprint(),
    }


def write_arrays(file: Path, **arrays: np.ndarray) -> None:
    """Write an .npz file in one step."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    files.write_bytes(file, buffer.getvalue())


def read_arrays(file: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file; never unpickled."""
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def victim_of(experiment: Experiment, store: ShadowStore) -> victims.Victim:
    """The victim whose models a store holds."""
    return victims.build(
        experiment.victim,
        image_shape=store.image_shape,
        num_classes=store.manifest["num_classes"],
    )


def factory_of(
    experiment: Experiment, store: ShadowStore, *, role: str, width: int | None = None
) -> Factory:
    """The factory that made a store, on the store's own fixed set."""
    return Factory(
        victim=victim_of(experiment, store),
        training=experiment.training,
        fixed=examples(store, store.array("fixed_images"), store.array("fixed_labels")),
        key=experiment.training_key,
        role=role,
        width=width,
    )


def view_of(experiment: Experiment, store: ShadowStore) -> View:
    """What the RecoNN sees; the first shadow targets are the public images."""
    blocks = -(-experiment.view.public_images // store.manifest["block_size"])
    first = itertools.islice(store.blocks(), blocks)
    public = np.concatenate([block.images for block in first])
    return experiment.view.view(victim_of(experiment, store), public)


def examples(
    store: ShadowStore, images: np.ndarray, labels: np.ndarray
) -> data.Examples:
    """Images and labels of a store as examples."""
    return data.Examples(
        images=images,
        labels=labels,
        num_classes=store.manifest["num_classes"],
        name="store",
    )


def targets(store: ShadowStore) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of all targets of a store, without keeping its weights."""
    pairs = [(block.images, block.labels) for block in store.blocks()]
    images, labels = zip(*pairs, strict=True)
    return np.concatenate(images), np.concatenate(labels)
