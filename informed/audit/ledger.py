"""Keep the finished parts of an audit in a folder until the whole is finished.

`auditing` goes on from there when the same command is given again: after it was killed,
or with more minutes. `cli.audit_command` names the folder. A part is one .npz file,
which is whole or absent: arrays, and the other fields as JSON. Parts hold training
data, as the page does.

    AUDIT.html.parts/audit.json         a hash of what decides the parts
    AUDIT.html.parts/released.npz       weights of the released models
    AUDIT.html.parts/shadows.npz        weights of the shadow models
    AUDIT.html.parts/trial-NAME.npz     an attack's trial, as far as it came
    AUDIT.html.parts/noise.npz          the rows of `noise_game`
"""

import dataclasses
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from informed.play import Trial
from shadow import checks, files
from shadow.threat import Reconstruction

_FIELDS, _VERSION, _GUESS = "fields", "version of attack", "reconstruction/"
Arrays = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Ledger:
    """A folder of finished parts.

    Attributes:
      folder: where they are; None: nothing is written, and no part is there.
    """

    folder: Path | None = None

    def open(self, identity: Mapping[str, Any]) -> None:
        """Begin, or go on: parts of another audit are removed.

        Args:
          identity: what decides the parts, as JSON values.
        """
        if self.folder is None:
            return
        file, mark = self.folder / "audit.json", checks.fingerprint(identity)
        if not file.is_file() or json.loads(file.read_text()) != {"fingerprint": mark}:
            self.remove()
            self.folder.mkdir(parents=True, mode=0o700)
            files.write_json(file, {"fingerprint": mark})

    def remove(self) -> None:
        """Remove all parts."""
        if self.folder is not None and self.folder.exists():
            shutil.rmtree(self.folder)

    def keep(self, part: str, arrays: Arrays, **fields: Any) -> None:
        """Write a part; it replaces one of the same name."""
        if self.folder is not None:
            every: dict[str, Any] = {_FIELDS: json.dumps(fields), **arrays}
            files.write_arrays(self.folder / f"{part}.npz", **every)

    def part(self, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """Return arrays and fields of a part; None: it isn't there."""
        if self.folder is None or not (self.folder / f"{name}.npz").is_file():
            return None
        arrays = files.read_arrays(self.folder / f"{name}.npz")
        return arrays, json.loads(str(arrays.pop(_FIELDS)))

    def keep_trial(self, trial: Trial, version: int | str) -> None:
        """Write a trial, from which `trial` makes it again; the attack's version."""
        fields, arrays = _apart(trial, "")
        fields[_VERSION] = version
        if trial.reconstruction is not None:
            guess, more = _apart(trial.reconstruction, _GUESS)
            fields, arrays = fields | guess, arrays | more
        self.keep(_file_of(trial.name), arrays, **fields)

    def trial(self, name: str, version: int | str) -> Trial | None:
        """Return the trial of an attack; None: there is none of this version."""
        part = self.part(_file_of(name))
        if part is None or part[1].pop(_VERSION, None) != version:
            return None
        arrays, fields = part
        values = fields | arrays
        guess = {
            key.removeprefix(_GUESS): values.pop(key)
            for key in list(values)
            if key.startswith(_GUESS)
        }
        reconstruction = Reconstruction(**guess) if guess else None
        return Trial(**values, reconstruction=reconstruction)


def _apart(value: Any, prefix: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the plain fields of a dataclass, and its arrays."""
    every = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    every.pop("reconstruction", None)
    named = {f"{prefix}{name}": field for name, field in every.items()}
    arrays = {name: v for name, v in named.items() if isinstance(v, np.ndarray)}
    return {name: v for name, v in named.items() if name not in arrays}, arrays


def _file_of(name: str) -> str:
    """Return the name of the part that holds an attack's trial."""
    return f"trial-{re.sub(r'[^a-z0-9]+', '-', name.lower())}"
