"""Read and write in a folder or a bucket, by a few operations that are safe on both.

Stores (`store`, `blocks`), `plan` and `informed.experiment` call `at`. A place holds
named contents ("commits/000012.json"). Contents are complete: a name appears with all
its bytes or not at all. Stores rest on `put_if_absent`: of any number of writers, in
any processes and on any machines, one content stays. A folder does it by a hard link, a
bucket by a conditional put, which S3, Google's, Azure's and most S3-compatible stores
support. Temporary errors of a bucket are retried, and a retry may find what the first
try has put: False from `put_if_absent` doesn't say who took the name.

Buckets are reached by obstore (extra "bucket"). Credentials, endpoint and region come
from the environment as obstore takes them (AWS_ACCESS_KEY_ID, AWS_ENDPOINT,
AWS_ALLOW_HTTP, GOOGLE_SERVICE_ACCOUNT, AZURE_STORAGE_ACCOUNT_KEY, ...), never from a
configuration, which is kept and shown.
"""

import abc
import contextlib
import errno
import functools
import importlib
import importlib.util
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from shadow import checks, files

SCHEMES = ("s3", "gs", "az", "memory")
_EXTRA = "pip install '.[bucket]'"
_ABANDONED = 3600.0  # seconds without a write, after which a file's writer is dead
_TRIES = 9
_FIRST_PAUSE = 0.1  # seconds; doubles, with jitter, to half a minute in all
# Servers that obstore asks for credentials, in a cloud, if the environment has none.
_METADATA = ("169.254.169.254", "metadata.google.internal")
_OBSTORE_TRIES = 3  # obstore's retries, within each of ours
_memory: dict[str, Any] = {}  # stores in memory, by name

T = TypeVar("T")


class Place(abc.ABC):
    """A storage of contents by name; `str()` gives its address.

    Names are relative, with "/" between parts. All methods raise OSError, in one line,
    where the place can't be reached, may not be written to, or is full.
    """

    @abc.abstractmethod
    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Put a content unless the name is taken, perhaps by this very content.

        Returns: whether this content was put.
        """

    @abc.abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Put a content, in place of any other."""

    @abc.abstractmethod
    def get(self, name: str) -> bytes | None:
        """Return a content; None where there is none."""

    @abc.abstractmethod
    def has(self, name: str) -> bool:
        """Return whether there is a content."""

    @abc.abstractmethod
    def names(self, under: str) -> list[str]:
        """List all names below `under` ("commits"), sorted."""

    @abc.abstractmethod
    def delete(self, name: str) -> None:
        """Delete a content, if there is one."""

    @abc.abstractmethod
    def below(self, part: str) -> "Place":
        """Return the place of all names that begin with `part` + "/"."""

    @abc.abstractmethod
    def remove_leftovers(self) -> None:
        """Delete half-written files of killed writers, if the place keeps any."""


class Folder(Place):
    """A folder of a file system that has hard links."""

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """See `Place`. The content reaches the disk before its name does."""
        with self._explaining(name):
            return files.put_if_absent(self.path / name, content)

    def put(self, name: str, content: bytes) -> None:
        """See `Place`; in one step."""
        with self._explaining(name):
            files.write_bytes(self.path / name, content)

    def get(self, name: str) -> bytes | None:
        """Read a file; see `Place.get`."""
        try:
            return (self.path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def has(self, name: str) -> bool:
        """Look for a file; see `Place.has`."""
        return (self.path / name).is_file()

    def names(self, under: str) -> list[str]:
        """List files; see `Place.names`."""
        return sorted(
            file.relative_to(self.path).as_posix()
            for file in (self.path / under).rglob("*")
            if file.is_file() and file.suffix != ".partial"
        )

    def delete(self, name: str) -> None:
        """Delete a file; see `Place.delete`."""
        (self.path / name).unlink(missing_ok=True)

    def below(self, part: str) -> "Folder":
        """Return a subfolder; see `Place.below`."""
        return Folder(self.path / part)

    def remove_leftovers(self, age: float = _ABANDONED) -> None:
        """Delete half-written files unchanged for `age` seconds; others may be live."""
        for file in self.path.rglob("*.partial"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > age:
                    file.unlink()

    @contextlib.contextmanager
    def _explaining(self, name: str) -> Iterator[None]:
        """Add advice to the system's error of a failed write."""
        try:
            yield
        except OSError as error:
            remedies = {
                errno.ENOSPC: "Make room; the same command goes on from here.",
                errno.EDQUOT: "Make room; the same command goes on from here.",
                errno.EFBIG: "Raise the limit (ulimit -f), or take smaller blocks.",
                errno.EACCES: "Choose a folder that may be written to.",
                errno.EROFS: "Choose a folder that may be written to.",
                errno.EPERM: "If it has no hard links, choose another file system.",
                errno.EOPNOTSUPP: "It has no hard links; choose another file system.",
            }
            remedy = remedies.get(error.errno or 0, "")
            raise OSError(
                error.errno,
                f"{name} could not be written to {self}: {error.strerror}."
                f" {remedy}".rstrip(),
            ) from error


class Bucket(Place):
    """A bucket, or a part of one, that obstore reaches.

    Args:
      store: an obstore store (`obstore.store.ObjectStore`).
      address: its name in messages.
      prefix: the beginning of all names, without "/" at its end.
    """

    def __init__(self, store: Any, address: str, prefix: str = "") -> None:
        self.store, self.address, self.prefix = store, address.rstrip("/"), prefix

    def __str__(self) -> str:
        return self.address

    @property
    def _obstore(self) -> Any:
        return importlib.import_module("obstore")

    @property
    def _refusals(self) -> tuple[type[Exception], ...]:
        errors = self._obstore.exceptions
        return errors.PermissionDeniedError, errors.UnauthenticatedError

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """See `Place`.

        Where two writers collide, a store may answer "conflict" (409) to both and keep
        neither content; then the put is tried again.
        """
        errors = self._obstore.exceptions
        taken = errors.AlreadyExistsError, errors.PreconditionError

        def put() -> bool:
            try:
                self._obstore.put(self.store, self._key(name), content, mode="create")
            except taken as conflict:
                if self._is_there(name):
                    return False
                raise _TryAgainError(str(conflict)) from conflict
            return True

        return self._tried(put, f"put {name}")

    def put(self, name: str, content: bytes) -> None:
        """Write an object; see `Place.put`."""
        put = functools.partial(self._obstore.put, self.store, self._key(name), content)
        self._tried(put, f"put {name}")

    def get(self, name: str) -> bytes | None:
        """Read an object; see `Place.get`."""

        def get() -> bytes | None:
            try:
                return bytes(self._obstore.get(self.store, self._key(name)).bytes())
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise
                return None

        return self._tried(get, f"get {name}")

    def has(self, name: str) -> bool:
        """Look for an object; see `Place.has`."""
        return self._tried(lambda: self._is_there(name), f"look up {name}")

    def names(self, under: str) -> list[str]:
        """List objects; see `Place.names`."""
        listing = self._tried(
            lambda: self._obstore.list(self.store, self._key(under)).collect(),
            f"list {under}",
        )
        start = len(self._key(""))
        return sorted(entry["path"][start:] for entry in listing)

    def delete(self, name: str) -> None:
        """Delete an object; see `Place.delete`."""

        def delete() -> None:
            with contextlib.suppress(FileNotFoundError):
                self._obstore.delete(self.store, self._key(name))

        self._tried(delete, f"delete {name}")

    def below(self, part: str) -> "Bucket":
        """Return a longer prefix; see `Place.below`."""
        return Bucket(self.store, f"{self.address}/{part}", self._key(part))

    def remove_leftovers(self) -> None:
        """See `Place`: a put that was cut off leaves nothing in a bucket."""

    def _is_there(self, name: str) -> bool:
        try:
            self._obstore.head(self.store, self._key(name))
        except FileNotFoundError:
            return False
        return True

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    def _tried(self, act: Callable[[], T], what: str) -> T:
        """Retry temporary errors, `_TRIES` times at most; obstore doesn't retry all."""
        errors = self._obstore.exceptions
        final = (
            *self._refusals,
            errors.InvalidPathError,
            errors.NotSupportedError,
            errors.UnknownConfigurationKeyError,
            FileNotFoundError,  # no such bucket
        )
        pause = _FIRST_PAUSE
        for left in reversed(range(_TRIES)):
            try:
                return act()
            except final as error:
                raise self._refused(what, error) from error
            except (errors.BaseError, _TryAgainError, OSError) as error:
                if not left or "NoSuchBucket" in str(error):
                    raise self._refused(what, error) from error
            time.sleep(pause * (0.5 + random.random()))
            pause *= 2
        raise AssertionError("the last try returns or raises")

    def _refused(self, what: str, error: Exception) -> OSError:
        """Return an error of one line: the store's message, and advice."""
        said = " ".join(str(error).split("\n\nDebug source")[0].split())[:300]
        if isinstance(error, FileNotFoundError) or "NoSuchBucket" in said:
            remedy = "Create the bucket, or correct the address."
        elif isinstance(error, self._refusals) or any(
            name in said for name in _METADATA
        ):
            remedy = (
                "Set credentials that may do that in the environment"
                " (AWS_ACCESS_KEY_ID, ...)."
            )
        else:
            remedy = "If it is reachable again, the same command goes on from here."
        return OSError(f"Could not {what} in {self}: {said}. {remedy}")


class _TryAgainError(Exception):
    """A conflict that a retry resolves."""


Address: TypeAlias = str | os.PathLike | Place


def folder(address: Address, field: str = "workdir") -> Path:
    """Return the path of a folder. Raises: FieldError: it is a bucket's address."""
    place = at(address)
    if not isinstance(place, Folder):
        raise checks.FieldError(
            field,
            f"Expected {{}} to be a folder, got {str(address)!r}. Buckets hold only"
            " shadow models.",
        )
    return place.path


def at(address: Address) -> Place:
    """Return the place of an address.

    Args:
      address: a folder, "file:///folder", "s3://bucket/prefix", "gs://...", "az://..."
        or "memory://name", which lasts as long as the process; or a place.
    Raises:
      ValueError: another scheme, or no bucket.
      ImportError: the extra "bucket" is not installed.
    """
    if isinstance(address, Place):
        return address
    scheme, separator, rest = str(os.fspath(address)).partition("://")
    if not separator:
        head, slash, _ = scheme.partition(":/")
        if slash and head in SCHEMES:
            raise ValueError(
                f"Expected a string, such as s3://bucket/prefix, got {address!r}, which"
                " has one slash: a Path drops the other."
            )
        return Folder(address)
    if scheme == "file":
        return Folder(rest)
    if scheme not in SCHEMES:
        raise ValueError(
            f"Expected a folder or an address that begins with"
            f" {', '.join(f'{known}://' for known in SCHEMES)}, got {address!r}."
        )
    bucket, _, prefix = rest.strip("/").partition("/")
    if not bucket:
        raise ValueError(f"Expected {scheme}://BUCKET/PREFIX, got {address!r}.")
    if importlib.util.find_spec("obstore") is None:
        raise ImportError(f"{address} needs obstore: {_EXTRA}")
    return Bucket(_store(scheme, bucket), f"{scheme}://{rest}", prefix)


def _store(scheme: str, bucket: str) -> Any:
    from obstore.store import MemoryStore, from_url

    if scheme == "memory":  # equal addresses share a store
        return _memory.setdefault(bucket, MemoryStore())
    return from_url(
        f"{scheme}://{bucket}", retry_config={"max_retries": _OBSTORE_TRIES}
    )
