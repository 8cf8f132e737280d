"""Model inversion and first-layer weights: baselines for attacks on weights alone.

THREAT: uninformed: weights, architecture and the range of pixels are known.

`invert` looks for points of extreme output, with a penalty off the range of pixels
(prototypes of the classes), which need not be training points. `first_layer` returns
the units' weights as images. `kkt.scoring` compares KKT attacks with both.

Source: Haim et al. 2022, Section 5.4 and Appendix (model inversion after Fredrikson et
al. 2015).
Checked: tests/uninformed/test_model_inversion.py (extremes of a linear network).
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from shadow import checks
from uninformed import homogeneous
from uninformed import max_margin as margin
from uninformed.homogeneous import DenseLayers

# Standard deviation of pixels in [0, 1] around the mean image. The median of 500 images
# is 0.21 for CIFAR-10, 0.25 for MNIST.
_PIXELS = 0.22
# Initial standard deviation of the points' pixels, and Adam's first rate.
_START, _RATE = 0.5, 1e-2


@dataclasses.dataclass(frozen=True, kw_only=True)
class InversionOfModel:
    """Settings of `invert`, the search for extreme output.

    Attributes:
      count: number of points, in equal shares of the classes.
      steps: number of steps of Adam.
      prior_weight: weight of squared distances from [-1, 1] of pixels minus the mean
        image, in units of the standard deviation of leads at the start.
    """

    count: int = 100
    steps: int = 2000
    prior_weight: float = 10.0

    def __post_init__(self) -> None:
        checks.at_least("count", self.count, 1)
        checks.at_least("steps", self.steps, 1)


def invert(
    config: InversionOfModel, network: DenseLayers, *, key: Array
) -> Float[np.ndarray, "count inputs"]:
    """Find points whose class leads by as much as possible."""
    outputs = network[-1].w.shape[1]
    labels = margin.equal_shares(config.count, max(outputs, 2))
    shape = (config.count, network[0].w.shape[0])
    points = _START * jax.random.normal(key, shape, network[0].w.dtype)
    with jax.default_matmul_precision("highest"):
        return np.asarray(_ascend(config, network, points, labels))


@functools.partial(jax.jit, static_argnames="config")
def _ascend(
    config: InversionOfModel, network: DenseLayers, points: Array, labels: Array
) -> Array:
    """Return the points after all steps of Adam."""

    def leads(points: Array) -> Array:
        return margin.margins(homogeneous.apply(network, points), labels).min(axis=1)

    unit = jnp.std(leads(points)) + jnp.finfo(points.dtype).tiny
    adam = optax.adam(optax.cosine_decay_schedule(_RATE, config.steps))

    def cost(points: Array) -> Array:
        outside = jax.nn.relu(jnp.abs(points) - 1)
        return config.prior_weight * jnp.sum(outside**2) - leads(points).sum() / unit

    def step(carry: tuple, _: Array) -> tuple[tuple, None]:
        points, state = carry
        update, state = adam.update(jax.grad(cost)(points), state)
        return (points + update, state), None

    start = (points, adam.init(points))
    return jax.lax.scan(step, start, jnp.arange(config.steps))[0][0]


def first_layer(network: DenseLayers) -> Float[np.ndarray, "both inputs"]:
    """Return the first layer's weights of every unit as points, and their negatives.

    Weights show an image up to sign and size, so each is scaled to the typical standard
    deviation of an image's pixels.
    """
    weights = np.asarray(network[0].w).T
    sizes = np.maximum(weights.std(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    scaled = _PIXELS * weights / sizes
    return np.concatenate([scaled, -scaled])
