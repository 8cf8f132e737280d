"""The shadow data set on disk: (weights, target) pairs in blocks, zarr v3.

A store is a folder with a zarr group, a manifest and one commit a block:

    manifest.json          configuration and its fingerprint, versions, layout, sizes
    weights/ images/ labels/              one zarr chunk a block
    fixed_images/ fixed_labels/           D_-, so that a store is all an attack needs
    fixed_indices/ shadow_indices/ test_indices/
    initialisation/        theta_0, where it is shared
    commits/000012.json    SHA-256 of block 12's arrays: the block exists

A block is a pure function of (configuration, block number). It counts as written only
when its commit is there, and the commit is renamed into place after the data. So
`kill -9` loses at most the block in work, "resume" is "do what has no commit", and two
workers on one block write the same bytes, given the same cores, devices and versions;
otherwise they agree to rounding. Any zarr reader can open the arrays.
"""

import dataclasses
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import typing
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from jaxtyping import Float32, Int32

from shadow import checks, files
from shadow.data import Examples, Split
from shadow.victims import Slice, Victim

FORMAT = 1
_PER_MODEL = ("weights", "images", "labels")
_VERSIONED = ("informed-adversary", "jax", "jaxlib", "dm-haiku", "optax", "numpy")


class ConfigurationMismatchError(ValueError):
    """What is there was made with another configuration; the message says where."""


class CorruptBlockError(RuntimeError):
    """A committed block doesn't match its checksum."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ShadowModels:
    """Trained models and the targets they were trained on, in memory.

    Raises: ValueError: arrays that don't have one row a model.
    """

    weights: Float32[np.ndarray, "models params"]
    images: Float32[np.ndarray, "models height width channels"]
    labels: Int32[np.ndarray, " models"]

    def __post_init__(self) -> None:
        if not len(self.weights) == len(self.images) == len(self.labels):
            raise ValueError(
                f"Expected one row a model in weights, images and labels, got"
                f" {len(self.weights)}, {len(self.images)} and {len(self.labels)}."
            )

    @classmethod
    def of(cls, weights: np.ndarray, targets: Examples) -> "ShadowModels":
        """Models, and the examples they were trained on, in the same order."""
        return cls(weights=weights, images=targets.images, labels=targets.labels)

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def image_shape(self) -> tuple[int, ...]:
        """(height, width, channels)."""
        return tuple(self.images.shape[1:])

    def blocks(self) -> "Iterator[ShadowModels]":
        """Everything as one block; what `ShadowStore.blocks` does piece by piece."""
        yield self

    def fingerprint(self) -> str:
        """A hash of everything."""
        arrays = (self.weights, self.images, self.labels)
        return checks.fingerprint([_digest(values) for values in arrays])


class ShadowStore:
    """A data set of trained models; see the module's docstring for its files.

    Made by `create` or `open`; the constructor only takes a folder that is a store.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = Path(path)
        file = self.path / "manifest.json"
        if not file.is_file():
            raise FileNotFoundError(
                f"{self.path} is not a shadow store: it has no manifest.json. Make one"
                " with `informed shadow`."
            )
        self.manifest: dict[str, Any] = json.loads(file.read_text())
        if self.manifest["format"] != FORMAT:
            raise ValueError(
                f"Expected a store of format {FORMAT} in {self.path}, found"
                f" {self.manifest['format']}."
            )
        self._group = zarr.open_group(self.path, mode="r+")

    @classmethod
    def create(
        cls,
        path: str | os.PathLike,
        *,
        configuration: Mapping[str, Any],
        victim: Victim,
        split: Split,
        role: str,
        block_size: int,
        initialisation: np.ndarray | None,
        models_per_batch: int | None = None,
    ) -> "ShadowStore":
        """Open the store of this configuration at `path`, or make an empty one.

        Args:
          path: folder; made in one step, so it is whole or absent.
          configuration: JSON-able fields that decide the weights; compared, field by
            field, with those of a store that is already there.
          victim: gives the layout of theta.
          split: the data; the models' targets are `split.shadow` for the role
            "shadow", `split.test` for "released".
          role: "shadow" or "released".
          block_size: models a block, >= 1.
          initialisation: (params,), theta_0 where all models share it, else None.
          models_per_batch: width of the factory's batches, recorded so that missing
            blocks are made with the same one.
        A store that was made otherwise but has no block yet is replaced.
        Raises: ConfigurationMismatchError: the store there was made otherwise.
        """
        checks.at_least("shadow.block_size", block_size, 1)
        path = Path(path)
        targets = split.shadow if role == "shadow" else split.test
        configuration = json.loads(json.dumps(configuration))
        whole = {
            "fixed_images": split.fixed.images,
            "fixed_labels": split.fixed.labels,
            "fixed_indices": split.fixed_indices,
            "shadow_indices": split.shadow_indices,
            "test_indices": split.test_indices,
        }
        if initialisation is not None:
            whole["initialisation"] = initialisation
        manifest = {
            "format": FORMAT,
            "role": role,
            "configuration": configuration,
            "fingerprint": checks.fingerprint(configuration),
            "versions": versions(),
            "num_models": len(targets),
            "num_params": victim.num_params,
            "num_classes": victim.num_classes,
            "image_shape": list(victim.image_shape),
            "block_size": block_size,
            "layout": [dataclasses.asdict(entry) for entry in victim.layout],
            "models_per_batch": models_per_batch,
            "data": {
                part: {
                    "name": examples.name,
                    "images_sha256": _digest(examples.images),
                    "labels_sha256": _digest(examples.labels),
                }
                for part, examples in (("fixed", split.fixed), ("targets", targets))
            },
            "sha256": {name: _digest(values) for name, values in whole.items()},
        }
        if not (path / "manifest.json").exists():
            _write_empty(path, manifest, whole)
        store = cls(path)
        same = ("role", "configuration", "num_models", "block_size", "data")
        differing = checks.differences(
            {name: store.manifest[name] for name in same},
            {name: manifest[name] for name in same},
        )
        if differing and len(store.missing()) == store.num_blocks:
            shutil.rmtree(path)
            _write_empty(path, manifest, whole)
            return cls(path)
        if differing:
            raise ConfigurationMismatchError(
                f"{path} was made with another configuration: {'; '.join(differing)}."
                " Use another --workdir, or the configuration of the store."
            )
        return store

    def __len__(self) -> int:
        return self.manifest["num_models"]

    @property
    def image_shape(self) -> tuple[int, ...]:
        """(height, width, channels)."""
        return tuple(self.manifest["image_shape"])

    def fingerprint(self) -> str:
        """A hash of everything that decides the models: configuration and data."""
        names = ("role", "configuration", "num_models", "data")
        return checks.fingerprint({name: self.manifest[name] for name in names})

    @property
    def num_blocks(self) -> int:
        """Blocks of the finished store."""
        return -(-len(self) // self.manifest["block_size"])

    @property
    def layout(self) -> tuple[Slice, ...]:
        """Which slice of theta is which array of the victim."""
        return tuple(
            Slice(**{**entry, "shape": tuple(entry["shape"])})
            for entry in self.manifest["layout"]
        )

    @property
    def initialisation(self) -> np.ndarray | None:
        """Theta_0 (params,) where all models share it, else None."""
        if "initialisation" not in self._group:
            return None
        return self.array("initialisation")

    def array(self, name: str) -> np.ndarray:
        """One of the arrays that are not cut into blocks, such as fixed_images.

        Raises: CorruptBlockError: it doesn't match its checksum.
        """
        values = np.asarray(self._zarr(name)[...])
        if _digest(values) != self.manifest["sha256"][name]:
            raise CorruptBlockError(
                f"The array {name} of {self.path} does not match its checksum. Delete"
                " the folder and make it again with `informed shadow`."
            )
        return values

    def block_range(self, block: int) -> tuple[int, int]:
        """The models of a block: first, and one past the last."""
        size = self.manifest["block_size"]
        return block * size, min((block + 1) * size, len(self))

    def missing(self) -> list[int]:
        """Blocks that have no commit."""
        return [b for b in range(self.num_blocks) if not self._commit_file(b).exists()]

    def write_block(
        self, block: int, weights: np.ndarray, images: np.ndarray, labels: np.ndarray
    ) -> None:
        """Write one block, then commit it.

        Raises: ValueError: an array of another shape than the block's.
        """
        start, stop = self.block_range(block)
        arrays = dict(zip(_PER_MODEL, (weights, images, labels), strict=True))
        for name, values in arrays.items():
            shape = (stop - start, *self._zarr(name).shape[1:])
            if values.shape != shape:
                raise ValueError(
                    f"Expected {name} of block {block} to be {shape}, got"
                    f" {values.shape}."
                )
        for name, values in arrays.items():
            self._zarr(name)[start:stop] = values
        commit = {
            "block": block,
            "sha256": {name: _digest(values) for name, values in arrays.items()},
        }
        files.write_json(self._commit_file(block), commit)
        if not self.missing():
            self._remove_partials()

    def read_block(self, block: int) -> ShadowModels:
        """Read one block and check it against its commit.

        Raises:
          CorruptBlockError: its bytes aren't those that were committed.
          RuntimeError: it was never committed.
        """
        if not self._commit_file(block).exists():
            raise RuntimeError(self._incomplete())
        found = self._read(block)
        commit = json.loads(self._commit_file(block).read_text())
        for name in _PER_MODEL:
            if _digest(getattr(found, name)) != commit["sha256"][name]:
                raise CorruptBlockError(
                    f"Block {block} of {self.path} is corrupt: {name} do not match the"
                    " checksum. Find and remake such blocks with `informed shadow"
                    f" verify --workdir={self.path.parent}`."
                )
        return found

    def blocks(self) -> Iterator[ShadowModels]:
        """All blocks in order, each checked.

        Raises: as `read_block`; RuntimeError at once if the store isn't complete.
        """
        if self.missing():
            raise RuntimeError(self._incomplete())
        return (self.read_block(block) for block in range(self.num_blocks))

    def read(self) -> ShadowModels:
        """The whole store; needs its size in memory."""
        weights, images, labels = (
            np.empty(self._zarr(name).shape, self._zarr(name).dtype)
            for name in _PER_MODEL
        )
        for number, block in enumerate(self.blocks()):
            rows = slice(*self.block_range(number))
            weights[rows], images[rows] = block.weights, block.images
            labels[rows] = block.labels
        return ShadowModels(weights=weights, images=images, labels=labels)

    def verify(self) -> list[int]:
        """Committed blocks that are corrupt or can't be read.

        Raises: CorruptBlockError: one of the arrays that are not cut into blocks is.
        """
        for name in self.manifest["sha256"]:
            self.array(name)
        corrupt = []
        for block in range(self.num_blocks):
            if self._commit_file(block).exists():
                try:
                    self.read_block(block)
                except (CorruptBlockError, OSError, ValueError, KeyError):
                    corrupt.append(block)
        return corrupt

    def drop_block(self, block: int) -> None:
        """Take back a commit, so that the block is made again."""
        self._commit_file(block).unlink(missing_ok=True)

    def _read(self, block: int) -> ShadowModels:
        """A block's arrays as they lie on disk."""
        start, stop = self.block_range(block)
        return ShadowModels(
            **{name: np.asarray(self._zarr(name)[start:stop]) for name in _PER_MODEL}
        )

    def _zarr(self, name: str) -> zarr.Array:
        """An array of the group."""
        return typing.cast(zarr.Array, self._group[name])

    def _commit_file(self, block: int) -> Path:
        return self.path / "commits" / f"{block:06d}.json"

    def _incomplete(self) -> str:
        """Message for a reader who comes too early."""
        return (
            f"{self.path} has {self.num_blocks - len(self.missing())} of"
            f" {self.num_blocks} blocks. Finish it with `informed shadow`."
        )

    def _remove_partials(self) -> None:
        """Delete what killed workers left behind."""
        for file in self.path.rglob("*.partial"):
            file.unlink(missing_ok=True)


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide the weights."""
    found = {"python": platform.python_version()}
    for package in _VERSIONED:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _write_empty(
    path: Path, manifest: Mapping[str, Any], whole: Mapping[str, np.ndarray]
) -> None:
    """Make a store without blocks, whole or not at all."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    group = zarr.create_group(partial)
    rows, per_block = manifest["num_models"], manifest["block_size"]
    shapes: dict[str, tuple[tuple[int, ...], str, Any]] = {
        "weights": ((manifest["num_params"],), "float32", float("nan")),
        "images": (tuple(manifest["image_shape"]), "float32", float("nan")),
        "labels": ((), "int32", -1),
    }
    for name, (shape, dtype, fill) in shapes.items():
        group.create_array(
            name,
            shape=(rows, *shape),
            chunks=(per_block, *shape),
            dtype=dtype,
            fill_value=fill,
            compressors=None,  # trained weights don't compress
        )
    for name, values in whole.items():
        group.create_array(name, data=np.asarray(values))
    files.write_json(partial / "manifest.json", manifest)
    try:
        partial.rename(path)
    except OSError:
        shutil.rmtree(partial)
        if not (path / "manifest.json").exists():
            raise
        # Another worker was faster; its store is as good.


def _digest(values: np.ndarray) -> str:
    """SHA-256 of an array's bytes, little-endian, in C order."""
    array = np.ascontiguousarray(values)
    return hashlib.sha256(array.astype(array.dtype.newbyteorder("<")).data).hexdigest()
