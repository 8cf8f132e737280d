"""The shadow data set on disk: (weights, target) pairs in blocks, zarr v3.

A store is a folder with a zarr group, a manifest and one commit per block:

    manifest.json          record (configuration, versions), layout, sizes; comes last
    weights/ images/ labels/              one zarr chunk per block
    fixed_images/ fixed_labels/           D_-, so that a store is all an attack needs
    fixed_indices/ shadow_indices/ test_indices/
    initialisation/        theta_0, where it is shared
    commits/000012.json    SHA-256 of block 12's arrays, and the store's fingerprint:
                           the block exists

A block is a pure function of (configuration, block number). It counts as written only
when its commit is there, and the commit is renamed into place after the data. So
`kill -9` loses at most the block in work, "resume" is "do what has no commit", and two
workers on one block write the same bytes, given the same cores, devices and versions;
otherwise they agree to rounding. Any zarr reader can open the arrays.

A store that has no block yet may be replaced by one of another configuration. A worker
that is still at the old one finds out when it commits: every commit carries the
fingerprint of its store, which is checked when it is written and when it is read.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import time
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from jaxtyping import Float32, Int32

from shadow import checks, data, files, records, training
from shadow.data import Examples, Split
from shadow.records import ConfigurationMismatchError, NotMadeError, Record
from shadow.training.algorithm import Algorithm
from shadow.victims import Slice

FORMAT = 2
_PER_MODEL = ("weights", "images", "labels")
_ABANDONED = 3600.0  # seconds without a write, after which its writer must be dead


class CorruptBlockError(RuntimeError):
    """What was committed doesn't match its checksum.

    Attributes:
      block: its number; None: an array that is not cut into blocks, which only a new
        store can replace.
    """

    def __init__(self, message: str, *, block: int | None) -> None:
        super().__init__(message)
        self.block = block


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ShadowModels:
    """Trained models and the targets they were trained on, in memory.

    Raises: ValueError: arrays that don't have one row per model.
    """

    weights: Float32[np.ndarray, "models params"]
    images: Float32[np.ndarray, "models height width channels"]
    labels: Int32[np.ndarray, " models"]

    def __post_init__(self) -> None:
        if not len(self.weights) == len(self.images) == len(self.labels):
            raise ValueError(
                f"Expected one row per model in weights, images and labels, got"
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
            raise NotMadeError(
                f"{self.path} is not a shadow store: it has no manifest.json.",
                by="shadow",
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
        algorithm: Algorithm,
        split: Split,
        role: str,
        block_size: int,
        initialisation: np.ndarray | None,
        models_per_batch: int | None = None,
    ) -> "ShadowStore":
        """Open the store of this configuration at `path`, or make an empty one.

        Args:
          path: folder; it is a store once its manifest is there, which comes last.
          configuration: JSON-able fields that decide the weights; compared, field by
            field, with those of a store that is already there, as are the versions.
          algorithm: A; gives the layout of theta, and its own configuration.
          split: the data; the models' targets are `split.shadow` for the role
            "shadow", `split.test` for "released".
          role: "shadow" or "released".
          block_size: models per block, >= 1.
          initialisation: (params,), theta_0 where all models share it, else None.
          models_per_batch: width of the factory's batches, recorded so that missing
            blocks are made with the same one.
        A store that was made otherwise but has no block yet is replaced.
        Raises: ConfigurationMismatchError, VersionMismatchError: the store there was
          made otherwise.
        """
        checks.at_least("block_size", block_size, 1)
        path = Path(path)
        targets = split.shadow if role == "shadow" else split.test
        layout = algorithm.layout(split.fixed)
        record = Record.of(
            {
                "role": role,
                **algorithm.configuration,
                **configuration,
                "num_models": len(targets),
                "block_size": block_size,
                "content": {
                    part: {
                        "name": examples.name,
                        "images_sha256": _digest(examples.images),
                        "labels_sha256": _digest(examples.labels),
                    }
                    for part, examples in (("fixed", split.fixed), ("targets", targets))
                },
            },
            data=data.REVISION,
            training=training.REVISION,
        )
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
            **record.values,
            "fingerprint": record.fingerprint(),
            "packages": records.packages(),
            "num_models": len(targets),
            "num_params": layout[-1].stop,
            "num_classes": split.fixed.num_classes,
            "image_shape": list(split.fixed.image_shape),
            "block_size": block_size,
            "layout": [dataclasses.asdict(entry) for entry in layout],
            "models_per_batch": models_per_batch,
            "sha256": {name: _digest(values) for name, values in whole.items()},
        }
        if not (path / "manifest.json").exists():
            _write_empty(path, manifest, whole)
        store = cls(path)
        if store.record != record and len(store.missing()) == store.num_blocks:
            (path / "manifest.json").unlink(missing_ok=True)
            _write_empty(path, manifest, whole)
            store = cls(path)
        store.require(record)
        store.remove_abandoned()
        return store

    def __len__(self) -> int:
        return self.manifest["num_models"]

    @property
    def image_shape(self) -> tuple[int, ...]:
        """(height, width, channels)."""
        return tuple(self.manifest["image_shape"])

    @property
    def record(self) -> Record:
        """What decided the models: configuration, content of the data, versions."""
        return Record.read(self.manifest)

    def require(self, record: Record) -> list[str]:
        """Compare with the record of who would go on with this store.

        Only groups and fields of the configuration that `record` has are compared.

        Returns: versions that differ and were accepted.
        Raises: ConfigurationMismatchError, VersionMismatchError: see `records`.
        """
        found = self.record
        common = {name: found.configuration.get(name) for name in record.configuration}
        return records.require_same(
            Record(common, found.versions), record, f"The store {self.path}"
        )

    def fingerprint(self) -> str:
        """A hash of everything that decides the models."""
        return self.manifest["fingerprint"]

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
        if "initialisation" not in self.manifest["sha256"]:
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
                " the folder and make it again.",
                block=None,
            )
        return values

    def block_range(self, block: int) -> tuple[int, int]:
        """The models of a block: first, and one past the last."""
        size = self.manifest["block_size"]
        return block * size, min((block + 1) * size, len(self))

    def missing(self) -> list[int]:
        """Blocks that have no commit."""
        folder = self.path / "commits"
        done = {file.stem for file in folder.glob("*.json")}
        return [b for b in range(self.num_blocks) if f"{b:06d}" not in done]

    def write_block(
        self, block: int, weights: np.ndarray, images: np.ndarray, labels: np.ndarray
    ) -> None:
        """Write one block, then commit it.

        Raises:
          ConfigurationMismatchError: the store was replaced by another one meanwhile.
          ValueError: an array of another shape than the block's.
        """
        start, stop = self.block_range(block)
        arrays = {
            name: np.asarray(values, self._zarr(name).dtype)
            for name, values in zip(_PER_MODEL, (weights, images, labels), strict=True)
        }
        for name, values in arrays.items():
            shape = (stop - start, *self._zarr(name).shape[1:])
            if values.shape != shape:
                raise ValueError(
                    f"Expected {name} of block {block} to be {shape}, got"
                    f" {values.shape}."
                )
        self._require_own_manifest()
        for name, values in arrays.items():
            self._zarr(name)[start:stop] = values
        self._require_own_manifest()
        commit = {
            "block": block,
            "fingerprint": self.fingerprint(),
            "versions": dict(self.record.versions) | records.versions(),
            "sha256": {name: _digest(values) for name, values in arrays.items()},
        }
        files.write_json(self._commit_file(block), commit)

    def read_block(self, block: int) -> ShadowModels:
        """Read one block and check it against its commit.

        Raises:
          CorruptBlockError: its bytes aren't those that were committed, or it was
            committed into another store that was here before.
          NotMadeError: it was never committed.
        """
        if not self._commit_file(block).exists():
            raise self._incomplete()
        found = self._read(block)
        commit = json.loads(self._commit_file(block).read_text())
        if commit.get("fingerprint") != self.fingerprint():
            raise CorruptBlockError(
                f"Block {block} of {self.path} was committed into another store, which"
                " was in the same folder before.",
                block=block,
            )
        for name in _PER_MODEL:
            if _digest(getattr(found, name)) != commit["sha256"][name]:
                raise CorruptBlockError(
                    f"Block {block} of {self.path} is corrupt: {name} do not match the"
                    " checksum.",
                    block=block,
                )
        return found

    def blocks(self) -> Iterator[ShadowModels]:
        """All blocks in order, each checked.

        Raises: as `read_block`; NotMadeError at once if the store isn't complete.
        """
        if self.missing():
            raise self._incomplete()
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

    def _incomplete(self) -> NotMadeError:
        """For a reader who comes too early."""
        return NotMadeError(
            f"{self.path} has {self.num_blocks - len(self.missing())} of"
            f" {self.num_blocks} blocks.",
            by="shadow",
        )

    def _require_own_manifest(self) -> None:
        """Whether the folder still holds the store that was opened."""
        try:
            there = json.loads((self.path / "manifest.json").read_text())
        except FileNotFoundError:
            there = {"fingerprint": None}
        if there["fingerprint"] != self.fingerprint():
            raise ConfigurationMismatchError(
                f"The store {self.path} was replaced by one of another configuration"
                " while this worker was at it; its block is not committed."
            )

    def remove_abandoned(self, age: float = _ABANDONED) -> None:
        """Delete half-written files that nobody has written to for `age` seconds.

        Killed workers leave them behind. Younger ones may be a live worker's.
        """
        for file in self.path.rglob("*.partial"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > age:
                    file.unlink()


def _write_empty(
    path: Path, manifest: Mapping[str, Any], whole: Mapping[str, np.ndarray]
) -> None:
    """Make a store without blocks; it is one when its manifest is there.

    Of several workers who do this at once the first one's manifest stays.
    """
    group = zarr.open_group(path, mode="a")
    rows, per_block = manifest["num_models"], manifest["block_size"]
    shapes: dict[str, tuple[tuple[int, ...], str, Any]] = {
        "weights": ((manifest["num_params"],), "float32", float("nan")),
        "images": (tuple(manifest["image_shape"]), "float32", float("nan")),
        "labels": ((), "int32", -1),
    }
    for name, (shape, dtype, fill) in shapes.items():
        _require_array(
            group,
            name,
            shape=(rows, *shape),
            chunks=(per_block, *shape),
            dtype=np.dtype(dtype),
            fill_value=fill,
            compressors=None,  # trained weights don't compress
        )
    for name, each in whole.items():
        values = np.asarray(each)
        _require_array(group, name, shape=values.shape, dtype=values.dtype)[...] = (
            values
        )
    files.write_json(path / "manifest.json", manifest, only_if_absent=True)


def _require_array(group: zarr.Group, name: str, **settings: Any) -> zarr.Array:
    """An array of the group; what another worker has made or written to it stays."""
    with contextlib.suppress(zarr.errors.ContainsArrayError):
        return group.create_array(name, **settings)
    there = typing.cast(zarr.Array, group[name])
    same = all(
        getattr(there, setting) == settings[setting]
        for setting in ("shape", "chunks", "dtype")
        if setting in settings
    )
    return there if same else group.create_array(name, overwrite=True, **settings)


def _digest(values: np.ndarray) -> str:
    """SHA-256 of an array's bytes, little-endian, in C order."""
    array = np.ascontiguousarray(values)
    return hashlib.sha256(array.astype(array.dtype.newbyteorder("<")).data).hexdigest()
