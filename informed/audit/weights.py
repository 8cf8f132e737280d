"""Released weights from files: .npz, .safetensors, a checkpoint folder of Orbax.

None of them is ever unpickled. The format of safetensors is plain: the length of a
header, the header as JSON, the numbers.
Source: https://github.com/huggingface/safetensors, format.
"""

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from informed.audit.released import parts
from shadow import checks, files

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
_LONGEST = 100 << 20  # bytes of a header, as the format has it
_PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".bin", ".joblib")


def read(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """The arrays of a file or a checkpoint, by name.

    Raises: FieldError: another format, a pickle among them; ValueError: a damaged file;
      FileNotFoundError.
    """
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"There are no weights {path}.")
    if file.is_dir():
        return _orbax(file)
    if file.suffix == ".npz":
        return files.read_arrays(file)
    if file.suffix == ".safetensors":
        return read_safetensors(file)
    hint = ""
    if file.suffix in _PICKLES:
        hint = (
            " Files like this may be pickles, which run code when they are read: save"
            " the weights as .safetensors or .npz."
        )
    raise checks.FieldError(
        "release",
        f"Expected {{}} as .npz, .safetensors or a folder of Orbax, got"
        f" {file.name!r}.{hint}",
    )


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .safetensors file.

    Raises: ValueError: it isn't one, or is damaged.
    """
    content = path.read_bytes()
    wrong = ValueError(f"Expected {path} to be a whole .safetensors file; it isn't.")
    if len(content) < 8:
        raise wrong
    (length,) = struct.unpack("<Q", content[:8])
    if length > min(_LONGEST, len(content) - 8):
        raise wrong
    try:
        header = json.loads(content[8 : 8 + length])
    except ValueError as error:
        raise wrong from error
    data, found = content[8 + length :], {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        if about["dtype"] not in _TYPES:
            raise ValueError(f"{path}: {name} is of the unknown type {about['dtype']}.")
        start, stop = about["data_offsets"]
        dtype = np.dtype(_TYPES[about["dtype"]])
        size = int(np.prod(about["shape"], dtype=np.int64)) * dtype.itemsize
        if not 0 <= start <= stop <= len(data) or stop - start != size:
            raise wrong
        found[name] = np.frombuffer(data[start:stop], dtype).reshape(about["shape"])
    return found


def write_safetensors(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays of numbers, in one step.

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
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with files.replacing(path) as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(pieces))


def _orbax(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint, named by their paths."""
    import orbax.checkpoint

    with orbax.checkpoint.PyTreeCheckpointer() as reader:
        tree = reader.restore(folder.resolve())
    return {part.name: np.asarray(part.array) for part in parts(tree)}
