"""What only the owner of a system knows of it, from a small TOML file.

Checked: tests/informed/report/test_dossier.py.
"""

import dataclasses
import hashlib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shadow import checks

TEMPLATE = """\
# What only you know of the system. What is left empty, the dossier calls "not stated".

[system]
name = ""       # what it is called
version = ""    # of the model that is to be released
purpose = ""    # what it is for, in a sentence
owner = ""      # who is responsible
contact = ""    # where questions go

[data]
description = ""   # what a record is
people = ""        # whose records these are, and how many
origin = ""        # where they come from, and on what basis
sensitive = ""     # what in them would harm someone if it were read

[release]
form = ""       # weights on a public hub, a service, a file for partners
audience = ""   # who gets it
seed = ""       # who knows the random seed of training, and for how long it is kept
files = []      # files that are released: they are hashed, not read
manifest = ""   # a file that names the records or the version of the data: hashed
"""


def _group(name: str, empty: Mapping[str, Any]) -> Any:
    """The fields of a group of `TEMPLATE` as a class, by which a file is checked."""
    fields: list[tuple[str, Any, Any]] = [
        (field, tuple[str, ...], ()) if value == [] else (field, str, value)
        for field, value in empty.items()
    ]
    return dataclasses.make_dataclass(name, fields, frozen=True)


_GROUPS = {name: _group(name, each) for name, each in tomllib.loads(TEMPLATE).items()}
_Stated: Any = dataclasses.make_dataclass(
    "_Stated",
    [(name, of, dataclasses.field(default_factory=of)) for name, of in _GROUPS.items()],
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class About:
    """What an owner states, as `TEMPLATE` asks for it; nothing here is checked.

    Attributes:
      stated: group -> field -> what is stated; "" or () where nothing is.
      folder: what relative paths begin at.
    """

    stated: Mapping[str, Mapping[str, Any]] = dataclasses.field(
        default_factory=lambda: dataclasses.asdict(_Stated())
    )
    folder: str = "."

    @classmethod
    def read(cls, path: str | os.PathLike | None) -> "About":
        """From a TOML file, as `TEMPLATE` is one; None: nothing is stated.

        Raises: ValueError: it isn't TOML, or has a field that there isn't; names it.
          FileNotFoundError: a file that it names isn't there; says which field does.
        """
        if path is None:
            return cls()
        file = Path(path)
        try:
            values: dict[str, Any] = tomllib.loads(file.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{file} is no TOML: {error}.") from error
        stated = dataclasses.asdict(checks.build(_Stated, values, str(file)))
        made = cls(stated=stated, folder=str(file.parent))
        for field, name in made.files:
            if not (file.parent / name).is_file():
                raise FileNotFoundError(
                    f"release.{field} names {file.parent / name}, which is no file."
                )
        return made

    @property
    def files(self) -> list[tuple[str, str]]:
        """The field that names it and the name, of each file."""
        release = self.stated["release"]
        named = [("files", each) for each in release["files"]]
        return named + ([("manifest", of)] if (of := release["manifest"]) else [])

    def hashes(self) -> list[dict[str, Any]]:
        """Name, SHA-256 and size of each file that is named."""
        found = []
        for field, name in self.files:
            file = Path(self.folder) / name
            with file.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            size = file.stat().st_size
            found.append({"of": field, "name": name, "sha256": digest, "bytes": size})
        return found
