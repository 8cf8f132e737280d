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
        return files.read_arrays(file)
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


def _orbax(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint, named by their paths."""
    import orbax.checkpoint

    with orbax.checkpoint.PyTreeCheckpointer() as reader:
        tree = reader.restore(folder.resolve())
    return {part.name: np.asarray(part.array) for part in parts(tree)}
