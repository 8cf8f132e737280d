"""Dense ReLU networks that another program trained, from a file of their weights.

Files are .safetensors or .npz, which never run code when they are read. Names are those
of PyTorch (`0.weight`, `layers.0.bias`), Haiku and Flax (`hidden_0/w`,
`Dense_0/kernel`), or `w0`, `b0`; layers are sorted by them, numbers as numbers. Arrays
of an .npz file with other names are taken in their order.

Matrices are (inputs, units), or all (units, inputs) as in PyTorch. The number of inputs
and the shapes decide which; if all are square, the names do.

Checked: tests/uninformed/test_weights_file.py.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from shadow import files, safetensors
from uninformed.homogeneous import DenseLayers, Layer

_NAME = re.compile(r"(?:(.*)[./_])?(weight|kernel|w|bias|b)_?(\d*)", re.IGNORECASE)
# Last parts of names whose matrices are (units, inputs), or (inputs, units).
_TURNED, _STRAIGHT = r".*\.weight", r"(.*/)?(w|kernel)"


class _Named(NamedTuple):
    """The names of a layer's weights and of its biases; None: it has none."""

    w: str
    b: str | None


def read(
    path: str | os.PathLike, inputs: int, *, homogeneous: bool = True
) -> DenseLayers:
    """Read a network for points of `inputs` numbers, in float32.

    Args:
      homogeneous: whether no layer but the first may have biases; those of 0 are none.
    Raises:
      ValueError: the file holds no such network, or leaves open which; it is a pickle.
      OSError: it can't be read.
    """
    path = Path(path)
    arrays = _arrays(path)
    ways = [
        (order, turned)
        for order in _orders(path, arrays)
        for turned in (False, True)
        if _chained(arrays, order, inputs, turned)
    ]
    shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
    if not ways:
        raise ValueError(
            f"Expected {path.name} to hold the dense layers of a network of {inputs}"
            f" inputs, one after the other, with a hidden one; got {shapes}."
        )
    if any(order != ways[0][0] for order, _ in ways):
        raise ValueError(
            f"Expected names in {path.name} that tell the order of its layers, such as"
            f" 0.weight and 1.weight; got {shapes}."
        )
    order, turned = ways[0]
    if len(ways) > 1:
        if not any(
            all(re.fullmatch(form, layer.w) for layer in order)
            for form in (_TURNED, _STRAIGHT)
        ):
            raise ValueError(
                f"{path.name} has square matrices alone, and their names don't tell"
                " which side is the inputs': name them 0.weight for (units, inputs), or"
                " 0/w for (inputs, units)."
            )
        turned = bool(re.fullmatch(_TURNED, order[0].w))
    layers = []
    for number, (w, b) in enumerate(order):
        biases = None if b is None or not arrays[b].any() else arrays[b]
        if biases is not None and number and homogeneous:
            raise ValueError(
                f"{b} in {path.name} isn't 0. The conditions are of networks with"
                " biases in the first layer alone; of others only if trained with"
                " weight decay: --config.attack.coefficients=signed."
            )
        weights = arrays[w].T if turned else arrays[w]
        layers.append(
            Layer(jnp.asarray(weights), None if biases is None else jnp.asarray(biases))
        )
    return tuple(layers)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays, and refuse what isn't of dense layers."""
    if path.suffix == ".npz":
        # What isn't numbers describes them, as in files of ours.
        arrays = {
            n: a for n, a in files.read_arrays(path).items() if a.dtype.kind != "U"
        }
    elif path.suffix == ".safetensors":
        arrays = safetensors.read(path)
    else:
        raise ValueError(
            f"Expected weights in .safetensors or .npz, got {path.name}: other formats"
            " may run code when they are read. From PyTorch:"
            ' safetensors.torch.save_file(model.state_dict(), "victim.safetensors").'
        )
    for name, array in arrays.items():
        if array.ndim not in (1, 2) or not jnp.issubdtype(array.dtype, jnp.floating):
            raise ValueError(
                f"{name} in {path.name} is {array.dtype} of shape {array.shape}; dense"
                " layers have matrices and biases of floats, and nothing else."
            )
        arrays[name] = np.asarray(array, np.float32)
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name} in {path.name} holds NaN or infinity.")
    return arrays


def _orders(path: Path, arrays: Mapping[str, np.ndarray]) -> list[list[_Named]]:
    """Return the orders that layers may have: by name, and in .npz as in the file."""
    parts = {name: _NAME.fullmatch(name) for name in arrays}
    layers: dict[str, dict[bool, str]] = {}
    for number, (name, array) in enumerate(arrays.items()):
        matrix, part = array.ndim == 2, parts[name]
        if all(parts.values()) and part is not None:
            layer = f"{part[1] or ''}{part[3]}"
        else:  # biases follow their matrix
            layer = str(number) if matrix else next(reversed(layers), "")
        if matrix in layers.setdefault(layer, {}):
            raise ValueError(f"{path.name} has two arrays like {name} for one layer.")
        layers[layer][matrix] = name
    without = [named[False] for named in layers.values() if True not in named]
    if without:
        raise ValueError(f"{path.name} has no matrix of 2 dimensions for {without[0]}.")

    def numbered(layer: str) -> list[str | int]:
        pieces = re.split(r"(\d+)", layer)
        return [int(p) if i % 2 else p for i, p in enumerate(pieces)]

    named = {layer: _Named(of[True], of.get(False)) for layer, of in layers.items()}
    by_name = [named[layer] for layer in sorted(named, key=numbered)]
    in_file = list(named.values())
    # Of .safetensors the order is the writer's, by type and name.
    alone = path.suffix != ".npz" or in_file == by_name
    return [by_name] if alone else [by_name, in_file]


def _chained(
    arrays: Mapping[str, np.ndarray], order: list[_Named], inputs: int, turned: bool
) -> bool:
    """Return whether each layer takes what the one before gives."""
    width = inputs
    for w, b in order:
        sides = arrays[w].shape[::-1] if turned else arrays[w].shape
        if sides[0] != width or (b is not None and arrays[b].shape != sides[1:]):
            return False
        width = sides[1]
    return len(order) > 1
