"""Records: what made the things in a folder, and whether they may be gone on with.

A store, a stage of a run, a reconstructor, a search: whatever is kept and read again
has a record beside it, of the configuration that decides it and of the versions that
decide its numbers. Whoever comes back compares their own record with it. What differs
is refused, field by field: nothing made one way is ever passed off as made another.

Versions that decide numbers are those of JAX and of this package, and a revision of
each component that took part (`REVISION` in its module), which is raised whenever the
same configuration begins to give other numbers. Other versions are only noted.
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
    """What is there was made with another configuration; the message says where."""


class VersionMismatchError(ConfigurationMismatchError):
    """What is there was made by other versions; the message says which."""


class NotMadeError(FileNotFoundError, RuntimeError):
    """What is to be read has not been made, or not to its end.

    Attributes:
      by: the stage that makes it: "shadow", "train", "attack", ...
    """

    def __init__(self, message: str, *, by: str) -> None:
        super().__init__(message)
        self.by = by


@dataclasses.dataclass(frozen=True)
class Record:
    """What decides something.

    Attributes:
      configuration: JSON-able fields, nested.
      versions: versions of what decides its numbers, by name.
    """

    configuration: Mapping[str, Any]
    versions: Mapping[str, Any]

    @classmethod
    def of(cls, configuration: Mapping[str, Any], **revisions: int | str) -> "Record":
        """By this code.

        Args:
          configuration: JSON-able; tuples become lists.
          revisions: revisions of the components that take part: numbers, or hashes of
            the source of a user's own.
        """
        return cls(json.loads(json.dumps(configuration)), versions(**revisions))

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "Record":
        """From what `values` wrote; older files lack versions."""
        return cls(values["configuration"], values.get("versions", {}))

    @property
    def values(self) -> dict[str, Any]:
        """Everything that decided the models, JSON-able."""
        return {
            "configuration": dict(self.configuration),
            "versions": dict(self.versions),
        }

    def fingerprint(self) -> str:
        """A hash of configuration and versions."""
        return checks.fingerprint(self.values)


def versions(**revisions: int | str) -> dict[str, Any]:
    """Versions that decide numbers: of JAX, this package, and some components."""
    versions: dict[str, Any] = {name: _version(name) for name in _DECIDING}
    if "jax" in sys.modules:  # else nothing is drawn
        settings = sys.modules["jax"].config
        now = {name: getattr(settings, name, _DRAWING[name]) for name in _DRAWING}
        versions |= {name: now[name] for name in now if now[name] != _DRAWING[name]}
    return versions | {
        f"revision of {name}": n for name, n in sorted(revisions.items())
    }


def packages() -> dict[str, str]:
    """Versions of everything that may be of interest, for results."""
    names = (*_DECIDING, *_NOTED)
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in names},
    }


@functools.cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@contextlib.contextmanager
def accepting_other_versions(accept: bool = True) -> Iterator[None]:
    """Inside, what other versions made is gone on with, and counts as equal."""
    token = _accepting.set(accept)
    try:
        yield
    finally:
        _accepting.reset(token)


def require_same(there: Record, wanted: Record, what: str) -> list[str]:
    """Refuse to go on with what was made otherwise.

    Args:
      found: the record that is there.
      wanted: that of who would go on.
      what: names the thing in messages, as a subject: "The store in runs/x".
    Returns: versions that differ and were accepted, a line each.
    Raises:
      ConfigurationMismatchError: fields of the configuration differ; names each.
      VersionMismatchError: only versions do, and that is not accepted.
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
    """Put a record where there is none, or compare with the one that is there.

    Args:
      file: the JSON file that holds the record.
      record: the record of who would go on.
      what: names the thing in messages, as a subject.
      begun: whether anything was made under the record that is there; if not, it is
        replaced.
    Returns: to be called before anything is kept under the record. It raises
      ConfigurationMismatchError if somebody else has replaced the record since.
    Raises: ConfigurationMismatchError, VersionMismatchError: see `require_same`.
    """
    if file.exists() and begun:
        require_same(Record.read(json.loads(file.read_text())), record, what)
    else:
        files.write_json(file, record.values)
    own = file.read_bytes()

    def still_own() -> None:
        if not file.exists() or file.read_bytes() != own:
            raise ConfigurationMismatchError(
                f"{what} was begun anew with another configuration while this run was"
                " at it; nothing of this run is kept. Give each a folder of its own."
            )

    return still_own


class Clock:
    """Seconds that something took, over all the calls that it was spread over.

    Args:
      file: JSON; seconds by name.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.seconds: dict[str, float] = (
            json.loads(file.read_text()) if file.exists() else {}
        )

    @contextlib.contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Adds what happens inside, also if it ends by an error."""
        begun, before = time.monotonic(), self.seconds.get(name, 0.0)
        try:
            yield
        finally:
            self.seconds[name] = round(before + time.monotonic() - begun, 1)
            files.write_json(self._file, self.seconds)


def kept(
    file: Path, record: Record, what: str, make: Callable[[], Mapping[str, Any]]
) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, which is made where it is not there.

    Raises: ConfigurationMismatchError, VersionMismatchError: the file was made
      otherwise.
    """
    if not file.exists():
        made = {name: np.asarray(values) for name, values in make().items()}
        about = np.array(json.dumps(record.values))
        files.write_arrays(file, **made, **{_ABOUT: about})
        return made
    arrays = files.read_arrays(file)
    require_same(Record.read(json.loads(str(arrays.pop(_ABOUT)))), record, what)
    return arrays
