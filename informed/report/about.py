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
    def read(cls, path: str | os.PathLike) -> "About":
        """From a TOML file, as `TEMPLATE` is one.

        Raises: ValueError: it isn't TOML, or has a field that there isn't; names it.
        """
        file = Path(path)
        try:
            values: dict[str, Any] = tomllib.loads(file.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{file} is no TOML: {error}.") from error
        if "folder" in values:
            raise ValueError(f"{file} has no field 'folder'.")
        made: About = checks.build(cls, values, str(file))
        return dataclasses.replace(made, folder=str(file.parent))

    def hashes(self) -> list[dict[str, Any]]:
        """Name, SHA-256 and size of each file that is named.

        Raises: FileNotFoundError: one isn't there; says which field names it.
        """
        named = [("release.files", each) for each in self.release.files]
        if self.release.manifest:
            named.append(("release.manifest", self.release.manifest))
        found = []
        for field, name in named:
            file = Path(self.folder) / name
            if not file.is_file():
                raise FileNotFoundError(f"{field} names {file}, which is no file.")
            with file.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            size = file.stat().st_size
            of = field.partition(".")[2]
            found.append({"of": of, "name": name, "sha256": digest, "bytes": size})
        return found
