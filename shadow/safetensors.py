"""Read and write .safetensors files, which run no code when they are read.

`reconn.reconstructor` writes and reads them, `uninformed.weights_file` reads them.

The format is the length of a header, the header as JSON, the numbers. The library
`safetensors` isn't used because its reader for NumPy cannot load bfloat16. `write` adds
a SHA-256; files without one are read unchecked.
Source: https://github.com/huggingface/safetensors, format.
"""

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from shadow import files

_TYPES: dict[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
_NAMES = {np.dtype(kind): name for name, kind in _TYPES.items()}
_LONGEST = 100 << 20  # bytes of a header, the limit of the format


def read(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of a .safetensors file.

    Raises: ValueError: it isn't one, is damaged, or doesn't match its checksum.
    """
    content = path.read_bytes()
    wrong = ValueError(f"Expected {path} to be a whole .safetensors file; it isn't.")
    if len(content) < 8:
        raise wrong
    (length,) = struct.unpack("<Q", content[:8])
    if length > min(_LONGEST, len(content) - 8):
        raise wrong
    entries: list[tuple[str, str, tuple[int, ...], int, int]] = []
    try:
        header = json.loads(content[8 : 8 + length])
        wanted = header.pop("__metadata__", {}).get("sha256")
        for name, about in header.items():
            start, stop = map(int, about["data_offsets"])
            shape = tuple(map(int, about["shape"]))
            entries.append((name, about["dtype"], shape, start, stop))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise wrong from error
    data, arrays = content[8 + length :], {}
    if wanted is not None and wanted != _sha256(header, data):
        raise wrong
    for name, kind, shape, start, stop in entries:
        if kind not in _TYPES:
            raise ValueError(f"{path}: {name} is of the unknown type {kind}.")
        dtype = np.dtype(_TYPES[kind])
        size = math.prod(shape) * dtype.itemsize
        if not 0 <= start <= stop <= len(data) or stop - start != size:
            raise wrong
        arrays[name] = np.frombuffer(data[start:stop], dtype).reshape(shape)
    return arrays


def write(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays of numbers and their checksum, in one step.

    Raises: ValueError: an array of another type.
    """
    header: dict[str, Any] = {}
    pieces, start = [], 0
    for name, values in arrays.items():
        array = np.ascontiguousarray(values)
        if array.dtype not in _NAMES:
            raise ValueError(f"Expected {name} to hold numbers, got {array.dtype}.")
        content = array.tobytes()
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(np.shape(values)),
            "data_offsets": [start, start + len(content)],
        }
        pieces.append(content)
        start += len(content)
    data = b"".join(pieces)
    header["__metadata__"] = {"sha256": _sha256(header, data)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with files.replacing(path) as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def _sha256(header: Mapping[str, Any], data: bytes) -> str:
    """Hash names, types, shapes and numbers."""
    about = json.dumps(header, sort_keys=True).encode()
    return hashlib.sha256(about + data).hexdigest()
