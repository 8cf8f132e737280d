"""The KKT attack's residual: weights theta minus a sum of gradients at candidates.

    | theta - sum_i <c_i, grad Phi(x_i)> |^2, layer by layer

at points x_i of the network Phi, with coefficients c_i (outputs,). Near a KKT point it
is small at the training points, so it is a term of the attack's `loss`, and `scoring`
evaluates it at the training points themselves. ReLU's derivative, a step, is replaced
by a sigmoid of slope alpha, so that the sum has derivatives with respect to x. If
training has placed kinks on the data, a value between 0 and 1 is also what the KKT
conditions of ReLU networks (Clarke's) ask for.

Two functions compute the same number. `plain` forms the sum; `gram` multiplies out,

    |W|^2 - 2 sum_i z_i . d_i + sum_ij (a_i . a_j + 1) (d_i . d_j),

(a inputs of the layer, z its sums, d what is propagated back to them, 1 for biases),
which with m points, n inputs and h units costs m^2 (n + h) instead of two times m n h.

Source: Haim et al. 2022, equation (6) and Appendix B (sigmoid in the backward pass).
Checked: tests/uninformed/kkt/test_stationarity.py (autodiff; both ways to 1e-10).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jaxtyping import Array, Float

from uninformed import homogeneous
from uninformed.homogeneous import DenseLayers

# Eigenvalues of the Gram matrix below this share of the largest are rounding; the
# matrix is summed in float64 from products of float32.
_RANK = 1e-10


@jax.custom_jvp
def soft_relu(z: Array, alpha: Float[Array, ""]) -> Array:
    """Return max(z, 0), with derivative sigmoid(alpha z); alpha is a constant."""
    del alpha
    return jnp.maximum(z, 0)


@soft_relu.defjvp
def _soft_relu_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    z, alpha = primals
    return soft_relu(z, alpha), tangents[0] * jax.nn.sigmoid(alpha * z)


class Pass(NamedTuple):
    """One forward and one backward pass, a list entry for each layer.

    `inputs` are a, (points, inputs of the layer), `sums` z before its ReLU, (points,
    units); the last are the outputs. `back` are d, what is propagated back to `sums`.
    """

    inputs: list[Array]
    sums: list[Array]
    back: list[Array]


def passes(
    network: DenseLayers,
    points: Float[Array, "points inputs"],
    coefficients: Float[Array, "points outputs"],
    alpha: Float[Array, " hidden"],
) -> Pass:
    """Make both passes, with one slope alpha of the sigmoid per hidden layer."""
    # Forward, by ReLUs whose derivative is a sigmoid.
    inputs, sums = [points], []
    for number, layer in enumerate(network):
        sums.append(homogeneous.affine(layer, inputs[-1]))
        if number < len(network) - 1:
            inputs.append(soft_relu(sums[-1], alpha[number]))
    # Backward: coefficients through the layers' weights and the same sigmoids.
    back = [coefficients]
    for number in range(len(network) - 1, 0, -1):
        mask = jax.nn.sigmoid(alpha[number - 1] * sums[number - 1])
        back.insert(0, (back[0] @ network[number].w.T) * mask)
    return Pass(inputs, sums, back)


def plain(network: DenseLayers, at: Pass) -> Float[Array, " layers"]:
    """Compute each layer's squared residual, weights and biases together."""
    residuals = []
    for layer, inputs, back in zip(network, at.inputs, at.back, strict=True):
        residual = jnp.sum((layer.w - inputs.T @ back) ** 2)
        if layer.b is not None:
            residual += jnp.sum((layer.b - back.sum(axis=0)) ** 2)
        residuals.append(residual)
    return jnp.stack(residuals)


def gram(network: DenseLayers, at: Pass) -> Float[Array, " layers"]:
    """Compute the same as `plain` from inner products of the points."""
    residuals = []
    for layer, inputs, sums, back in zip(network, *at, strict=True):
        squared = jnp.sum(layer.w**2)
        if layer.b is not None:
            squared += jnp.sum(layer.b**2)
        inner = jnp.sum(_inner(layer, inputs) * (back @ back.T))
        residuals.append(squared - 2 * jnp.sum(sums * back) + inner)
    return jnp.stack(residuals)


def in_units(
    network: DenseLayers, at: Pass, units: Float[Array, " inputs"]
) -> tuple[DenseLayers, Pass]:
    """Return network and pass with the first layer's inputs in other units.

    The squared residual of a row of its weights then counts by the square of that
    input's unit; biases, and all other layers, count as before.
    """
    first, *rest = network
    scaled = first._replace(w=units[:, None] * first.w)
    inputs = [at.inputs[0] * units[None], *at.inputs[1:]]
    sums = [homogeneous.affine(scaled, inputs[0]), *at.sums[1:]]
    return (scaled, *rest), Pass(inputs, sums, at.back)


def _inner(layer: homogeneous.Layer, inputs: Any) -> Any:
    """Compute inner products of a layer's inputs, the constant of biases included."""
    return inputs @ inputs.T + (0 if layer.b is None else 1)


def best_multipliers(
    network: DenseLayers,
    points: Float[Array, "points inputs"],
    directions: Float[Array, "points outputs"],
    alpha: Float[Array, " hidden"],
    signed: bool = False,
) -> Float[np.ndarray, " points"]:
    """Fit the multipliers l of least residual, non-negative unless `signed`.

    The coefficients are l_i times the directions: y_i for one output, e_y - e_rival for
    several. The problem in the m x m Gram matrix is solved by active sets (scipy).
    """
    at = jax.jit(passes)(network, points, directions, alpha)
    # The normal equations: inner products of the points' gradients with each other, and
    # with theta, summed over layers.
    inner = np.zeros((len(points), len(points)))
    towards = np.zeros(len(points))
    for layer, *arrays in zip(network, *at, strict=True):
        inputs, sums, back = (np.asarray(array, np.float64) for array in arrays)
        inner += _inner(layer, inputs) * (back @ back.T)
        towards += np.sum(sums * back, axis=1)
    # As least squares: the square root of these, without directions that are rounding.
    spectrum, rotation = np.linalg.eigh(inner)
    kept = spectrum > _RANK * spectrum[-1]
    root = np.sqrt(spectrum[kept])
    factor = (rotation[:, kept] * root[None]).T
    goal = (rotation[:, kept].T @ towards) / root
    if signed:
        return np.linalg.lstsq(factor, goal, rcond=None)[0]
    return scipy.optimize.nnls(factor, goal, maxiter=100 * len(points))[0]


def typical_sums(
    network: DenseLayers, points: Float[Array, "points inputs"]
) -> Float[Array, " hidden"]:
    """Return the root mean square of each hidden layer's sums: the scale of alpha."""
    scales = []
    for layer in network[:-1]:
        sums = homogeneous.affine(layer, points)
        scales.append(jnp.sqrt(jnp.mean(sums**2)))
        points = jax.nn.relu(sums)
    return jnp.stack(scales)
