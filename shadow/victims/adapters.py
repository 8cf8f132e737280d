"""Make a `Victim` (pure functions, and weights as a vector) of a user's network.

Users call these as `shadow.from_flax` and so on; `architectures` and
`uninformed.homogeneous` make their victims by them.
"""

import functools
from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from shadow import checks
from shadow.victims.victim import Params, Slice, Victim


def from_haiku(
    network: Callable[[Array], Array], *, image_shape: tuple[int, ...], num_classes: int
) -> Victim:
    """Make a victim of a Haiku function, images -> logits.

    Raises: ValueError: the network holds state; as `from_functions`.
    """
    transformed = hk.without_apply_rng(hk.transform(network))
    images = jnp.zeros((1, *image_shape), jnp.float32)
    return from_functions(
        lambda key: transformed.init(key, images),
        lambda params, images: transformed.apply(params, jnp.asarray(images)),
        image_shape=image_shape,
        num_classes=num_classes,
    )


def from_flax(module: Any, *, image_shape: tuple[int, ...], num_classes: int) -> Victim:
    """Make a victim of a Flax network, images -> logits.

    Args:
      module: a linen module; or a function of `nnx.Rngs` that makes an nnx module, such
        as its class.
      image_shape, num_classes: those of the data.
    Raises: ValueError: as `from_functions`; state besides parameters, such as the
      statistics of batch normalisation or the random numbers of dropout.
    """
    images = jnp.zeros((1, *image_shape), jnp.float32)
    if not hasattr(module, "apply"):
        return _from_nnx(module, image_shape=image_shape, num_classes=num_classes)

    def init(key: Array) -> Params:
        variables = module.init(key, images)
        _require_stateless([name for name in variables if name != "params"])
        return variables["params"]

    return from_functions(
        init,
        lambda params, images: module.apply({"params": params}, jnp.asarray(images)),
        image_shape=image_shape,
        num_classes=num_classes,
    )


def _from_nnx(make: Any, *, image_shape: tuple[int, ...], num_classes: int) -> Victim:
    """See `from_flax`."""
    from flax import nnx

    if isinstance(make, nnx.Module):
        raise checks.FieldError(
            "module",
            "Expected {} to make an nnx module, such as its class or a function of"
            " nnx.Rngs, got a module that is made already: theta_0 is drawn by key.",
        )
    shapes = nnx.eval_shape(lambda: make(nnx.Rngs(0)))
    graph, *states = nnx.split(shapes, nnx.Param, ...)
    params, rest = states
    _require_stateless(["/".join(map(str, path)) for path, _ in rest.flat_state()])

    def init(key: Array) -> Params:
        return nnx.to_pure_dict(nnx.state(make(nnx.Rngs(key)), nnx.Param))

    def apply(values: Params, images: ArrayLike) -> Array:
        state = jax.tree.map(lambda leaf: leaf, params)  # a copy, to be filled
        nnx.replace_by_pure_dict(state, values)
        return nnx.merge(graph, state)(jnp.asarray(images))

    return from_functions(init, apply, image_shape=image_shape, num_classes=num_classes)


def _require_stateless(names: list[str]) -> None:
    """Raise ValueError if a Flax network has anything but parameters."""
    if names:
        raise ValueError(
            "Expected a Flax network with parameters alone, got also"
            f" {', '.join(names)}: a victim holds no state. Use a network without batch"
            " normalisation, dropout and the like."
        )


def from_equinox(
    make: Callable[[Array], Any], *, image_shape: tuple[int, ...], num_classes: int
) -> Victim:
    """Make a victim of an Equinox model, (height, width, channels) -> logits.

    Args:
      make: key -> the model, such as `lambda key: Net(key=key)`.
    Raises: ValueError: as `from_functions`. ImportError: equinox isn't installed.
    """
    import equinox

    def init(key: Array) -> Params:
        return equinox.filter(make(key), equinox.is_inexact_array)

    _, static = equinox.partition(make(jax.random.key(0)), equinox.is_inexact_array)

    def apply(params: Params, images: ArrayLike) -> Array:
        return jax.vmap(equinox.combine(params, static))(jnp.asarray(images))

    return from_functions(init, apply, image_shape=image_shape, num_classes=num_classes)


def _call(function: Callable, *arguments: Any) -> Any:
    return function(*arguments)


def from_functions(
    init: Callable[[Array], Params],
    apply: Callable[[Params, Any], Array],
    *,
    image_shape: tuple[int, ...],
    num_classes: int,
) -> Victim:
    """Make a victim of a pair of pure functions; see `Victim`.

    Raises: ValueError: logits of another shape than (examples, num_classes), or
      parameters of another type than float32 or float64.
    """
    # JAX keeps the traces of equal functions, and the user's may have new settings.
    init, apply = functools.partial(_call, init), functools.partial(_call, apply)
    images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    shapes = jax.eval_shape(init, jax.random.key(0))
    logits = jax.eval_shape(apply, shapes, images)
    if logits.shape != (1, num_classes):
        raise ValueError(
            f"Expected the network to give logits of shape (examples, {num_classes}),"
            f" got (examples, {', '.join(map(str, logits.shape[1:]))})."
        )
    paths, treedef = jax.tree_util.tree_flatten_with_path(shapes)
    layout, start = [], 0
    for path, leaf in paths:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        if leaf.dtype not in (jnp.float32, jnp.float64):
            raise ValueError(
                f"Expected float32 or float64 parameters, got {leaf.dtype} in {name}:"
                " as one vector they would be another network's."
            )
        layout.append(Slice(name, start, start + leaf.size, tuple(leaf.shape)))
        start += leaf.size
    return Victim(
        init=init,
        apply=apply,
        image_shape=tuple(image_shape),
        num_classes=num_classes,
        layout=tuple(layout),
        _treedef=treedef,
    )
