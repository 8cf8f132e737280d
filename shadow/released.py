"""What a training function returns, as named arrays: all that is taken for released.

tree of arrays       its leaves
PyTorch              parameters and buffers (running statistics are released too); the
                     prefixes of wrappers, `_module.` and `_orig_mod.`, are cut off
scikit-learn         fitted arrays of floats (`coef_`, `coefs_`, `mean_`, ...), also of
                     the steps of a pipeline and the members of an ensemble

Nothing is imported here: an object of PyTorch's or scikit-learn's brings its library.
"""

import copy
import sys
from typing import Any, NamedTuple

import jax
import numpy as np

from shadow import checks

PREFIXES = ("_module.", "_orig_mod.", "module.")


class Part(NamedTuple):
    """One array: its name, and itself."""

    name: str
    array: Any


def parts(result: Any) -> list[Part]:
    """The arrays of what was returned, in a fixed order; traced ones too.

    None of a fitted estimator without arrays of floats, such as trees and neighbours,
    whose file can be read all the same.

    Raises: FieldError: there is no array in it.
    """
    arrays = _parts(result)
    if not arrays and not is_estimator(result):
        raise checks.FieldError(
            "train",
            "Expected {} to return arrays, a PyTorch module or state_dict, or a fitted"
            f" estimator; got {type(result).__name__} without any array.",
        )
    return arrays


def _parts(result: Any) -> list[Part]:
    if is_torch(result):
        result = result.state_dict()
    if is_estimator(result):
        return _of_estimator(result, "")
    paths, _ = jax.tree_util.tree_flatten_with_path(result)
    arrays = []
    for path, leaf in paths:
        name = jax.tree_util.keystr(path, simple=True, separator="/") or "theta"
        if is_torch(leaf) or is_estimator(leaf):  # such as a list of models
            arrays += [Part(f"{name}/{n}", a) for n, a in _parts(leaf)]
        elif (array := _numeric(leaf)) is not None:
            arrays.append(Part(bare(name), array))
    return arrays


def left_out(result: Any) -> list[str]:
    """What was returned and isn't read, or not as a whole, by any attack here.

    Returns: "vocabulary/3 (str)", one a leaf of another kind. Of a fitted estimator
      inside something else only its arrays of floats are read: it is named, as it may
      hold more, such as training rows. None of one that is returned alone.
    """
    if is_torch(result) or is_estimator(result):
        return []
    paths, _ = jax.tree_util.tree_flatten_with_path(result)
    names = []
    for path, leaf in paths:
        known = is_torch(leaf) or _numeric(leaf) is not None
        if is_estimator(leaf):
            name = jax.tree_util.keystr(path, simple=True, separator="/") or "it"
            names.append(f"{name} ({type(leaf).__name__}, beside its arrays of floats)")
        elif not known:
            name = jax.tree_util.keystr(path, simple=True, separator="/") or "it"
            names.append(f"{name} ({type(leaf).__name__})")
    return names


def with_theta(estimator: Any, theta: np.ndarray) -> Any:
    """Copy a fitted estimator, with the values of a theta in its arrays.

    Args:
      theta: (params,), all arrays of `parts`, flat, one after the other.
    """
    shapes = [np.shape(part.array) for part in parts(estimator)]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    pieces = zip(np.split(np.asarray(theta), ends), shapes, strict=True)
    changed = copy.deepcopy(estimator)
    _set_estimator(changed, [piece.reshape(shape) for piece, shape in pieces])
    return changed


def is_torch(value: Any) -> bool:
    """Whether it is a PyTorch module."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def is_estimator(value: Any) -> bool:
    """Whether it is an estimator in the manner of scikit-learn's."""
    return hasattr(value, "get_params") and hasattr(value, "fit")


def members(estimator: Any) -> list[Any]:
    """An estimator and those inside it."""
    inside = [step for _, step in getattr(estimator, "steps", [])]
    if hasattr(estimator, "best_estimator_"):
        inside.append(estimator.best_estimator_)
    ensemble = getattr(estimator, "estimators_", [])
    inside += [item for item in np.ravel(np.asarray(ensemble, object)) if item]
    return [
        estimator,
        *(m for item in inside if is_estimator(item) for m in members(item)),
    ]


def _fitted(estimator: Any) -> list[tuple[str, Any]]:
    """Fitted attributes that hold arrays of floats, lists of them, or an intercept.

    Regressors store that as a single number. Other single numbers, such as the time
    that a search took, are no weights.
    """
    return [
        (name, value)
        for name, value in sorted(vars(estimator).items())
        # Labels are numbers too, and no weights.
        if (
            name.endswith("_")
            and not name.startswith("_")
            and name != "classes_"
            and _floats(value)
        )
        or (name == "intercept_" and isinstance(value, np.floating))
    ]


def _floats(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(_floats(item) for item in value)
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _of_estimator(estimator: Any, prefix: str) -> list[Part]:
    arrays = []
    for number, member in enumerate(members(estimator)):
        inside = f"{prefix}{type(member).__name__}." if number else prefix
        for name, value in _fitted(member):
            leaves = jax.tree_util.tree_leaves(value)
            many = isinstance(value, list | tuple)
            arrays += [
                Part(f"{inside}{name}" + (f"/{i}" if many else ""), leaf)
                for i, leaf in enumerate(leaves)
            ]
    return arrays


def _set_estimator(estimator: Any, values: list[np.ndarray]) -> None:
    """Put values, from the first on, where `_of_estimator` found arrays."""
    for member in members(estimator):
        for name, value in _fitted(member):
            leaves, treedef = jax.tree_util.tree_flatten(value)
            # A number stays one: `()` takes it out of its array.
            new = [np.asarray(values.pop(0), leaf.dtype)[()] for leaf in leaves]
            setattr(member, name, jax.tree_util.tree_unflatten(treedef, new))


def _numeric(leaf: Any) -> Any:
    """The leaf as an array, traced or not; None where it holds no numbers."""
    if hasattr(leaf, "detach"):
        leaf = leaf.detach().cpu()
        leaf = (leaf.float() if "bfloat16" in str(leaf.dtype) else leaf).numpy()
    if isinstance(leaf, bool | int | float | complex | np.ndarray | np.generic):
        leaf = np.asarray(leaf)
    if not (hasattr(leaf, "dtype") and hasattr(leaf, "shape")):
        return None
    if not isinstance(leaf.dtype, np.dtype):  # a key of JAX's, for one
        return None
    # bfloat16 and other extensions have the kind "V"
    numeric = leaf.dtype.kind in "fiub" or jax.numpy.issubdtype(leaf.dtype, np.floating)
    return leaf if numeric else None


def bare(name: str) -> str:
    """A name without the prefixes of wrappers, wherever they are."""
    pieces = name.split("/")
    for i, piece in enumerate(pieces):
        for prefix in PREFIXES:
            if piece.startswith(prefix):
                piece = piece[len(prefix) :]
            piece = piece.replace(f".{prefix}", ".")
        pieces[i] = piece
    return "/".join(pieces)
