"""What only the owner of a system knows of it, from a small TOML file.

Checked: tests/informed/report/test_dossier.py.
"""

import dataclasses
import hashlib
import os
import tomllib
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class System:
    """The system that a model is part of.

    Attributes:
      name: what it is called.
      version: of the model that is to be released.
      purpose: what it is for.
      owner: who is responsible.
      contact: where questions go.
    """

    name: str = ""
    version: str = ""
    purpose: str = ""
    owner: str = ""
    contact: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data:
    """The records that it was trained on.

    Attributes:
      description: what a record is.
      people: whose records these are.
      origin: where they come from, and on what basis.
      sensitive: what in them would harm someone.
    """

    description: str = ""
    people: str = ""
    origin: str = ""
    sensitive: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Released:
    """What is released, and to whom.

    Attributes:
      form: weights, a service, a file.
      audience: who gets it.
      seed: who knows the seed of training.
      files: paths of files that are released.
      manifest: path of a file that names the records or the version of the data.
    """

    form: str = ""
    audience: str = ""
    seed: str = ""
    files: tuple[str, ...] = ()
    manifest: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class About:
    """What an owner states; nothing here is checked.

    Attributes:
      system: the system.
      data: its training data.
      release: what is released.
      folder: what relative paths begin at.
    """

    system: System = dataclasses.field(default_factory=System)
    data: Data = dataclasses.field(default_factory=Data)
    release: Released = dataclasses.field(default_factory=Released)
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
        if "folder" in values:
            raise ValueError(f"{file} has no field 'folder'.")
        made: About = checks.build(cls, values, str(file))
        made = dataclasses.replace(made, folder=str(file.parent))
        for field, name in made.files:
            if not (file.parent / name).is_file():
                raise FileNotFoundError(
                    f"release.{field} names {file.parent / name}, which is no file."
                )
        return made

    @property
    def files(self) -> list[tuple[str, str]]:
        """The field that names it and the name, of each file."""
        manifest = [self.release.manifest] if self.release.manifest else []
        return [("files", each) for each in self.release.files] + [
            ("manifest", each) for each in manifest
        ]

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
