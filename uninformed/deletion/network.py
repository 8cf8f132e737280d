"""One hidden layer of tanh, trained by gradient descent on all rows; in float64."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Weights = Float[np.ndarray, " params"]


@dataclasses.dataclass(frozen=True)
class Network:
    """theta is both layers as one vector; each layer's last row are its biases.

    Attributes:
      inputs: without the column of ones, outputs: of the last layer.
      width: of the hidden layer.
      classes: softmax cross-entropy; else half the squared error.
      decay: lambda, beside the sum over rows.
      steps, rate: of gradient descent with momentum 0.9 on the mean loss.
    """

    inputs: int
    outputs: int
    width: int
    classes: bool
    decay: float
    steps: int
    rate: float

    @property
    def first(self) -> int:
        """Parameters of the first layer."""
        return (self.inputs + 1) * self.width

    def initial(self, seed: int) -> Weights:
        """A draw of the initialisation."""
        generator = np.random.default_rng(seed)
        first = generator.normal(size=(self.inputs + 1, self.width))
        second = generator.normal(size=(self.width + 1, self.outputs))
        first[-1], second[-1] = 0.0, 0.0
        scales = np.sqrt(self.inputs), np.sqrt(self.width)
        return np.concatenate(
            [(first / scales[0]).ravel(), (second / scales[1]).ravel()]
        )

    def fit(self, start: Weights, x: np.ndarray, y: np.ndarray) -> Weights:
        """Trained from a start."""
        with jax.enable_x64(True):
            return np.asarray(_trained(self, jnp.asarray(start), x, y))

    def gradient(self, theta: Weights, x: np.ndarray, y: np.ndarray) -> Weights:
        """Sum over rows, without the decay."""
        with jax.enable_x64(True):
            return np.asarray(_slope(self, jnp.asarray(theta), x, y))

    def curved(
        self, theta: Weights, x: np.ndarray, y: np.ndarray, v: Weights
    ) -> Weights:
        """The Hessian of the rows' losses, without the decay, times v."""
        with jax.enable_x64(True):
            return np.asarray(_curved(self, jnp.asarray(theta), x, y, jnp.asarray(v)))

    def outputs_of(self, theta: Weights, x: np.ndarray) -> np.ndarray:
        """(rows, outputs)."""
        with jax.enable_x64(True):
            return np.asarray(_outputs(self, jnp.asarray(theta), jnp.asarray(x)))


def _outputs(network: Network, theta: Array, x: Array) -> Array:
    first = theta[: network.first].reshape(network.inputs + 1, network.width)
    second = theta[network.first :].reshape(network.width + 1, network.outputs)
    hidden = jnp.tanh(x @ first[:-1] + first[-1][None])
    return hidden @ second[:-1] + second[-1][None]


def _loss(network: Network, theta: Array, x: Array, y: Array) -> Array:
    outputs = _outputs(network, theta, x)
    if network.classes:
        return -(jax.nn.log_softmax(outputs) * y).sum()
    return 0.5 * ((outputs - y) ** 2).sum()


@functools.partial(jax.jit, static_argnums=0)
def _slope(network: Network, theta: Array, x: Array, y: Array) -> Array:
    return jax.grad(_loss, argnums=1)(network, theta, x, y)


@functools.partial(jax.jit, static_argnums=0)
def _curved(network: Network, theta: Array, x: Array, y: Array, v: Array) -> Array:
    slope = functools.partial(jax.grad(_loss, argnums=1), network)
    return jax.jvp(lambda t: slope(t, x, y), (theta,), (v,))[1]


@functools.partial(jax.jit, static_argnums=0)
def _trained(network: Network, theta: Array, x: Array, y: Array) -> Array:
    def step(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        theta, speed = state
        slope = jax.grad(_loss, argnums=1)(network, theta, x, y)
        slope = (slope + network.decay * theta) / len(x)
        speed = 0.9 * speed - network.rate * slope
        return theta + speed, speed

    return jax.lax.fori_loop(0, network.steps, step, (theta, jnp.zeros_like(theta)))[0]
