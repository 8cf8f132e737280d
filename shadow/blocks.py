"""The files of a shadow data set: (weights, target) pairs in blocks, as zarr v3.

`store.Store` is the subclass that trains the models. Many workers fill a store in a
folder or a bucket; attacks that learn read it.

A store is a zarr group, a manifest and one commit per block:

    manifest.json          record (configuration, versions), layout, zarr metadata,
                           checksums of whole arrays; sealed; comes last
    weights/ images/ labels/              one zarr chunk per block
    fixed_images/ fixed_labels/           fixed set; a store is all an attack needs
    fixed_indices/ shadow_indices/ test_indices/
    initialisation/        theta_0, where it is shared
    attempts/000012.ID.json    announces what a worker will put: checksums, device
    commits/000012.json    block 12 exists: its checksums, who made it, on what device

A block is a pure function of (configuration, block number) on equal devices, if these
repeat bits (`devices.repeats_bits`) and train as many models at once; on others weights
agree to rounding. Any number of workers may fill a store, on any machines, and be
killed at any moment; only this order coordinates them, in which no announced data are
overwritten (`shadow.places`):

1. announce the attempt (`commits`): the SHA-256 of each array that will be put;
2. put each array's chunk, if it is absent;
3. read back what is stored, whoever put it, and hash it;
4. put the commit of what is stored, if it is absent. A block without one doesn't exist.

The first writer wins. A worker that finds a commit adopts it, so a straggler changes
nothing. A worker that finds data without a commit adopts the data if an attempt of this
very store announced exactly these bytes. Unannounced data (damaged, or of an earlier
store at this place) are deleted and put again, so a dead worker's data never stop
others. If two find the same unannounced data at one moment, the slower may delete what
the faster has put. Reading then raises CorruptBlockError, and `informed shadow verify`
removes the block. A store without blocks may be replaced by one of another
configuration. A worker at the old one notices when it commits, by the fingerprint.
"""

import contextlib
import dataclasses
import uuid
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shadow import checks, commits, devices, manifests, places, records, zarr_files
from shadow.commits import Attempt, BrokenSealError, Commit, CorruptBlockError
from shadow.manifests import PER_MODEL
from shadow.models import ShadowModels
from shadow.places import Address, Place
from shadow.records import ConfigurationMismatchError, NotMadeError, Record
from shadow.victims import Slice

_ROUNDING = 1e-5  # of the largest weight of theta_0; some hundred float32 spacings
_DISCARDS = 3  # times that unannounced data are deleted and put again


def same_theta_0(ours: np.ndarray | None, theirs: np.ndarray | None) -> bool:
    """Whether two theta_0 are the same, but for last digits, or there is none."""
    if ours is None or theirs is None:
        return ours is theirs
    if ours.shape != theirs.shape:
        return False
    apart = np.abs(ours - theirs).max(initial=0.0)
    return bool(apart <= _ROUNDING * np.abs(ours).max(initial=0.0))


class Blocks:
    """The blocks of an existing store.

    Attributes:
      place: where the files lie; made from `path`, an address (`places.at`).
      manifest: the content of manifest.json.
    Raises:
      NotMadeError: there is no store.
      CorruptBlockError: its manifest is damaged.
      ValueError: it has another format.
    """

    def __init__(self, path: Address) -> None:
        self.place: Place = places.at(path)
        self.manifest: dict[str, Any] = manifests.read(self.place)

    def __len__(self) -> int:
        return self.manifest["num_models"]

    @property
    def path(self) -> Path:
        """The folder of the store. Raises: ValueError: the store is in a bucket."""
        if not isinstance(self.place, places.Folder):
            raise ValueError(f"{self.place} is not a folder.")
        return self.place.path

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Shape of a target: (height, width, channels)."""
        return tuple(self.manifest["image_shape"])

    @property
    def num_classes(self) -> int:
        """Number of classes of the targets."""
        return self.manifest["num_classes"]

    @property
    def record(self) -> Record:
        """The record of the models: configuration, content of the data, versions."""
        return Record.read(self.manifest)

    def require(self, record: Record) -> None:
        """Compare the store's record with that of a caller who would continue it.

        Versions are compared, and those fields of the configuration that `record` has.

        Raises: ConfigurationMismatchError, VersionMismatchError.
        """
        there = self.record
        common = {name: there.configuration.get(name) for name in record.configuration}
        there = Record(common, there.versions)
        records.require_same(there, record, f"The store {self.place}")

    def require_theta_0(self, other: "Blocks") -> None:
        """Raise ConfigurationMismatchError unless both stores have the same theta_0.

        Last digits may differ: another kind of device draws others from the same key.
        """
        if not same_theta_0(self.initialisation, other.initialisation):
            raise ConfigurationMismatchError(
                f"The store {other.place} was made with another theta_0 than"
                f" {self.place}: the start that their factories got is not the same."
            )

    def fingerprint(self) -> str:
        """The hash of the store's record."""
        return self.manifest["fingerprint"]

    @property
    def num_blocks(self) -> int:
        """The number of blocks of the finished store."""
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
        """The shared theta_0 (params,), or None."""
        if "initialisation" not in self.manifest["sha256"]:
            return None
        return self.array("initialisation")

    def array(self, name: str) -> np.ndarray:
        """Read one of the arrays that are not cut into blocks, such as fixed_images.

        Raises: CorruptBlockError: it doesn't match its checksum.
        """
        values = None
        with contextlib.suppress(ValueError):
            values = self._rows(name, 0)
        if values is None or checks.digest(values) != self.manifest["sha256"][name]:
            raise CorruptBlockError(
                f"The array {name} of {self.place} does not match its checksum."
                f" {manifests.MAKE_AGAIN}",
                block=None,
            )
        return values

    def block_range(self, block: int) -> tuple[int, int]:
        """Return the models of a block: the first, and one past the last."""
        size = self.manifest["block_size"]
        return block * size, min((block + 1) * size, self.manifest["num_models"])

    def missing(self) -> list[int]:
        """List the blocks that have no commit."""
        done = commits.numbers(self.place.names(commits.COMMITS))
        return [block for block in range(self.num_blocks) if block not in done]

    def committed(self, block: int) -> Commit | None:
        """Return the commit of a block; None: it was never committed.

        Raises: CorruptBlockError: the commit is damaged, or another store's.
        """
        content = self.place.get(commits.commit(block))
        if content is None:
            return None
        try:
            commit = Commit.read(content)
        except BrokenSealError as error:
            raise self._corrupt(block, f"is corrupt: of its commit {error}") from error
        if commit.made.fingerprint != self.fingerprint() or commit.made.block != block:
            raise self._corrupt(
                block,
                "was committed into another store, which was in the same place before",
            )
        return commit

    def write_block(
        self,
        block: int,
        weights: np.ndarray,
        images: np.ndarray,
        labels: np.ndarray,
        *,
        trained_with: Mapping[str, Any] | None = None,
    ) -> Commit:
        """Put one block and commit it, unless another worker was first.

        Args:
          weights, images, labels: the block's models and their targets.
          trained_with: JSON-able; `Factory.trained_with` of the models.
        Returns: the commit that counts, perhaps another worker's.
        Raises:
          ConfigurationMismatchError: the store was replaced by another one meanwhile.
          CorruptBlockError: the commit is damaged, or others put data unannounced.
          OSError: the place is full, or can't be reached or written to.
          ValueError: an array of another shape than the block's, or NaN or infinity in
            it.
        """
        values = weights, images, labels
        arrays = self._arrays_of(block, *values)
        attempt = Attempt(
            block=block,
            fingerprint=self.fingerprint(),
            id=uuid.uuid4().hex,
            device=devices.kind(),
            versions=self.versions(),
            sha256={name: checks.digest(values) for name, values in arrays.items()},
            trained_with=dict(trained_with or {}),
        )
        return self._settle(attempt, arrays)

    def versions(self) -> dict[str, Any]:
        """Return the versions and revisions of this process that decide such models."""
        return records.versions(**manifests.revisions(self.record.configuration))

    def _arrays_of(self, block: int, *values: np.ndarray) -> dict[str, np.ndarray]:
        """Return a block's arrays by name, as the store has them, or ValueError."""
        start, stop = self.block_range(block)
        arrays = {}
        for name, rows in zip(PER_MODEL, values, strict=True):
            about = self.manifest["arrays"][name]
            array = np.asarray(rows, about["data_type"])
            shape, actual = (stop - start, *about["shape"][1:]), array.shape
            if actual != shape:
                raise ValueError(
                    f"Expected {name} of block {block} to be {shape}, got {actual}."
                )
            if not np.isfinite(array).all():
                raise ValueError(
                    f"Expected {name} of block {block} without NaN or infinity."
                )
            arrays[name] = array
        return arrays

    def take_block(self, block: int, source: "Blocks") -> Commit:
        """Copy a block of a store of the same configuration, unless it is here.

        The commit keeps the attempt and device that made it.

        Raises: as `require`, `write_block`, and `read_block` of the other store.
        """
        self.require(source.record)
        self.require_theta_0(source)
        models, commit = source.read_block(block), source.committed(block)
        assert commit is not None  # reading has checked it
        arrays = {name: getattr(models, name) for name in PER_MODEL}
        # Versions that the user accepts make another fingerprint.
        made = dataclasses.replace(commit.made, fingerprint=self.fingerprint())
        return self._settle(made, arrays)

    def read_block(self, block: int) -> ShadowModels:
        """Read one block and check it against its commit.

        Raises:
          CorruptBlockError: its bytes aren't those that were committed, or it belongs
            to an earlier store at this place.
          NotMadeError: it was never committed.
        """
        return ShadowModels(**self._verified(block, PER_MODEL), layout=self.layout)

    def blocks(self) -> Iterator[ShadowModels]:
        """Iterate over all blocks in order, each checked. Raises: as `read_block`."""
        if self.missing():
            raise self._incomplete()
        return (self.read_block(block) for block in range(self.num_blocks))

    def read(self) -> ShadowModels:
        """Read the whole store into memory. Raises: as `blocks`."""
        return ShadowModels(**self._whole(PER_MODEL), layout=self.layout)

    def targets(self) -> tuple[np.ndarray, np.ndarray]:
        """Read images and labels of all targets. Raises: as `blocks`."""
        arrays = self._whole(("images", "labels"))
        return arrays["images"], arrays["labels"]

    def verify(self) -> list[int]:
        """List corrupt committed blocks, and repair damaged metadata of zarr.

        Raises:
          CorruptBlockError: an array that is not cut into blocks is corrupt.
          OSError: the place can't be read.
        """
        for name in self.manifest["sha256"]:
            self.array(name)
        for file in self.damaged_metadata():
            self.place.put(file, manifests.zarr_metadata(self.manifest)[file])
        corrupt = []
        for block in sorted(commits.numbers(self.place.names(commits.COMMITS))):
            try:
                self.read_block(block)
            except CorruptBlockError:
                corrupt.append(block)
        return corrupt

    def damaged_metadata(self) -> list[str]:
        """List the files of zarr's metadata that were changed or lost.

        Only other zarr readers use them; the store itself reads the manifest.
        """
        wanted = manifests.zarr_metadata(self.manifest)
        return [name for name in wanted if self.place.get(name) != wanted[name]]

    def drop_block(self, block: int) -> None:
        """Delete a block, so that it is made again."""
        # The commit goes last: a worker that finds no commit finds no data either.
        for name in self._attempts(block):
            self.place.delete(name)
        for name in PER_MODEL:
            self.place.delete(self._chunk(name, block))
        self.place.delete(commits.commit(block))

    def remove_abandoned(self) -> None:
        """Delete dead workers' half-written files, and announcements with a commit."""
        self.place.remove_leftovers()
        left = self.place.names(commits.ATTEMPTS)
        done = commits.numbers(self.place.names(commits.COMMITS)) if left else set()
        for name in left:
            if commits.block_of(name) in done:
                self.place.delete(name)

    def _settle(self, attempt: Attempt, arrays: Mapping[str, np.ndarray]) -> Commit:
        """Take steps 1 to 4 of the module's docstring."""
        block, place = attempt.block, self.place
        self._require_own_manifest()
        if winner := self.committed(block):
            return winner
        chunks = {
            self._chunk(name, block): zarr_files.encode(
                self.manifest["arrays"][name], values
            )
            for name, values in arrays.items()
        }
        place.put_if_absent(attempt.name, attempt.content)
        for _ in range(_DISCARDS):
            for name, content in chunks.items():
                place.put_if_absent(name, content)
            made = self._announced(attempt)
            # In this order: an announcement goes only after its commit is there.
            if made is not None or (winner := self.committed(block)):
                break
            for name in chunks:
                place.delete(name)
        else:
            raise self._corrupt(block, "is put by others who do not announce it")
        if made is not None:
            self._require_own_manifest()
            winner = commit = Commit(made=made, by=attempt.id)
            if not place.put_if_absent(commit.name, commit.content):
                winner = self.committed(block) or commit
        assert winner is not None
        place.delete(attempt.name)
        return winner

    def _announced(self, own: Attempt) -> Attempt | None:
        """Find the attempt that announced a block's stored bytes; None: no attempt."""
        stored = self._read(own.block, PER_MODEL)
        sums = {name: checks.digest(values) for name, values in stored.items()}
        if sums == own.sha256:
            return own
        for name in self._attempts(own.block):
            try:
                other = Attempt.read(self.place.get(name) or b"")
            except BrokenSealError:
                continue
            if other.fingerprint == own.fingerprint and other.sha256 == sums:
                return other
        return None

    def _attempts(self, block: int) -> list[str]:
        names = self.place.names(commits.ATTEMPTS)
        return [name for name in names if commits.block_of(name) == block]

    def _whole(self, names: Collection[str]) -> dict[str, np.ndarray]:
        """Read arrays of all models, each block checked against its commit."""
        if self.missing():
            raise self._incomplete()
        about = self.manifest["arrays"]
        arrays = {
            name: np.empty(about[name]["shape"], about[name]["data_type"])
            for name in names
        }
        for block in range(self.num_blocks):
            rows = slice(*self.block_range(block))
            for name, values in self._verified(block, names).items():
                arrays[name][rows] = values
        return arrays

    def _verified(self, block: int, names: Collection[str]) -> dict[str, np.ndarray]:
        """Read arrays of a block, checked against its commit; see `read_block`."""
        commit = self.committed(block)
        if commit is None:
            raise self._incomplete()
        stored = self._read(block, names)
        sums = {name: checks.digest(values) for name, values in stored.items()}
        for name in names:
            if sums.get(name) != commit.made.sha256[name]:
                what = f"is corrupt: {name} do not match the checksum"
                raise self._corrupt(block, what)
        return stored

    def _read(self, block: int, names: Collection[str]) -> dict[str, np.ndarray]:
        """Read a block's arrays as stored, without those that can't be decoded."""
        arrays = {}
        for name in names:
            with contextlib.suppress(ValueError):
                arrays[name] = self._rows(name, block)
        return arrays

    def _rows(self, name: str, number: int) -> np.ndarray:
        """Read the rows of a chunk."""
        content = self.place.get(self._chunk(name, number))
        return zarr_files.decode(self.manifest["arrays"][name], number, content)

    def _chunk(self, name: str, number: int) -> str:
        return zarr_files.chunk_of(name, self.manifest["arrays"][name], number)

    def _corrupt(self, block: int, what: str) -> CorruptBlockError:
        return CorruptBlockError(f"Block {block} of {self.place} {what}.", block=block)

    def _incomplete(self) -> NotMadeError:
        return NotMadeError(
            f"{self.place} has {self.num_blocks - len(self.missing())} of"
            f" {self.num_blocks} blocks.",
            by="shadow",
        )

    def _require_own_manifest(self) -> None:
        """Raise unless the place still holds the store that was opened."""
        there = None
        with contextlib.suppress(NotMadeError):
            there = manifests.read(self.place)
        if there != self.manifest:
            raise ConfigurationMismatchError(
                f"The store {self.place} was replaced by one of another configuration"
                " while this worker was at it; its block is not committed."
            )
