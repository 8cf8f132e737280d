"""Released weights from files: .npz, .safetensors, a checkpoint folder of Orbax.

None of them is ever unpickled.
"""

import os
from pathlib import Path

import numpy as np

from shadow import checks, files, safetensors
from shadow.released import parts

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
        return _numbers(file)
    if file.suffix == ".safetensors":
        return safetensors.read(file)
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


def _numbers(file: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file, all of numbers of NumPy's own."""
    arrays = files.read_arrays(file)
    foreign = [name for name, array in arrays.items() if array.dtype.kind == "V"]
    if foreign:
        raise checks.FieldError(
            "release",
            f"Expected {{}} with arrays of numbers, got {arrays[foreign[0]].dtype} in"
            f" {foreign[0]} of {file.name!r}. An .npz file has no bfloat16: save the"
            " weights as .safetensors, or as float32.",
        )
    return arrays


def _orbax(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint, named by their paths."""
    import orbax.checkpoint

    with orbax.checkpoint.PyTreeCheckpointer() as reader:
        tree = reader.restore(folder.resolve())
    return {part.name: np.asarray(part.array) for part in parts(tree)}
