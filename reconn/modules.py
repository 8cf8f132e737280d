"""Build reconstructor networks, the paper's or a user's, and a discriminator.

`network`, `refined`, `reconstructor` and `informed.experiment.feasible` call `build`;
`steps` trains what it returns, and the discriminator if the loss has one.

`build` turns what a user hands to `reconn.Network` into pure functions (`Pure`):

    a Haiku function (inputs, *, training) -> images
    a pair (init, apply): init(key, inputs, training=...) -> params and
        apply(params, key, inputs, training=...) -> images, as `hk.transform` gives it
    a builder: an object with build(layout), which returns one of the two; see
        `reconn.input_layout`. There are `reconn.mlp` (Table V of Balle et al. 2022),
        `reconn.transposed_cnn` (Table VII) and `reconn.residual_cnn`
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jaxtyping import Array

from reconn.enlarging import Enlarging
from reconn.input_layout import InputLayout
from reconn.residual import ResidualCnn
from shadow import checks
from shadow.victims.activations import ACTIVATIONS
from shadow.victims.traces import digest

_UPSAMPLING = 4  # of Table VII: two transposed convolutions of stride 2
_PATCHES = ((64, 2), (128, 2), (256, 2), (512, 1), (1, 1))  # (channels, stride)
_PLATFORMS = ("cpu", "cuda", "tpu")  # for which a user's module is kept


@dataclasses.dataclass(frozen=True)
class Pure:
    """Pure functions of a network.

    Attributes:
      init: key -> params.
      apply: (params, inputs) -> outputs.
      apply_dropout: (params, key, inputs) -> outputs, as in training.
    """

    init: Callable[[Array], Any]
    apply: Callable[[Any, Array], Array]
    apply_dropout: Callable[[Any, Array, Array], Array]

    @classmethod
    def of(cls, module: Any, input_shape: tuple[int, ...]) -> "Pure":
        """Return the pure functions of a Haiku function or a pair, for this input."""
        init, apply = module if isinstance(module, tuple) else hk.transform(module)
        example = jnp.zeros((1, *input_shape))
        return cls(
            init=lambda key: init(key, example, training=False),
            apply=lambda params, inputs: apply(params, None, inputs, training=False),
            apply_dropout=functools.partial(apply, training=True),
        )

    @property
    def shapes(self) -> Any:
        """The parameters' shapes and types."""
        return jax.eval_shape(self.init, jax.random.key(0))


def require(module: Any, method: str, wanted: str) -> None:
    """Raise FieldError unless it is a function, a pair, or has this method."""
    pair = isinstance(module, tuple) and len(module) == 2
    called = not isinstance(module, type)  # reconn.mlp(), not reconn.mlp
    if not (called and (callable(module) or pair or hasattr(module, method))):
        raise checks.FieldError(
            "module", f"Expected {{}} to be {wanted}, got {module!r}."
        )


def build(module: Any, layout: InputLayout) -> Pure:
    """Return the pure functions of a module for an input layout.

    Raises: FieldError: it isn't a module, or returns arrays of another shape.
    """
    if hasattr(module, "build"):
        module = module.build(layout)
    network, image_shape = Pure.of(module, (layout.num_inputs,)), layout.image_shape
    try:
        inputs = jax.ShapeDtypeStruct((2, layout.num_inputs), jnp.float32)
        shape = jax.eval_shape(network.apply, network.shapes, inputs).shape
    except TypeError as error:
        raise checks.FieldError(
            "module",
            "Expected {} to be a Haiku function (inputs, *, training) -> images, or a"
            f" pair (init, apply); calling it failed: {checks.first_line(error)}",
        ) from error
    if shape != (2, *image_shape):
        raise checks.FieldError(
            "module",
            f"Expected {{}} to return images of shape {(2, *image_shape)} for two rows"
            f" of features, got {shape}.",
        )
    return network


def identity(module: Any, layout: InputLayout) -> dict[str, Any] | str:
    """Return what identifies a module in records.

    Name and arguments of our builders; else a hash of its functions' traces.
    """
    for name, builder in BUILDERS.items():
        if type(module) is builder:
            return {name: dataclasses.asdict(module)}
    network, key = build(module, layout), jax.random.key(0)
    params = network.shapes
    inputs = jax.ShapeDtypeStruct((2, layout.num_inputs), jnp.float32)
    traces = [
        digest(network.init, key),
        digest(network.apply, params, inputs),
        digest(network.apply_dropout, params, key, inputs),
    ]

    def summed(params: Any, key: Array, inputs: Array) -> Array:
        return network.apply_dropout(params, key, inputs).sum()

    if "custom_" in str(jax.make_jaxpr(summed)(params, key, inputs)):
        # A derivative that the user defined isn't in the trace of the network.
        slopes = jax.grad(summed, allow_int=True)
        traces.append(digest(slopes, params, key, inputs))
    return checks.fingerprint((*named(params), *traces))


def named(params: Any) -> dict[str, Any]:
    """Return the arrays of a network by name, such as "linear_1/w", in their order."""
    leaves, keystr = jax.tree_util.tree_leaves_with_path(params), jax.tree_util.keystr
    return {keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def filled(network: Pure, arrays: Mapping[str, Any], field: str) -> Any:
    """Return a network's parameters filled with these arrays.

    Raises: FieldError: the arrays, `field`, are of another architecture.
    """
    shapes = {name: leaf.shape for name, leaf in named(network.shapes).items()}
    given = {name: np.shape(array) for name, array in arrays.items()}
    differing = checks.differences(given, shapes)
    if differing:
        raise checks.FieldError(
            field,
            "Expected {} to have the architecture of this reconstructor; it differs in"
            f" {'; '.join(differing)}.",
        )
    leaves = [arrays[name] for name in shapes]
    return jax.tree.unflatten(jax.tree.structure(network.shapes), leaves)


def exported(network: Pure, num_inputs: int) -> bytes:
    """Return the inference of a network as a program for any batch size.

    Raises: FieldError: JAX can't export it.
    """
    leaves, structure = jax.tree.flatten(network.shapes)
    (batch,) = export.symbolic_shape("batch")

    def infer(leaves: list[Array], inputs: Array) -> Array:
        return network.apply(jax.tree.unflatten(structure, leaves), inputs)

    inputs = jax.ShapeDtypeStruct((batch, num_inputs), jnp.float32)
    try:
        program = export.export(jax.jit(infer), platforms=_PLATFORMS)(leaves, inputs)
        return bytes(program.serialize())
    except Exception as error:
        raise checks.FieldError(
            "module",
            "Expected {} to be one that jax.export can keep, for batches of any size on"
            f" {', '.join(_PLATFORMS)} ({checks.first_line(error)}). Train without a"
            " workdir, or change the module.",
        ) from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mlp:
    """The MNIST reconstructor of Table V: dense layers, ending in a sigmoid.

    The table doesn't mention the sigmoid; the authors' notebook has it, and without it
    the error of a reconstruction was 0.0161 instead of 0.0101 when this was designed.

    Attributes:
      widths: units of the hidden layers.
      activation: that of the hidden layers, one of `shadow.victims.activations`.
      input_dropout, dropout: share of the inputs, and of each hidden layer, that is set
        to zero in training, in [0, 1). Not in Table V; where shadow models are few they
        keep the network from overfitting.
    """

    widths: tuple[int, ...] = (1000, 1000)
    activation: str = "relu"
    input_dropout: float = 0.2
    dropout: float = 0.2

    def __post_init__(self) -> None:
        checks.choice("activation", self.activation, ACTIVATIONS)
        checks.within("input_dropout", self.input_dropout, 0, 1)
        checks.within("dropout", self.dropout, 0, 1)

    def build(self, layout: InputLayout) -> Callable[..., Array]:
        """Return the Haiku function (inputs, *, training) -> images."""
        image_shape = layout.image_shape

        def drop(values: Array, rate: float, training: bool) -> Array:
            if not (training and rate):
                return values
            return hk.dropout(hk.next_rng_key(), rate, values)

        def forward(hidden: Array, *, training: bool) -> Array:
            hidden = drop(hidden, self.input_dropout, training)
            for width in self.widths:
                hidden = ACTIVATIONS[self.activation](hk.Linear(width)(hidden))
                hidden = drop(hidden, self.dropout, training)
            images = jax.nn.sigmoid(self.decode(hidden, image_shape))
            return images.reshape(-1, *image_shape)

        return forward

    def decode(self, hidden: Array, image_shape: tuple[int, ...]) -> Array:
        """Return one number per pixel, before the sigmoid."""
        return hk.Linear(math.prod(image_shape))(hidden)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransposedCnn(Mlp):
    """The CIFAR-10 reconstructor of Table VII, ending in a sigmoid.

    Dense layers of `widths`, of which (4096,) is the table's; the last one becomes an
    image of a quarter of the size, 8 x 8 x 64, and is enlarged by two transposed
    convolutions of 5 x 5, stride 2, with 32 and with the image's own channels. On
    55,098 weights it has 225.7 million parameters.
    """

    widths: tuple[int, ...] = (4096,)

    def decode(self, hidden: Array, image_shape: tuple[int, ...]) -> Array:
        """Return images, enlarged four times.

        Raises: FieldError: sides that 4 doesn't divide, or a width that doesn't fit.
        """
        height, width, channels = image_shape
        rows, columns = height // _UPSAMPLING, width // _UPSAMPLING
        if height % _UPSAMPLING or width % _UPSAMPLING:
            raise checks.FieldError(
                "module",
                "{} is transposed_cnn, which makes images whose sides are multiples of"
                f" {_UPSAMPLING}; got {height} x {width}. Use mlp.",
            )
        if not self.widths or self.widths[-1] % (rows * columns):
            raise checks.FieldError(
                "widths",
                f"Expected the last of {{}} to be a multiple of {rows * columns} for"
                f" images of {height} x {width}, got {self.widths}.",
            )
        grid = hidden.reshape(len(hidden), rows, columns, -1)
        grid = ACTIVATIONS[self.activation](Enlarging(32)(grid))
        return Enlarging(channels)(grid)


BUILDERS: dict[str, type[Mlp] | type[ResidualCnn]] = {
    "mlp": Mlp,
    "transposed_cnn": TransposedCnn,
    "residual_cnn": ResidualCnn,
}


def patch_discriminator(image_shape: tuple[int, ...]) -> Pure:
    """Return the PatchGAN discriminator of Table VIII: 4 x 4 convolutions, leaky ReLUs.

    Its outputs are scores (models, rows, columns), one per patch; 1 is real, 0 a guess.
    """

    def forward(images: Array, *, training: bool) -> Array:
        values = 2 * images - 1
        for i, (channels, stride) in enumerate(_PATCHES):
            if i:
                values = jax.nn.leaky_relu(values, 0.2)
            values = hk.Conv2D(channels, 4, stride)(values)
        return values[..., 0]

    return Pure.of(forward, image_shape)
