"""Provenance records: the configuration and versions that made a kept result.

Every kept result (a store, a stage of a run, a reconstructor, a search) has a record
with it: the configuration and the versions that decide its numbers. A later run
compares its record with that one, and refuses to continue where a field differs, so
that results of different settings are never mixed; `accepting_other_versions` lets
versions differ. Stores, `reconn.train`, runs, audits and `uninformed` call this. The
versions are those of JAX, of this package and of users' functions, settings of JAX that
decide random draws, and a revision of each component that took part (`REVISION` in its
module), which is incremented whenever the same configuration begins to give other
numbers. Versions of other packages are only noted.
"""

import contextlib
import contextvars
import dataclasses
import functools
import importlib.metadata
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from shadow import checks, files

_DECIDING = ("informed-adversary", "jax", "jaxlib")
_NOTED = ("dm-haiku", "numpy", "optax", "scikit-learn", "scipy", "zarr")
# Settings of JAX that decide what a key draws, and their defaults.
_DRAWING = {
    "jax_enable_x64": False,
    "jax_default_prng_impl": "threefry2x32",
    "jax_threefry_partitionable": True,
}
_ABOUT = "about"  # name of the record within an .npz file
_accepting = contextvars.ContextVar("accepting other versions", default=False)


class ConfigurationMismatchError(ValueError):
    """A kept result has another configuration; the message names the fields."""


class VersionMismatchError(ConfigurationMismatchError):
    """A kept result was made by other versions; the message names them."""


class NotMadeError(FileNotFoundError, RuntimeError):
    """A result hasn't been made yet, or isn't complete.

    Attributes:
      by: the stage that makes it: "shadow", "train", "attack", ...
    """

    def __init__(self, message: str, *, by: str = "") -> None:
        super().__init__(message)
        self.by = by


@dataclasses.dataclass(frozen=True)
class Record:
    """The configuration, nested JSON-able fields, and the versions of a kept result."""

    configuration: Mapping[str, Any]
    versions: Mapping[str, Any]

    @classmethod
    def of(cls, configuration: Mapping[str, Any], **revisions: int | str) -> "Record":
        """Make the record of a configuration under the versions of this process.

        Args:
          configuration: JSON-able; tuples become lists.
          revisions: of the components that take part; or hashes of a user's source.
        """
        plain = json.dumps(configuration, default=np.generic.item)
        return cls(json.loads(plain), versions(**revisions))

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "Record":
        """Read a record from its `values`; older files lack versions."""
        return cls(values["configuration"], values.get("versions", {}))

    @property
    def values(self) -> dict[str, Any]:
        """Return configuration and versions, JSON-able."""
        return {
            "configuration": dict(self.configuration),
            "versions": dict(self.versions),
        }

    def fingerprint(self) -> str:
        """Hash configuration and versions."""
        return checks.fingerprint(self.values)


def versions(**revisions: int | str) -> dict[str, Any]:
    """Return the versions that decide numbers: JAX, this package, components."""
    versions: dict[str, Any] = {name: _version(name) for name in _DECIDING}
    if "jax" in sys.modules:  # else no key is drawn from
        settings = sys.modules["jax"].config
        for name, default in _DRAWING.items():
            if (now := getattr(settings, name, default)) != default:
                versions[name] = now
    return versions | {
        f"revision of {name}": n for name, n in sorted(revisions.items())
    }


def packages() -> dict[str, str]:
    """Return the versions of all packages of interest, for results."""
    names = (*_DECIDING, *_NOTED)
    return {"python": platform.python_version()} | {n: _version(n) for n in names}


@functools.cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@contextlib.contextmanager
def accepting_other_versions(accept: bool = True) -> Iterator[None]:
    """Accept results of other versions inside: `require_same` only lists them."""
    token = _accepting.set(accept)
    try:
        yield
    finally:
        _accepting.reset(token)


def require_same(there: Record, wanted: Record, what: str) -> list[str]:
    """Raise unless a kept result has the wanted record.

    Args:
      there: the record of the kept result.
      wanted: the record of the caller, who would continue it.
      what: names the thing in messages, as a subject: "The store in runs/x".
    Returns: versions that differ and were accepted, one line for each.
    Raises: ConfigurationMismatchError: fields of the configuration differ.
      VersionMismatchError: only versions differ, and that is not accepted.
    """
    differing = checks.differences(there.configuration, wanted.configuration)
    if differing:
        raise ConfigurationMismatchError(
            f"{what} was made with another configuration: {'; '.join(differing)}."
        )
    other = checks.differences(there.versions, wanted.versions)
    if other and not _accepting.get():
        raise VersionMismatchError(
            f"{what} was made by other versions: {'; '.join(other)}."
        )
    return other


def claim(
    file: Path, record: Record, what: str, *, begun: bool = True
) -> Callable[[], None]:
    """Write a record where there is none, else require the existing one to be the same.

    Args:
      file, record, what: the JSON file that holds the record; else as `require_same`.
      begun: whether anything was made under the existing record; if not, it is
        replaced.
    Returns: a function to call before anything is kept under the record. It raises
      ConfigurationMismatchError if another process has replaced the record since.
    Raises: ConfigurationMismatchError, VersionMismatchError: see `require_same`.
    """
    if file.exists() and begun:
        own = file.read_bytes()
        require_same(Record.read(json.loads(own)), record, what)
    else:
        own = files.as_json(record.values)
        files.write_bytes(file, own)

    def still_own() -> None:
        if not file.exists() or file.read_bytes() != own:
            raise ConfigurationMismatchError(
                f"{what} was begun anew with another configuration while this run was"
                " at it; nothing of this run is kept. Give each a folder of its own."
            )

    return still_own


class Clock:
    """Seconds that work took, by name, summed over all calls that continued it.

    The attribute `seconds` has them, and `file` as JSON.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.seconds: dict[str, float] = {}
        if file.exists():
            self.seconds = json.loads(file.read_text())

    @contextlib.contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Add the time spent inside, also if it ends by an error."""
        begun, before = time.monotonic(), self.seconds.get(name, 0.0)
        try:
            yield
        finally:
            self.seconds[name] = round(before + time.monotonic() - begun, 1)
            files.write_json(self._file, self.seconds)


def kept(
    file: Path, record: Record, what: str, make: Callable[[], Mapping[str, Any]]
) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file, which is made if it doesn't exist.

    Raises: as `require_same`.
    """
    if not file.exists():
        made = {name: np.asarray(values) for name, values in make().items()}
        about = np.array(json.dumps(record.values))
        files.write_arrays(file, **made, **{_ABOUT: about})
        return made
    arrays = files.read_arrays(file)
    require_same(Record.read(json.loads(str(arrays.pop(_ABOUT)))), record, what)
    return arrays
