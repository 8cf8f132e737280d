"""List the released weights of a user's model: named arrays of what training returns.

Audits (`informed.audit.subject` and others), attacks on fitted estimators and
`uninformed.weights_file` call this. These arrays count as released, and form theta:

tree of arrays       its leaves
PyTorch              parameters and buffers (running statistics are released too); the
                     prefixes of wrappers, such as `_module.`, are cut off
scikit-learn         fitted arrays of floats (`coef_`, `coefs_`, `mean_`, ...), also of
                     the steps of a pipeline and the members of an ensemble

Neither library is imported here: an object of theirs brings it along.
"""

import copy
import sys
from collections.abc import Collection
from typing import Any, NamedTuple

import jax
import numpy as np

from shadow import checks

# Arguments of estimators whose fitted values are released.
_INSIDE = {"steps", "transformer_list", "estimator"}
# Numbers or texts that a setting of a module has at most; letters of such a text.
_SETTINGS, _LONG = 16, 100
PREFIXES = ("_module.", "_orig_mod.", "module.")


class Part(NamedTuple):
    """A named array of a model."""

    name: str
    array: Any


def parts(result: Any) -> list[Part]:
    """List the arrays of what training returned, in a fixed order; traced ones too.

    A fitted estimator may have none, such as trees and neighbours.

    Raises: FieldError: there is no array in anything else.
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
    if is_torch(result):  # some buffers aren't in its state
        result = {**dict(result.named_buffers()), **result.state_dict()}
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


def _holds_data(value: Any, module: Any, state: Collection[int]) -> bool:
    """Whether an attribute of a PyTorch module holds data that aren't in its state.

    One number or text is a setting, and so are a few, such as strides, and names of
    the module's parts.
    """
    leaves = jax.tree_util.tree_leaves(value)
    names = {*module._parameters, *module._modules}
    for leaf in leaves:
        if isinstance(leaf, bool | int | float | str):
            long = isinstance(leaf, str) and len(leaf) > _LONG
            several = leaf is not value and len(leaves) > _SETTINGS
            if (long or several) and leaf not in names:
                return True
        elif id(leaf) not in state and (
            is_estimator(leaf) or _numeric(leaf) is not None
        ):
            return True
    return False


def left_out(result: Any) -> list[str]:
    """Name the leaves of what training returned that no attack reads, for audits.

    Of a fitted estimator inside a tree only arrays of floats are read, so it is named
    too: it may hold more, such as training rows. One that is returned alone isn't.
    """
    if is_estimator(result):
        return []
    if is_torch(result):
        state = {id(tensor) for tensor in (*result.parameters(), *result.buffers())}
        names = [
            f"{module}.{name}".lstrip(".")
            for module, inside in result.named_modules()
            for name, value in vars(inside).items()
            if name not in ("_parameters", "_buffers", "_modules")
            and _holds_data(value, inside, state)
        ]
        return names + left_out(dict(result.state_dict()))
    paths, _ = jax.tree_util.tree_flatten_with_path(result)
    names = []
    for path, leaf in paths:
        name = jax.tree_util.keystr(path, simple=True, separator="/") or "it"
        if is_torch(leaf):
            names += [f"{name}/{inside}" for inside in left_out(leaf)]
        elif is_estimator(leaf) or _numeric(leaf) is None:
            beside = ", beside its arrays of floats" if is_estimator(leaf) else ""
            names.append(f"{name} ({type(leaf).__name__}{beside})")
    return names


def unread(result: Any) -> list[str]:
    """Name fitted models among what training returned that hold no array of floats.

    Such are trees and neighbours, also in a pipeline or an ensemble that holds floats
    of its own; sparse coefficients; and arrays of arrays, such as edges of bins.
    """
    names = []
    for estimator in filter(is_estimator, jax.tree_util.tree_leaves(result)):
        for member in members(estimator):
            fitted = any(name.endswith("_") for name in vars(member))
            floats = any(_fitted(inside) for inside in members(member))
            odd = any(map(_is_odd, vars(member).values()))
            answers = hasattr(member, "predict") or hasattr(member, "score_samples")
            models = answers and fitted and not floats
            if models or odd or _hides(member) or hasattr(member, "_predictors"):
                names.append(type(member).__name__)
    return sorted(set(names))


def _hides(member: Any) -> bool:
    """Return whether an estimator holds a matrix that `_fitted` doesn't list."""
    listed = dict(_fitted(member))
    known = listed.keys() | member.get_params(deep=False).keys()
    values = [value for name, value in vars(member).items() if name not in known]
    matrices = [v for v in values if isinstance(v, np.ndarray) and v.ndim > 1]
    shown = [np.abs(v) for v in listed.values() if isinstance(v, np.ndarray)]
    return any(  # but for copies, which libsvm keeps with other signs
        value.dtype.kind == "f"
        and not any(np.array_equal(np.abs(value), v) for v in shown)
        for value in matrices
    )


def _is_odd(value: Any) -> bool:
    if isinstance(value, np.ndarray) and value.dtype == object:
        return any(isinstance(item, np.ndarray) for item in value.flat)
    return hasattr(value, "toarray")


def with_theta(estimator: Any, theta: np.ndarray) -> Any:
    """Copy a fitted estimator, with the values of another model's theta in its arrays.

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
    """Return whether a value is a PyTorch module."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def is_estimator(value: Any) -> bool:
    """Return whether a value is an estimator as of scikit-learn."""
    return hasattr(value, "get_params") and hasattr(value, "fit")


def members(estimator: Any) -> list[Any]:
    """List an estimator and those inside it, such as the steps of a pipeline."""
    estimators = [estimator]
    given = estimator.get_params(deep=False).keys() - _INSIDE
    for name, value in sorted(vars(estimator).items()):
        if name not in given:
            for leaf in jax.tree_util.tree_leaves(value):
                inside = leaf.flat if isinstance(leaf, np.ndarray) else [leaf]
                for item in filter(is_estimator, inside):
                    estimators += members(item)
    return estimators


def _fitted(estimator: Any) -> list[tuple[str, Any]]:
    """List fitted attributes that hold arrays of floats, lists of them, an intercept.

    Regressors store an intercept as a single number. Other single numbers, such as the
    time that a search took, are no weights.
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
            # A single number stays one: `()` takes it out of its array.
            new = [np.asarray(values.pop(0), leaf.dtype)[()] for leaf in leaves]
            setattr(member, name, jax.tree_util.tree_unflatten(treedef, new))


def _numeric(leaf: Any) -> Any:
    """Return the leaf as an array, traced or not; None where it isn't numeric."""
    if hasattr(leaf, "detach"):
        leaf = leaf.detach().cpu()
        leaf = (leaf.float() if "bfloat16" in str(leaf.dtype) else leaf).numpy()
    if isinstance(leaf, bool | int | float | complex | np.ndarray | np.generic):
        leaf = np.asarray(leaf)
    if not (hasattr(leaf, "dtype") and hasattr(leaf, "shape")):
        return None
    if not isinstance(leaf.dtype, np.dtype):  # such as a key of JAX
        return None
    if leaf.dtype.kind == "c":
        own = jax.numpy if isinstance(leaf, jax.Array) else np
        return own.stack([leaf.real, leaf.imag])
    # bfloat16 and other extensions have the kind "V"
    numeric = leaf.dtype.kind in "fiub" or jax.numpy.issubdtype(leaf.dtype, np.floating)
    return leaf if numeric else None


def bare(name: str) -> str:
    """Return a name without the prefixes of wrappers."""
    pieces = name.split("/")
    for prefix in PREFIXES:
        pieces = [
            piece.removeprefix(prefix).replace(f".{prefix}", ".") for piece in pieces
        ]
    return "/".join(pieces)
