"""Where a run keeps its stages, and the record that makes each of them resumable."""

import contextlib
import dataclasses
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shadow import files, places, records
from shadow.places import Address, Place
from shadow.records import NotMadeError, Record


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

    def store(self, role: str) -> Place:
        """Where the store of a role is."""
        return places.at(self.shadow).below(role)


class Stage:
    """A stage of a run in `folder`, which may be in a bucket.

    Raises: ConfigurationMismatchError, VersionMismatchError: it was begun there under
      another record.
    """

    def __init__(
        self, folder: Address, name: str, record: Record, *, outputs: Sequence[str]
    ) -> None:
        self._place, self._name, self.record = places.at(folder), name, record
        self.done, self.progress, self.wall_s = False, False, 0.0
        self._accepted: list[str] = []
        content = self._place.get(_file(name))
        if content is not None:
            there = json.loads(content)
            if not there["progress"]:
                return  # begun, but nothing came of it
            accepted = _require(there, folder, name, record)
            self._accepted = sorted({*there.get("accepted", []), *accepted})
            self.done = there["done"] and all(
                self._place.has(output) for output in outputs
            )
            self.progress, self.wall_s = True, there["wall_s"]

    @staticmethod
    def read(folder: Address, name: str) -> dict[str, Any]:
        """What is recorded of a stage that was begun.

        Raises: NotMadeError: it wasn't.
        """
        content = places.at(folder).get(_file(name))
        if content is None:
            raise NotMadeError(
                f"The stage {name!r} was never run in {folder}.", by=name
            )
        return json.loads(content)

    @staticmethod
    def require(folder: Address, name: str, record: Record) -> None:
        """Refuse to build on a stage that isn't finished, or was made otherwise.

        Raises:
          NotMadeError: it isn't finished.
          ConfigurationMismatchError, VersionMismatchError: made under another record.
        """
        there = Stage.read(folder, name)
        _require(there, folder, name, record)
        if not there["done"]:
            raise NotMadeError(
                f"The stage {name!r} in {folder} is not finished.", by=name
            )

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Record the beginning, the time, and, without an error, the end."""
        self._clock = time.monotonic()
        self._write(done=False)
        yield
        self.note()
        self._write(done=True)

    def note(self) -> None:
        """Record the time until now, so that an interruption doesn't lose it."""
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
