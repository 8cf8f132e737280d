"""Victims: the models under attack, and theta as one flat vector.

A victim is a pair of pure functions, `init(key) -> params` and
`apply(params, images) -> logits`, with a named layout of its flattened weights.
Haiku stays inside this file.

Inside the dense layers activations are laid out (features, examples). Under `vmap`
over models XLA then folds the first layer of all models, which share their input, into
one large matrix product; laid out (examples, features) it does not, and runs at half
the speed. Images come in and logits go out the usual way round.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import haiku as hk
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from shadow import checks, devices
from shadow.precision import highest
from shadow.training.versions import source_hash
from shadow.victims import groups as grouped
from shadow.victims import traces
from shadow.victims.activations import ACTIVATIONS
from shadow.victims.groups import PATCHES, Groups
from shadow.victims.layers import INITIALISERS, Conv, Dense

Params = Any  # a PyTree of float32 arrays
Taps = dict[str, Array]

ARCHITECTURES = ("mlp", "cnn", "affine")
# The user's own, by name: (what builds them, its version).
_REGISTERED: dict[str, tuple[Callable[..., "Victim"], str | None]] = {}
_ROWS = 1000  # examples of a dense network at once, where there are more
_SMALLEST_FOR_CNN = 10
# Of networks by architecture; see `shadow.records`. The CNN of revision 1 had no hidden
# layer behind its convolutions.
_REVISIONS = {"cnn": 2}


@dataclasses.dataclass(frozen=True, kw_only=True)
class VictimConfig:
    """Architecture and initialisation of a victim.

    Attributes:
      architecture: "mlp"; "cnn" (Table VI); "affine" (no hidden layer); or a name that
        was given to `register`.
      widths: the widths of the hidden dense layers, which the CNN has behind its
        convolutions; (10,) is Table V's MLP and Table VI's CNN.
      activation: a name in `ACTIVATIONS`; Table V has ELU.
      initialiser: "lecun_normal" (truncated, exactly Haiku's default), "he_normal" or
        "glorot_uniform". Biases start at zero.
    """

    architecture: str = "mlp"
    widths: tuple[int, ...] = (10,)
    activation: str = "elu"
    initialiser: str = "lecun_normal"

    def __post_init__(self) -> None:
        known = (*ARCHITECTURES, *_REGISTERED)
        checks.choice("architecture", self.architecture, known)
        checks.choice("activation", self.activation, ACTIVATIONS)
        checks.choice("initialiser", self.initialiser, INITIALISERS)
        for width in self.widths:
            checks.at_least("widths", width, 1)


def register(
    name: str, build: Callable[..., "Victim"], *, version: str | None = None
) -> None:
    """Make a victim of the user's own known to configurations by a name.

    Args:
      name: the name that `config.victim.architecture` is set to.
      build: (`VictimConfig`, image_shape=, num_classes=) -> `Victim`.
      version: the version that records hold, so that what another version made is
        refused; None: a hash of the file of `build` (`shadow.training.versions`).
    Raises: ValueError: another one has that name.
    """
    there, _ = _REGISTERED.get(name, (build, version))
    # The configuration file that registers it may be read twice.
    if name in ARCHITECTURES or checks.place(there) != checks.place(build):
        raise ValueError(f"There is a victim called {name!r} already.")
    _REGISTERED[name] = (build, version)


def revisions(configuration: Mapping[str, Any]) -> dict[str, int | str]:
    """What a record says of the network of a configuration, beside its settings.

    Args:
      configuration: the configuration of an experiment or a store; "victim" is a
        `VictimConfig` as a dictionary, where it is of this module's.
    """
    victim = configuration.get("victim")
    name = victim.get("architecture") if isinstance(victim, Mapping) else None
    if name in _REGISTERED:
        build, version = _REGISTERED[name]
        return {name: version or source_hash(build)}
    return {name: _REVISIONS[name]} if name in _REVISIONS else {}


@dataclasses.dataclass(frozen=True)
class Slice:
    """Where one array of the parameters lies in theta: `theta[start:stop]`."""

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]

    def of(self, weights: Any) -> Any:
        """The array, from theta (params,) of NumPy or JAX."""
        return weights[self.start : self.stop].reshape(self.shape)


@dataclasses.dataclass(frozen=True)
class FirstLayer:
    """A dense first layer, told apart from the rest of the network.

    Attributes:
      name: module of its weights w (pixels, units).
      after: (params without that w, products w^T x (units, examples)) -> logits.
    """

    name: str
    after: Callable[[Params, Array], Array]


class FirstWeights(NamedTuple):
    """The weights of a dense first layer: where in theta, and (pixels, units)."""

    columns: slice
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Victim:
    """A model under attack.

    Attributes:
      init: key -> params.
      apply: (params, images (examples, height, width, channels)) -> logits
        (examples, classes). Pure.
      image_shape: (height, width, channels).
      num_classes: length of a row of logits.
      layout: the slices of theta, in order, without gaps.
      first: the first layer, where it is dense; lets A train in the span of the data
        (`shadow.training.span`).
      tapped: (params, images, taps) -> (logits, the inputs of each layer); adds taps to
        the layers' outputs. Lets A clip gradients without having them
        (`dp.gradient`). None for networks with layers of other kinds.
      groups: a form for few examples at a time, where the network has one; A trains by
        it on a CPU (`shadow.training.groups`).
      forms: all forms that A can train the network in, by name; None: all examples at
        once. On an accelerator it is "patches" where there is one, else all at once.
    """

    init: Callable[[Array], Params]
    apply: Callable[[Params, ArrayLike], Array]
    image_shape: tuple[int, ...]
    num_classes: int
    layout: tuple[Slice, ...]
    first: FirstLayer | None = None
    tapped: Callable[[Params, ArrayLike, Taps | None], tuple[Array, Taps]] | None = None
    groups: Groups | None = None
    forms: Mapping[str, Groups | None] = dataclasses.field(default_factory=dict)
    _treedef: Any = dataclasses.field(repr=False)

    def form(self, name: str | None) -> Groups | None:
        """A form by its name; None: the one that suits the device."""
        if name is not None:
            return self.forms[name]
        return self.groups if devices.cache_bound() else self.forms.get(PATCHES)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of what the network computes, and of how it is initialised."""
        params = jax.eval_shape(self.init, jax.random.key(0))
        images = jax.ShapeDtypeStruct((2, *self.image_shape), jnp.float32)
        parts = (
            traces.digest(self.init, jax.random.key(0)),
            traces.digest(self.apply, params, images),
        )
        return checks.fingerprint(parts)

    @property
    def first_weights(self) -> FirstWeights | None:
        """Where a dense first layer's weights lie in theta; None for other layers."""
        if self.first is None:
            return None
        name = f"{self.first.name}/w"
        part = next(part for part in self.layout if part.name == name)
        return FirstWeights(slice(part.start, part.stop), part.shape)

    @property
    def num_params(self) -> int:
        """The number of parameters, the length of theta."""
        return self.layout[-1].stop

    def taps(self, num_images: int) -> Taps:
        """Zeros, of the shapes that `tapped` adds."""
        assert self.tapped is not None
        images = jax.ShapeDtypeStruct((num_images, *self.image_shape), jnp.float32)
        params = jax.eval_shape(self.init, jax.random.key(0))
        _, shapes = jax.eval_shape(
            lambda params, images: self.tapped(params, images, None),  # type: ignore[misc]
            params,
            images,
        )
        return {name: jnp.zeros(shape.shape) for name, shape in shapes.items()}

    def flatten(self, params: Params) -> Float[Array, " params"]:
        """Theta: all parameters as one vector, in the order of `layout`."""
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(params)])

    def unflatten(self, weights: Float[Array, " params"]) -> Params:
        """The inverse of `flatten`.

        Raises: ValueError: `weights` has another length than theta.
        """
        if weights.shape != (self.num_params,):
            raise ValueError(
                f"Expected weights of shape ({self.num_params},), got {weights.shape}."
            )
        leaves = [part.of(weights) for part in self.layout]
        return jax.tree.unflatten(self._treedef, leaves)


def build(
    config: VictimConfig, *, image_shape: tuple[int, ...], num_classes: int
) -> Victim:
    """The victim of a configuration, for images of `image_shape`.

    On MNIST the default has 7,960 parameters; on CIFAR-10 "cnn" has 55,208 (Table VI),
    of which 9,008 are of the convolutions.

    Raises: ValueError: images too small for the CNN's two convolutions.
    """
    if config.architecture in _REGISTERED:
        own, _ = _REGISTERED[config.architecture]
        return own(config, image_shape=image_shape, num_classes=num_classes)
    if config.architecture == "cnn" and min(image_shape[:2]) < _SMALLEST_FOR_CNN:
        raise checks.FieldError(
            "architecture",
            f"{{}} is 'cnn', which takes images of at least {_SMALLEST_FOR_CNN} x"
            f" {_SMALLEST_FOR_CNN}; got {image_shape}. Use 'mlp'.",
        )
    activation = ACTIVATIONS[config.activation]
    w_init = INITIALISERS[config.initialiser]
    widths = () if config.architecture == "affine" else config.widths
    sizes = {f"hidden_{i}": width for i, width in enumerate(widths)}
    sizes["output"] = num_classes
    first = next(iter(sizes))

    def dense(values: Array, *, products: bool) -> Array:
        """All layers; `products`: from the products of the first one."""
        for name, width in sizes.items():
            layer = Dense(width, w_init, name=name)
            if name != first:
                values = activation(values)
            if name != first or not products:
                values = layer.product(values)
            values = layer.shift(values)
        return values.T

    def mlp(images: Array) -> Array:
        return dense(images.reshape(len(images), -1).T, products=False)

    def cnn(images: Array) -> Array:
        values = images.transpose(3, 0, 1, 2)
        for i, (channels, stride) in enumerate(((16, 2), (32, 1))):
            layer = Conv(channels, 4, stride, w_init, name=f"conv_{i}")
            values = activation(layer(values))
        values = values.transpose(2, 3, 0, 1).reshape(-1, len(images))
        return dense(values, products=False)

    network = cnn if config.architecture == "cnn" else mlp
    victim = dataclasses.replace(
        from_haiku(network, image_shape=image_shape, num_classes=num_classes),
        tapped=_tapped(network),
    )
    if config.architecture == "cnn":
        layers = tuple(sizes)
        form = grouped.cnn(image_shape, activation, layers)
        convolved = grouped.convolutions(activation, layers)
        forms = {
            grouped.WHOLE: None,
            grouped.TOOM_COOK: form,
            PATCHES: grouped.plain(victim.apply, grouped.FOR_ACCELERATORS),
            grouped.CONVOLUTIONS: convolved,
            grouped.ONE_BY_ONE: convolved,
        }
        return dataclasses.replace(victim, groups=form, forms=forms)
    after = hk.without_apply_rng(
        hk.transform(functools.partial(dense, products=True))
    ).apply
    groups = grouped.plain(victim.apply, _ROWS)
    return dataclasses.replace(victim, first=FirstLayer(first, after), groups=groups)


def _tapped(
    network: Callable[[Array], Array],
) -> Callable[[Params, ArrayLike, Taps | None], tuple[Array, Taps]]:
    """See `Victim.tapped`; with taps of None the layers' outputs are returned."""

    def forward(images: Array, taps: Taps | None) -> tuple[Array, Taps]:
        seen: Taps = {}

        def tap(call: Any, args: Any, kwargs: Any, context: Any) -> Any:
            output = call(*args, **kwargs)
            if context.method_name != "product":
                return output
            name = context.module.module_name
            if taps is None:
                seen[name] = output
                return output
            seen[name] = args[0]
            return output + taps[name]

        with hk.intercept_methods(tap):
            logits = network(images)
        return logits, seen

    apply = hk.without_apply_rng(hk.transform(forward)).apply
    return lambda params, images, taps: apply(params, jnp.asarray(images), taps)


def from_haiku(
    network: Callable[[Array], Array],
    *,
    image_shape: tuple[int, ...],
    num_classes: int,
) -> Victim:
    """A victim from the user's own Haiku function, images -> logits.

    Raises: ValueError: the network holds state, or its logits have another shape than
      (examples, num_classes).
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
    """A victim from a Flax network, images -> logits.

    Args:
      module: a linen module; or a function of `nnx.Rngs` that makes an nnx module, such
        as its class.
      image_shape, num_classes: of the data.
    Raises: ValueError: as `from_functions`; state besides parameters, such as the
      statistics of batch normalisation or the random numbers of dropout, which a victim
      doesn't hold.
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
    """A victim from an Equinox model of one image (height, width, channels) -> logits.

    Args:
      make: key -> the model, such as `lambda key: Net(key=key)`.
    Raises: ValueError: as `from_functions`. ImportError: equinox isn't installed.
    """
    import equinox

    def init(key: Array) -> Params:
        return equinox.filter(make(key), equinox.is_inexact_array)

    static = equinox.partition(
        equinox.filter_eval_shape(make, jax.random.key(0)), _is_shape_of_floats
    )[1]

    def apply(params: Params, images: ArrayLike) -> Array:
        return jax.vmap(equinox.combine(params, static))(jnp.asarray(images))

    return from_functions(init, apply, image_shape=image_shape, num_classes=num_classes)


def _is_shape_of_floats(leaf: Any) -> bool:
    floating = getattr(leaf, "dtype", None)
    return floating is not None and jnp.issubdtype(floating, jnp.inexact)


def from_functions(
    init: Callable[[Array], Params],
    apply: Callable[[Params, Any], Array],
    *,
    image_shape: tuple[int, ...],
    num_classes: int,
) -> Victim:
    """A victim from a pair of pure functions; see `Victim`.

    Raises: ValueError: logits of another shape than (examples, num_classes), or
      parameters of another type than float32 or float64.
    """
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
                f"Expected parameters of float32, got {leaf.dtype} in {name}: theta is"
                " one vector of float32, and would be another network's."
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


@highest
def accuracy(
    victim: Victim, params: Params, images: ArrayLike, labels: ArrayLike
) -> float:
    """Share of `images` that the victim puts into their class."""
    predicted = jnp.argmax(victim.apply(params, images), axis=-1)
    return float(jnp.mean(predicted == labels))
