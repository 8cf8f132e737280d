"""Encode a store's arrays as zarr v3 files, in memory: names and bytes, and back.

`manifests` and `blocks` call this, and put the files into a folder or bucket by
`places`. zarr makes the metadata; chunks are the rows' bytes. So a store is a plain
zarr v3 group to any reader, and yet no worker overwrites another's block, which zarr's
own stores would do.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import zarr
from zarr.storage import MemoryStore

METADATA = "zarr.json"


def group_metadata(
    arrays: Mapping[str, Mapping[str, Any]], attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the zarr metadata of a group ("") and of its arrays, by name.

    `arrays` has the arguments of zarr's `create_array` for each, by its name.

    The group's metadata contains all the others ("consolidated"), so that a reader such
    as xarray opens the group by one file. `attributes` of the group are JSON-able.
    """
    memory: dict[str, Any] = {}
    store = MemoryStore(memory)
    group = zarr.create_group(store, zarr_format=3, attributes=dict(attributes))
    for name, about in arrays.items():
        # Trained weights don't compress.
        group.create_array(name, compressors=None, **about)
    metadata = {name: json.loads(memory[file_of(name)].to_bytes()) for name in arrays}
    about = json.loads(memory[file_of("")].to_bytes())
    about["consolidated_metadata"] = {
        "kind": "inline",
        "must_understand": False,
        "metadata": dict(metadata),
    }
    return {"": about, **metadata}


def file_of(name: str) -> str:
    """Return the file name of an array's metadata; "" is the group."""
    return f"{name}/{METADATA}" if name else METADATA


def chunk_of(name: str, metadata: Mapping[str, Any], number: int = 0) -> str:
    """Return the file name of the chunk from row `number` * rows per chunk."""
    return f"{name}/c/{number}" + "/0" * (len(metadata["shape"]) - 1)


def encode(metadata: Mapping[str, Any], rows: np.ndarray) -> bytes:
    """Encode rows as one chunk: at least one row, at most those of a chunk."""
    chunk = _empty(metadata)
    chunk[: len(rows)] = rows
    return chunk.tobytes()


def decode(
    metadata: Mapping[str, Any], number: int, content: bytes | None
) -> np.ndarray:
    """Decode the rows of a chunk; the fill value where it is absent.

    Raises: ValueError: the content is no chunk of this array, such as a short one.
    """
    chunk = _empty(metadata)
    if content is not None:
        chunk = np.frombuffer(content, chunk.dtype).reshape(chunk.shape)
    rows = metadata["shape"][0] - number * len(chunk)
    return np.array(chunk[:rows], metadata["data_type"])


def _empty(metadata: Mapping[str, Any]) -> np.ndarray:
    """Return an empty chunk of the layout that `group_metadata` sets."""
    shape = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    dtype = np.dtype(metadata["data_type"]).newbyteorder("<")
    return np.full(shape, metadata["fill_value"], dtype)
