"""A data set of (weights, target) pairs that a factory trains, in a folder or bucket.

Either the adversary's shadow models, which attacks that learn read, or the released
models, whose targets are the truth that no attack reads. `informed shadow`, runs and
users make stores; `blocks` has the files.
"""

import dataclasses
import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from shadow import bars, checks, commits, manifests, places, records
from shadow.blocks import Blocks, same_theta_0
from shadow.commits import CorruptBlockError
from shadow.data import Examples
from shadow.factory import Factory
from shadow.manifests import MANIFEST, PER_MODEL
from shadow.places import Address
from shadow.records import ConfigurationMismatchError, Record

__all__ = ["BLOCK_SIZE", "CorruptBlockError", "Store"]
BLOCK_SIZE = 512  # models in a block, by default


class Store(Blocks):
    """A data set of trained models.

    `open` gives one that can be filled. `Store(path)` opens an existing one, to read.
    """

    _factory: Factory | None = None
    _targets: Examples | None = None

    def __str__(self) -> str:
        """Return the address, and how much of the store is made."""
        missing = len(self.missing())
        return f"{len(self)} models in {self.place}; {missing} blocks missing"

    @classmethod
    def open(
        cls,
        path: Address,
        factory: Factory,
        targets: Examples,
        *,
        block_size: int | None = None,
        configuration: Mapping[str, Any] | None = None,
        positions: Mapping[str, np.ndarray] | None = None,
        dropped: int = 0,
    ) -> "Store":
        """Open the store of a factory's models of some targets, or make an empty one.

        An existing store with another record is replaced if it has no block yet, and
        refused if it has one.

        Args:
          path: folder or address.
          factory: trains the models; its identity, data and initial weights theta_0
            are kept, and compared with those of an existing store, as are the versions.
          targets: one z per model.
          block_size: models per block, >= 1; None: that of an existing store, or 512.
          configuration: further JSON-able fields to keep and compare, such as an
            experiment's settings of data and victim.
          positions: positions of fixed set and targets in their pools, by name, as
            `Split.positions` has them.
          dropped: number of copies that the split left out, for reports.
        Raises: ConfigurationMismatchError, VersionMismatchError: an existing store has
          another record; names each field that differs.
        """
        place = places.at(path)
        if block_size is None:
            block_size = BLOCK_SIZE
            if place.get(MANIFEST) is not None:
                block_size = manifests.read(place)["block_size"]
        record, manifest, arrays = manifests.of(
            factory,
            targets,
            block_size=block_size,
            configuration=configuration or {},
            positions=positions or {},
            dropped=dropped,
        )
        if place.get(MANIFEST) is None:
            manifests.put_empty(place, manifest, arrays)
        store = cls(place)
        same = store.record == record
        same &= same_theta_0(store.initialisation, factory.initialisation)
        if not same and len(store.missing()) == store.num_blocks:
            store._clear()
            manifests.put_empty(place, manifest, arrays)
            store = cls(place)
        store.require(record)
        store.remove_abandoned()
        return store.made_by(factory, targets)

    @classmethod
    def create_like(cls, path: Address, other: Blocks) -> "Store":
        """Open the store of the same configuration at `path`, or make an empty one.

        Raises: as `require` of an existing store, and `array` of the other.
        """
        place = places.at(path)
        if place.get(MANIFEST) is None:
            arrays = {name: other.array(name) for name in other.manifest["sha256"]}
            manifests.put_empty(place, other.manifest, arrays)
        store = cls(place)
        store.require(other.record)
        return store

    def _require_made_of(self, factory: Factory, targets: Examples) -> None:
        """Raise ConfigurationMismatchError if factory or data are others."""
        fixed, kept = factory.fixed, self.manifest["configuration"]
        content = {"fixed": fixed.sha256, "targets": targets.sha256}
        wanted = {
            **factory.identity,
            "num_models": len(targets),
            "num_classes": fixed.num_classes,
            "content": content,
        }
        there = {name: kept.get(name) for name in factory.identity}
        there |= {name: self.manifest[name] for name in ("num_models", "num_classes")}
        # The names of data sets don't matter.
        there["content"] = {
            part: {name: kept["content"][part].get(name) for name in sums}
            for part, sums in content.items()
        }
        if differing := checks.differences(there, wanted):
            raise ConfigurationMismatchError(
                f"The store {self.place} was made with another configuration:"
                f" {'; '.join(differing)}. Open a store for these models."
            )

    def made_by(self, factory: Factory, targets: Examples) -> "Store":
        """Return this store with a factory that may fill it; raise if it may not.

        The factory trains from the theta_0 that the store holds.

        Raises: ConfigurationMismatchError: the store has another factory, theta_0 or
          target set; names each field that differs.
        """
        self._require_made_of(factory, targets)
        kept, drawn = self.initialisation, factory.initialisation
        if not same_theta_0(kept, drawn):
            raise ConfigurationMismatchError(
                f"The store {self.place} was made with another theta_0 than this"
                " factory's. To use that one, give it to the factory:"
                " dataclasses.replace(factory, start=store.initialisation)."
            )
        if kept is not None and drawn is not None and (kept != drawn).any():
            factory = dataclasses.replace(factory, start=kept)
        store = type(self)(self.place)
        store._factory, store._targets = factory, targets
        return store

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address, so that workers in other processes open it again."""
        place, versions = str(self.place), self.versions()
        return _reopened, (type(self), place, self._factory, self._targets, versions)

    @property
    def factory(self) -> Factory:
        """The factory that fills this store. Raises: ValueError: it is only read."""
        if self._factory is None:
            raise ValueError(
                f"The store {self.place} was opened to be read. To fill it, open it"
                " with Store.open(path, factory, targets)."
            )
        return self._factory

    def fill(
        self,
        *,
        launcher: Callable[..., None] | None = None,
        blocks: Sequence[int] | None = None,
        progress: bool = True,
        on_block: Callable[[], None] = lambda: None,
    ) -> None:
        """Train every block that the store lacks, and commit each when it is done.

        Other workers may fill the same store: each begins at a random block and skips
        blocks that have been committed.

        Args:
          launcher: starts workers, such as `shadow.Ray(...)`, `shadow.Share(3, of=16)`;
            None: this process, on all of its devices. See `shadow.launchers.Launch`.
          blocks: the blocks to make, in this order, if the store lacks them; None: all.
            Not with a launcher.
          progress: show a bar with models/s and the time left.
          on_block: called after each commit.
        Raises: as `Factory.train`, `write_block` and the launcher; ValueError: the
          store was opened to be read, or blocks and a launcher.
        """
        factory, targets = self.factory, self._targets
        assert targets is not None
        self._require_made_of(factory, targets)  # neither was changed since
        if launcher is not None:
            if blocks is not None:
                raise ValueError(
                    "Expected blocks or a launcher, got both: a launcher divides the"
                    " blocks itself."
                )
            prepare = functools.partial(tuple, [self])
            launcher(prepare, progress=progress, on_block=on_block)
            return
        missing = self.missing()
        rows_of = {block: np.arange(*self.block_range(block)) for block in missing}
        if blocks is None:
            first = random.randrange(len(missing)) if missing else 0
            todo, total = missing[first:] + missing[:first], len(self)
        else:
            blocks = [checks.integer("blocks", block, 0) for block in blocks]
            for block in blocks:
                checks.within("blocks", block, 0, self.num_blocks)
            todo = [block for block in blocks if block in rows_of]
            total = sum(len(range(*self.block_range(block))) for block in blocks)
        with bars.bar(
            total=total,
            initial=total - sum(len(rows_of[block]) for block in todo),
            desc=f"{factory.role} models",
            unit=" models",
            show=progress,
        ) as bar:
            for group in self._unfinished(todo, bar):
                ids = np.concatenate([rows_of[block] for block in group])
                part = targets.take(ids)
                weights = factory.train(part, ids=ids, bar=bar)
                start = 0
                for block in group:
                    rows = slice(start, start + len(rows_of[block]))
                    start = rows.stop
                    self.write_block(
                        block,
                        weights[rows],
                        part.images[rows],
                        part.labels[rows],
                        trained_with=factory.trained_with,
                    )
                    on_block()

    @property
    def blocks_at_once(self) -> int:
        """The number of blocks trained at once, at least one."""
        return max(1, self.factory.models_at_once // self.manifest["block_size"])

    def _unfinished(self, todo: Sequence[int], bar: tqdm) -> Iterator[list[int]]:
        """Yield groups of blocks that have no commit when their turn comes."""
        group: list[int] = []
        for block in todo:
            if self.committed(block) is None:
                group.append(block)
            else:
                bar.update(len(range(*self.block_range(block))))
            if len(group) == self.blocks_at_once:
                yield group
                group = []
        if group:
            yield group

    def _clear(self) -> None:
        """Delete the store, for another one; the manifest goes first."""
        self.place.delete(MANIFEST)
        for folder in (*(f"{name}/c" for name in PER_MODEL), commits.ATTEMPTS):
            for name in self.place.names(folder):
                self.place.delete(name)


def _reopened(
    cls: type[Store],
    path: str,
    factory: Factory | None,
    targets: Examples | None,
    versions: Mapping[str, Any],
) -> Store:
    store = cls(path)
    sender, here = (Record({}, v) for v in (versions, store.versions()))
    records.require_same(sender, here, f"The store {path} that came to this worker")
    if factory is None or targets is None:
        return store
    return store.made_by(factory, targets)
