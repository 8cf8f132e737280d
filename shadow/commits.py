"""Commits, which say that a block of a store exists, and attempts, which announce one.

They name the attempt and device that made a block, and are sealed: JSON that holds its
own SHA-256. A file with a broken seal is never used. `blocks` writes and reads them;
`manifests` seals its file likewise.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from shadow import checks, files

ATTEMPTS, COMMITS = "attempts", "commits"
_SEAL = "seal"


class CorruptBlockError(RuntimeError):
    """A stored file doesn't match its checksum, or isn't of this store.

    `block` is the number of the block; None: an array that is not cut into blocks.
    """

    def __init__(self, message: str, *, block: int | None) -> None:
        super().__init__(message)
        self.block = block


class BrokenSealError(ValueError):
    """A sealed file doesn't match its checksum."""


def seal(values: Mapping[str, Any]) -> bytes:
    """Return JSON-able values as the bytes of a file that holds its checksum."""
    plain = json.loads(json.dumps(values, allow_nan=False))
    return files.as_json({**plain, _SEAL: checks.fingerprint(plain)})


def unseal(content: bytes) -> dict[str, Any]:
    """Return the values of a sealed file. Raises: BrokenSealError."""
    try:
        values = json.loads(content)
        del values[_SEAL]
        whole = seal(values) == content
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise BrokenSealError("its bytes do not match its own checksum")
    return values


def _of_fields(cls: Any, values: Any) -> Any:
    try:
        return cls(**values)
    except TypeError as error:
        raise BrokenSealError(f"it has other fields ({error})") from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attempt:
    """One worker's attempt at one block, announced before its data are put.

    Attributes:
      fingerprint: the fingerprint of the store that the block is made for.
      id: a name that no other attempt has.
      device: the kind of device that the models were trained on. Equal kinds make
        equal bits where `devices.repeats_bits` says so.
      versions: versions of the packages and components that decide numbers.
      sha256: SHA-256 of each array's bytes (little-endian, C order), by name.
      trained_with: `Factory.trained_with`, which decides the last digits.
    """

    block: int
    fingerprint: str
    id: str
    device: str
    versions: Mapping[str, Any]
    sha256: Mapping[str, str]
    trained_with: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, content: bytes) -> "Attempt":
        """Read an attempt from a file's bytes. Raises: BrokenSealError."""
        return _of_fields(cls, unseal(content))

    @property
    def name(self) -> str:
        """The name of the file that holds it."""
        return f"{ATTEMPTS}/{self.block:06d}.{self.id}.json"

    @property
    def content(self) -> bytes:
        """The bytes of the file that holds it."""
        return seal(dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Commit:
    """The statement that a block exists, with its checksums.

    Attributes:
      made: the attempt whose weights are stored.
      by: id of the attempt that put the commit, perhaps of a dead worker's weights.
    """

    made: Attempt
    by: str

    @classmethod
    def read(cls, content: bytes) -> "Commit":
        """Read a commit from a file's bytes. Raises: BrokenSealError."""
        values = unseal(content)
        attempt = _of_fields(Attempt, values.get("made"))
        return _of_fields(cls, values | {"made": attempt})

    @property
    def name(self) -> str:
        """The name of the file that holds it."""
        return commit(self.made.block)

    @property
    def content(self) -> bytes:
        """The bytes of the file that holds it."""
        return seal({"made": dataclasses.asdict(self.made), "by": self.by})


def commit(block: int) -> str:
    """Return the file name of a block's commit."""
    return f"{COMMITS}/{block:06d}.json"


def block_of(attempt: str) -> int | None:
    """Return the block of an attempt from its file name; None: it is another file."""
    stem = attempt.rpartition("/")[2].partition(".")[0]
    return int(stem) if stem.isdigit() else None


def numbers(names: list[str]) -> set[int]:
    """Return the blocks of the commits among some file names."""
    stems = (name.rpartition("/")[2].removesuffix(".json") for name in names)
    return {int(stem) for stem in stems if stem.isdigit()}
