"""Dense ReLU networks, the victims of the KKT attack and of model inversion.

They have L dense layers of ReLUs without biases, or with biases in the first layer
only. Then scaling all parameters by c scales the output by c^L, and gradient flow on a
loss with exponential tails tends, in direction, to a KKT point of margin maximisation,
on which the attack rests. With biases in all hidden layers the network isn't
homogeneous and this result doesn't hold; the attack is tried on such networks too.
`kkt`, `landscape`, `max_margin`, `model_inversion` and `weights_file` use them.

Points here are rows (points, pixels), not images, because the networks are dense.

Source: Haim et al. 2022, Sections 3 and 5; their public code, where the paper is silent
(uniform initialisation of PyTorch, six times smaller in variance than He's).
"""

import dataclasses
import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shadow import checks
from shadow.victims import Victim, from_functions

# Incremented when a change alters results; see `shadow.records`.
REVISION = 1
INITIALISERS = ("torch", "he_normal")
BIASES = ("none", "first", "hidden")


class Layer(NamedTuple):
    """Weights of one dense layer, and its biases, if it has any."""

    w: Float[Array, "inputs units"]
    b: Float[Array, " units"] | None


DenseLayers = tuple[Layer, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class HomogeneousConfig:
    """The architecture and initialisation of a homogeneous network.

    Attributes:
      widths: numbers of units of the hidden layers, of which there is at least one.
      outputs: 1 for two classes or regression, otherwise the number of classes.
      biases: which layers have biases: "none"; "first", the first layer alone;
        "hidden", all but the last, which makes the network no longer homogeneous.
      first_scale: standard deviation of the first layer's initial weights and biases;
        None: that layer uses `initialiser` too.
      initialiser: initialisation of all other layers: "torch", uniform within
        1 / sqrt(inputs) around 0, or "he_normal", of standard deviation
        sqrt(2 / inputs).
    """

    widths: tuple[int, ...] = (1000, 1000)
    outputs: int = 1
    biases: str = "first"
    first_scale: float | None = 1e-4
    initialiser: str = "torch"

    def __post_init__(self) -> None:
        if not self.widths:
            raise checks.FieldError(
                "widths", "Expected {} to name a hidden layer, got ()."
            )
        for width in self.widths:
            checks.at_least("widths", width, 1)
        checks.at_least("outputs", self.outputs, 1)
        checks.choice("biases", self.biases, BIASES)
        checks.choice("initialiser", self.initialiser, INITIALISERS)
        if self.first_scale is not None:
            checks.positive("first_scale", self.first_scale)


def init(config: HomogeneousConfig, inputs: int, key: Array) -> DenseLayers:
    """Draw a network for points (points, inputs); float64 where JAX has it enabled."""
    sizes = (inputs, *config.widths, config.outputs)
    layers = []
    for number, (fan_in, units) in enumerate(itertools.pairwise(sizes)):
        first, last = number == 0, number == len(sizes) - 2
        with_biases = ("first", "hidden") if first else ("hidden",)
        biased = not last and config.biases in with_biases
        w_key, b_key = jax.random.split(jax.random.fold_in(key, number))
        scale = config.first_scale if first else None
        if scale is None and config.initialiser == "he_normal":
            scale = (2 / fan_in) ** 0.5
        w = _draw(w_key, (fan_in, units), scale, fan_in)
        b = _draw(b_key, (units,), scale, fan_in) if biased else None
        layers.append(Layer(w, b))
    return tuple(layers)


def _draw(
    key: Array, shape: tuple[int, ...], scale: float | None, fan_in: int
) -> Array:
    """Draw initial values: normal with `scale`, or as PyTorch does if it is None."""
    if scale is not None:
        return scale * jax.random.normal(key, shape)
    bound = fan_in**-0.5
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def apply(
    network: DenseLayers, points: Float[Array, "points inputs"]
) -> Float[Array, "points outputs"]:
    """Compute the network's outputs at some points."""
    for layer in network[:-1]:
        points = jax.nn.relu(affine(layer, points))
    return affine(network[-1], points)


def affine(layer: Layer, points: Float[Array, "points inputs"]) -> Array:
    """Compute the sums of a layer before its ReLU, (points, units)."""
    sums = points @ layer.w
    return sums if layer.b is None else sums + layer.b[None]


def victim(
    config: HomogeneousConfig,
    image_shape: tuple[int, ...],
    network: DenseLayers | None = None,
) -> Victim:
    """Return the network as a `Victim`, whose weights are released like any other's.

    Its params are `DenseLayers`. Theta holds layer after layer, weights before biases.

    Args:
      network: layers at which every training begins; None: `config` draws them.
        Their architecture counts, of `config` only the number of outputs.
    """
    inputs = math.prod(image_shape)
    return from_functions(
        lambda key: init(config, inputs, key) if network is None else network,
        lambda params, images: apply(
            params, jnp.asarray(images).reshape(len(images), -1)
        ),
        image_shape=image_shape,
        num_classes=config.outputs,
    )


def squared_norm(network: DenseLayers) -> Float[Array, ""]:
    """Compute |theta|^2, the squared norm of all weights and biases."""
    return jnp.stack([jnp.sum(leaf**2) for leaf in jax.tree.leaves(network)]).sum()
