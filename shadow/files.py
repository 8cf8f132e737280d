"""Files that are either whole or absent: write beside, then rename."""

import contextlib
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, that replaces `path` in one step when all went well.

    A crash leaves the old file or the new; the content reaches the disk before the name
    does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def put_if_absent(path: Path, content: bytes) -> bool:
    """Write `path` in one step, unless it is there.

    Of several who do this at the same time one succeeds.

    Returns: False if it was there.
    Raises: OSError: the file system is full or has no hard links, among others.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)
    except FileExistsError:
        return False
    finally:
        partial.unlink(missing_ok=True)
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
    """`value` as indented JSON with sorted keys."""
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False)
    return (text + "\n").encode()


def write_arrays(path: Path, **arrays: ArrayLike) -> None:
    """Write an .npz file in one step."""
    with replacing(path) as file:
        np.savez(
            file, allow_pickle=False, **{n: np.asarray(a) for n, a in arrays.items()}
        )


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file; never unpickled."""
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)
