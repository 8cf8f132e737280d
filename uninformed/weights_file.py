"""Read dense ReLU networks that another program trained, so that they can be attacked.

Reading .safetensors, .npz and folders of Orbax never runs code. Layers are sorted by
names as PyTorch has them (`0.weight`, `layers.0.bias`), Haiku and Flax (`hidden_0/w`,
`Dense_0/kernel`), or `w0`, `b0`; other arrays are taken in their order.
`informed kkt --weights` calls `read`; users go on with `released`.

Matrices are (inputs, units), or all (units, inputs) as PyTorch's. The number of inputs
and the shapes decide which; if all are square, the names do.
"""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from shadow import files, safetensors
from shadow.released import parts
from shadow.threat import Release, publish
from uninformed import homogeneous
from uninformed.homogeneous import DenseLayers, HomogeneousConfig, Layer
from uninformed.knowledge import Architecture

_NAME = re.compile(r"(?:(.*)[./_])?(weight|kernel|w|bias|b)_?(\d*)", re.IGNORECASE)
# Names of matrices that are (inputs, units), and (units, inputs).
_FORMS = (re.compile(r"(.*/)?(w|kernel)"), re.compile(r".*\.weight"))


def read(
    path: str | os.PathLike, inputs: int, *, any_biases: bool = False
) -> DenseLayers:
    """Read a network for points of `inputs` numbers, in float32.

    Args:
      path: a file, an Orbax checkpoint, or the folder of a `CheckpointManager`, whose
        latest step is read.
      inputs: the numbers of a point.
      any_biases: whether layers behind the first may have biases other than 0.
    Raises:
      ValueError: the file holds no such network, or leaves open which; it is a pickle.
      OSError: it can't be read.
    """
    path = Path(path)
    arrays = _arrays(path)
    layers = _layers(path, arrays)
    ways = [turned for turned in (False, True) if _chained(layers, inputs, turned)]
    if not ways:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(
            f"Expected {path.name} to hold the dense layers of a network of {inputs}"
            f" inputs, one after the other, with a hidden one; got {shapes}."
        )
    if len(ways) > 1:
        matrices = [name for name, array in arrays.items() if array.ndim == 2]
        ways = [i for i in ways if all(map(_FORMS[i].fullmatch, matrices))]
    if not ways:
        raise ValueError(
            f"{path.name} has square matrices alone, and their names don't tell which"
            " side is the inputs': name them 0.weight for (units, inputs), 0/w for"
            " (inputs, units)."
        )
    if not any_biases and any(b is not None for _, b in layers[1:]):
        raise ValueError(
            f"{path.name} has biases behind the first layer, with which the network"
            " isn't homogeneous. If it was trained with weight decay:"
            " --config.attack.coefficients=signed."
        )
    return tuple(
        Layer(jnp.asarray(w.T if ways[0] else w), None if b is None else jnp.asarray(b))
        for w, b in layers
    )


def released(
    network: DenseLayers, image_shape: tuple[int, ...]
) -> tuple[Release, Architecture]:
    """Return the arguments of `kkt.Attack`: a release, and what its attacker knows."""
    config = HomogeneousConfig(outputs=network[-1].w.shape[1])
    victim = homogeneous.victim(config, image_shape, network)
    theta = np.asarray(ravel_pytree(network)[0])
    return publish(theta[None]), Architecture(victim=victim)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays, and refuse what isn't of dense layers."""
    if not path.is_dir() and path.suffix not in (".npz", ".safetensors"):
        raise ValueError(
            "Expected weights in .safetensors, .npz or a folder of Orbax, got"
            f" {path.name}: other formats may run code when they are read. From"
            " PyTorch: safetensors.torch.save_file(model.state_dict(),"
            ' "victim.safetensors").'
        )
    read: Callable[[Path], dict[str, np.ndarray]] = safetensors.read
    if path.is_dir() or path.suffix == ".npz":
        read = _checkpoint if path.is_dir() else files.read_arrays
    # Texts describe the others, as in files of ours.
    arrays = {name: a for name, a in read(path).items() if a.dtype.kind != "U"}
    for name, array in arrays.items():
        floats = jnp.issubdtype(array.dtype, jnp.floating)
        if array.ndim not in (1, 2) or not floats or not np.isfinite(array).all():
            raise ValueError(
                f"{name} in {path.name} is {array.dtype} of shape {array.shape}. Dense"
                " layers have matrices and biases of finite floats, nothing else."
            )
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}


def _checkpoint(folder: Path) -> dict[str, np.ndarray]:
    """Read a checkpoint of Orbax as NumPy's arrays, whatever devices saved it."""
    import orbax.checkpoint as ocp  # takes a second

    steps = [child for child in folder.iterdir() if child.name.isdigit()]
    step = max(steps, key=lambda child: int(child.name), default=folder)
    items = [p for p in (step, *step.iterdir()) if (p / "_METADATA").is_file()]
    if len(items) != 1:
        raise ValueError(
            f"Expected {step} to be one checkpoint of Orbax, got {len(items)} of them."
        )
    with ocp.PyTreeCheckpointer() as reader:
        saved = reader.metadata(items[0].resolve()).item_metadata.tree
        as_numpy = ocp.RestoreArgs(restore_type=np.ndarray)
        arguments = jax.tree.map(lambda _: as_numpy, saved)
        tree = reader.restore(items[0].resolve(), restore_args=arguments)
    return {part.name: np.asarray(part.array) for part in parts(tree)}


def _layers(
    path: Path, arrays: Mapping[str, np.ndarray]
) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Return matrix and biases of each layer, in order; biases of 0 are none."""
    parts = [_NAME.fullmatch(name) for name in arrays]
    layers: dict[str, list[np.ndarray]] = {}
    for number, (array, part) in enumerate(zip(arrays.values(), parts, strict=True)):
        # Without names biases follow their matrix.
        layer = str(number if array.ndim == 2 else next(reversed(layers), ""))
        if part and all(parts):
            layer = f"{part[1] or ''}{part[3]}"
        layers.setdefault(layer, []).append(array)
    for layer, pair in layers.items():
        pair.sort(key=lambda array: -array.ndim)
        if [array.ndim for array in pair] not in ([2], [2, 1]):
            raise ValueError(
                f"Expected a matrix and at most one vector of biases in layer {layer!r}"
                f" of {path.name}, got shapes {[array.shape for array in pair]}."
            )

    def numbered(layer: str) -> list[str | int]:
        pieces = re.split(r"(\d+)", layer)
        return [int(p) if i % 2 else p for i, p in enumerate(pieces)]

    order = list(layers)
    words = {re.sub(r"[._/]?\d+", "", layer) for layer in layers}
    if len(words) == 1 or path.suffix != ".npz":  # writers of other files sort names
        order.sort(key=numbered)
    pairs = [layers[layer] for layer in order]
    return [(w, b[0] if b and b[0].any() else None) for w, *b in pairs]


def _chained(layers: list, inputs: int, turned: bool) -> bool:
    """Return whether each layer takes what the one before gives."""
    for w, b in layers:
        sides = w.shape[::-1] if turned else w.shape
        if sides[0] != inputs or (b is not None and b.shape != sides[1:]):
            return False
        inputs = sides[1]
    return len(layers) > 1
