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
import math
from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float32

from shadow import checks

Params = Any  # a PyTree of float32 arrays

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
    "leaky_relu": jax.nn.leaky_relu,
    "relu": jax.nn.relu,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "tanh": jnp.tanh,
}
ARCHITECTURES = ("mlp", "cnn", "affine")
_SMALLEST_FOR_CNN = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class VictimConfig:
    """Architecture and initialisation of a victim.

    Attributes:
      architecture: "mlp"; "cnn" (Table VI); "affine" (no hidden layer).
      widths: hidden widths of the MLP; (10,) is Table V.
      activation: a name in `ACTIVATIONS`; Table V has ELU.
      initialiser: "lecun_normal" (truncated, exactly Haiku's default), "he_normal" or
        "glorot_uniform". Biases start at zero.
    """

    architecture: str = "mlp"
    widths: tuple[int, ...] = (10,)
    activation: str = "elu"
    initialiser: str = "lecun_normal"

    def __post_init__(self) -> None:
        checks.choice("victim.architecture", self.architecture, ARCHITECTURES)
        checks.choice("victim.activation", self.activation, ACTIVATIONS)
        checks.choice("victim.initialiser", self.initialiser, _INITIALISERS)
        for width in self.widths:
            checks.at_least("victim.widths", width, 1)


@dataclasses.dataclass(frozen=True)
class Slice:
    """Where one array of the parameters lies in theta: `theta[start:stop]`."""

    name: str
    start: int
    stop: int
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
    """

    init: Callable[[Array], Params]
    apply: Callable[[Params, ArrayLike], Array]
    image_shape: tuple[int, ...]
    num_classes: int
    layout: tuple[Slice, ...]
    _treedef: Any = dataclasses.field(repr=False)

    @property
    def num_params(self) -> int:
        """Length of theta."""
        return self.layout[-1].stop

    def flatten(self, params: Params) -> Float32[Array, "params"]:
        """Theta: all parameters as one vector, in the order of `layout`."""
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(params)])

    def unflatten(self, weights: Float32[Array, "params"]) -> Params:
        """The inverse of `flatten`.

        Raises: ValueError: `weights` has another length than theta.
        """
        if weights.shape != (self.num_params,):
            raise ValueError(
                f"Expected weights of shape ({self.num_params},), got {weights.shape}."
            )
        leaves = [weights[s.start : s.stop].reshape(s.shape) for s in self.layout]
        return jax.tree.unflatten(self._treedef, leaves)


def build(
    config: VictimConfig, *, image_shape: tuple[int, ...], num_classes: int
) -> Victim:
    """The victim of a configuration, for images of `image_shape`.

    On MNIST the default has 7,960 parameters; on CIFAR-10 "cnn" has 55,098 (Table V).

    Raises: ValueError: images too small for the CNN's two convolutions.
    """
    if config.architecture == "cnn" and min(image_shape[:2]) < _SMALLEST_FOR_CNN:
        raise ValueError(
            f"Expected images of at least {_SMALLEST_FOR_CNN} x {_SMALLEST_FOR_CNN} for"
            f" victim.architecture='cnn', got {image_shape}. Use 'mlp'."
        )
    activation = ACTIVATIONS[config.activation]
    w_init = _INITIALISERS[config.initialiser]
    widths = () if config.architecture == "affine" else config.widths

    def mlp(images: Array) -> Array:
        hidden = images.reshape(len(images), -1).T
        for i, width in enumerate(widths):
            hidden = activation(_Dense(width, w_init, name=f"hidden_{i}")(hidden))
        return _Dense(num_classes, w_init, name="output")(hidden).T

    def cnn(images: Array) -> Array:
        for i, (channels, stride) in enumerate(((16, 2), (32, 1))):
            images = hk.Conv2D(
                channels,
                kernel_shape=4,
                stride=stride,
                padding="VALID",
                w_init=w_init(math.prod((4, 4, images.shape[-1]))),
                name=f"conv_{i}",
            )(images)
            images = activation(images)
        hidden = images.reshape(len(images), -1).T
        return _Dense(num_classes, w_init, name="output")(hidden).T

    return from_haiku(
        cnn if config.architecture == "cnn" else mlp,
        image_shape=image_shape,
        num_classes=num_classes,
    )


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
    images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)

    def init(key: Array) -> Params:
        return transformed.init(key, jnp.zeros(images.shape, images.dtype))

    shapes = jax.eval_shape(init, jax.random.key(0))
    logits = jax.eval_shape(transformed.apply, shapes, images)
    if logits.shape != (1, num_classes):
        raise ValueError(
            f"Expected the network to give logits of shape (examples, {num_classes}),"
            f" got (examples, {', '.join(map(str, logits.shape[1:]))})."
        )
    paths, treedef = jax.tree_util.tree_flatten_with_path(shapes)
    layout, start = [], 0
    for path, leaf in paths:
        name = "/".join(entry.key for entry in path)
        layout.append(Slice(name, start, start + leaf.size, tuple(leaf.shape)))
        start += leaf.size
    return Victim(
        init=init,
        apply=lambda params, images: transformed.apply(params, jnp.asarray(images)),
        image_shape=tuple(image_shape),
        num_classes=num_classes,
        layout=tuple(layout),
        _treedef=treedef,
    )


def accuracy(
    victim: Victim, params: Params, images: ArrayLike, labels: ArrayLike
) -> float:
    """Share of `images` that the victim puts into their class."""
    predicted = jnp.argmax(victim.apply(params, images), axis=-1)
    return float(jnp.mean(predicted == labels))


class _Dense(hk.Module):
    """A dense layer on (features, examples); weights (in, out) as in hk.Linear."""

    def __init__(
        self,
        width: int,
        w_init: Callable[[int], hk.initializers.Initializer],
        name: str,
    ) -> None:
        super().__init__(name=name)
        self.width, self.w_init = width, w_init

    def __call__(self, inputs: Array) -> Array:
        fan_in = inputs.shape[0]
        shape = (fan_in, self.width)
        w = hk.get_parameter("w", shape, inputs.dtype, self.w_init(fan_in))
        b = hk.get_parameter("b", (self.width,), inputs.dtype, jnp.zeros)
        return w.T @ inputs + b[:, None]


# Each takes the fan-in, as hk.Linear and hk.ConvND count it.
_INITIALISERS: dict[str, Callable[[int], hk.initializers.Initializer]] = {
    "lecun_normal": lambda fan_in: hk.initializers.TruncatedNormal(
        1 / math.sqrt(fan_in)
    ),
    "he_normal": lambda fan_in: hk.initializers.VarianceScaling(
        2.0, "fan_in", "truncated_normal"
    ),
    "glorot_uniform": lambda fan_in: hk.initializers.VarianceScaling(
        1.0, "fan_avg", "uniform"
    ),
}
