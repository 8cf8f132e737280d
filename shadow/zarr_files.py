"""A store's arrays as zarr writes them, in memory: names and bytes, and back.

zarr encodes and decodes; where the bytes lie, and who may put them there, is another's
concern (`shadow.places`). So a store is a plain zarr v3 group to any reader, and still
nothing of it is ever written over.
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import zarr
from zarr.buffer import cpu
from zarr.core.metadata import ArrayV3Metadata
from zarr.storage import MemoryStore

METADATA = "zarr.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArraySpec:
    """An array.

    Attributes:
      shape, dtype: the shape and the type of the array.
      dimensions: name of each axis, for xarray.
      rows_per_chunk: rows of axis 0 in a chunk; None: one chunk.
      fill: the value of what is not written.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    dimensions: tuple[str, ...]
    rows_per_chunk: int | None = None
    fill: Any = 0


def group_metadata(arrays: Mapping[str, ArraySpec]) -> dict[str, Any]:
    """The zarr metadata of a group ("") and of its arrays, by name."""
    memory: dict[str, Any] = {}
    group = zarr.create_group(MemoryStore(memory), zarr_format=3)
    for name, spec in arrays.items():
        first = spec.rows_per_chunk or max(1, spec.shape[0])
        group.create_array(
            name,
            shape=spec.shape,
            chunks=(first, *spec.shape[1:]),
            dtype=spec.dtype,
            fill_value=spec.fill,
            compressors=None,  # trained weights don't compress
            dimension_names=spec.dimensions,
        )
    return {
        name: json.loads(memory[file_of(name)].to_bytes()) for name in ("", *arrays)
    }


def file_of(name: str) -> str:
    """Where the metadata of an array is; "" is the group."""
    return f"{name}/{METADATA}" if name else METADATA


def chunk_of(name: str, metadata: Mapping[str, Any], number: int = 0) -> str:
    """Where the chunk is that holds rows `number` * rows per chunk and on."""
    key = ArrayV3Metadata.from_dict(dict(metadata)).encode_chunk_key(
        (number, *[0] * (len(metadata["shape"]) - 1))
    )
    return f"{name}/{key}"


def encode(
    name: str, metadata: Mapping[str, Any], number: int, rows: np.ndarray
) -> bytes:
    """The chunk that holds these rows: at least one, at most those of a chunk."""
    memory: dict[str, Any] = {}
    array = _array(name, metadata, {}, memory)
    start = number * array.chunks[0]
    array[start : start + len(rows)] = rows
    return memory[chunk_of(name, metadata, number)].to_bytes()


def decode(
    name: str, metadata: Mapping[str, Any], number: int, content: bytes | None
) -> np.ndarray:
    """The rows of a chunk; the fill value where it is absent.

    Raises: ValueError: it is not a chunk of this array, such as a short one.
    """
    chunks = {} if content is None else {chunk_of(name, metadata, number): content}
    array = _array(name, metadata, chunks)
    start = number * array.chunks[0]
    return np.asarray(array[start : start + array.chunks[0]])


def _array(
    name: str,
    metadata: Mapping[str, Any],
    chunks: Mapping[str, bytes],
    memory: dict[str, Any] | None = None,
) -> zarr.Array:
    """An array of some chunks; writes go to `memory`."""
    memory = {} if memory is None else memory
    contents = {file_of(name): json.dumps(metadata).encode(), **chunks}
    memory |= {key: cpu.Buffer.from_bytes(each) for key, each in contents.items()}
    # Also chunks of nothing but the fill value; an array asks when it is opened.
    with zarr.config.set({"array.write_empty_chunks": True}):
        return zarr.open_array(MemoryStore(memory), path=name, mode="r+")
