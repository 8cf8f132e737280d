"""Where a run keeps its stages, and the record that makes each of them resumable."""

import contextlib
import dataclasses
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shadow import checks, files
from shadow.store import ConfigurationMismatchError

STAGES = ("shadow", "train", "attack", "invert", "evaluate")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Paths:
    """Where a run reads and writes.

    Attributes:
      workdir: folder of the run.
      shadow: folder whose shadow and released models are used; default: workdir.
      data_dir: TFDS folder; None: TFDS_DATA_DIR.
    """

    workdir: Path
    shadow: Path
    data_dir: str | None = None


class Stage:
    """A stage of a run in `folder`.

    Raises: ConfigurationMismatchError: it was begun there with another configuration.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        configuration: Mapping[str, Any],
        *,
        outputs: Sequence[str],
    ) -> None:
        self.file = folder / "stages" / f"{name}.json"
        self.configuration = json.loads(json.dumps(configuration))
        self.done, self.progress, self.wall_s = False, False, 0.0
        if self.file.exists():
            record = json.loads(self.file.read_text())
            if not record["progress"]:
                return  # begun, but nothing came of it
            differing = checks.differences(record["configuration"], self.configuration)
            if differing:
                raise ConfigurationMismatchError(
                    f"The stage {name!r} in {folder} was begun with another"
                    f" configuration: {'; '.join(differing)}. Use another --workdir"
                    " (with --shadow to attack the same models), or that configuration."
                )
            self.done = record["done"] and all(
                (folder / output).exists() for output in outputs
            )
            self.progress, self.wall_s = True, record["wall_s"]

    @staticmethod
    def read(folder: Path, name: str) -> dict[str, Any]:
        """The record of a stage that was begun.

        Raises: FileNotFoundError: it wasn't.
        """
        file = folder / "stages" / f"{name}.json"
        if not file.exists():
            raise FileNotFoundError(
                f"The stage {name!r} was never run in {folder}. Run `informed {name}`."
            )
        return json.loads(file.read_text())

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
        record = {
            "configuration": self.configuration,
            "done": done,
            "progress": self.progress,
            "wall_s": round(self.wall_s, 3),
        }
        files.write_json(self.file, record)
