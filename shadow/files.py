"""Write files of results and stores in one step: a file is either complete or absent.

Stores, runs, audits, reports, `reconn` and `uninformed` write files by this, and read
.npz files by it, never by unpickling.
"""

import contextlib
import json
import math
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` in one step if no error occurs.

    The content reaches the disk before the name does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _beside(path, os.replace) as file:
        yield file


@contextlib.contextmanager
def _beside(path: Path, put: Callable[[Path, Path], None]) -> Iterator[IO[bytes]]:
    """Open a file beside `path`, which takes its place when all is on the disk."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        put(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def put_if_absent(path: Path, content: bytes) -> bool:
    """Write `path` in one step, unless it exists; of several processes one succeeds.

    Returns: False if it existed.
    Raises: OSError: the file system is full or has no hard links, among others.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _beside(path, os.link) as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one step."""
    with replacing(path) as file:
        file.write(content)


def write_array(path: Path, values: np.ndarray) -> None:
    """Write an .npy file in one step, without a copy in memory."""
    with replacing(path) as file:
        np.save(file, values, allow_pickle=False)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON with sorted keys, in one step."""
    write_bytes(path, as_json(value))


def as_json(value: Any) -> bytes:
    """Return `value` as indented JSON with sorted keys."""
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False)
    return (text + "\n").encode()


def finite(value: Any) -> Any:
    """Return plain values for JSON: NaN and infinity become None, arrays lists."""
    if isinstance(value, Mapping):
        return {str(name): finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, np.ndarray):
        return finite(value.tolist())
    if isinstance(value, np.generic):
        return finite(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def write_arrays(path: Path, **arrays: ArrayLike) -> None:
    """Write an .npz file in one step."""
    with replacing(path) as file:
        np.savez(
            file, allow_pickle=False, **{n: np.asarray(a) for n, a in arrays.items()}
        )


def read_arrays(
    path: str | os.PathLike, wanted: Sequence[str] = (), *, also: Sequence[str] = ()
) -> dict[str, np.ndarray]:
    """Read the arrays of an .npz file, without unpickling.

    Args:
      wanted: arrays that it has to have; none: all of its arrays are read.
      also: arrays that are read if it has them.
    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it lacks an array, or isn't a complete .npz of numbers and texts.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no file {path} to load from.")
    try:
        arrays = np.load(path, allow_pickle=False)
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise ValueError("it is a single array")
        with arrays:
            there = arrays.files
            names = [name for name in (*wanted, *also) if name in there] or there
            contents = {name: arrays[name] for name in names}
    except (OSError, MemoryError):
        raise
    except Exception as error:  # zipfile, zlib and NumPy have many for damaged bytes
        what = f"it can't be read: {error}"
        if "pickle" in str(error):  # NumPy's message would advise unpickling
            what = (
                "it is of another format, or holds Python objects, which are never"
                " unpickled (allow_pickle=False)"
            )
        raise ValueError(
            f"Expected {path} to be a whole .npz file of numbers; {what}."
        ) from error
    if not set(wanted) <= contents.keys():
        raise ValueError(
            f"Expected {path} to hold the arrays {' and '.join(wanted)}, found"
            f" {', '.join(there) or 'none'}."
        )
    return contents
