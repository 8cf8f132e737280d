"""Compute the points that a first layer gives to whoever knows which units are active.

`scoring` compares the attack with them. If they are much better than an attack's
result, the attack failed to find the patterns; if they are poor too, least squares
can't separate the points even with the true patterns. Near a KKT point the first layer
of three, its biases as the weights of one more input, is

    sum_i lambda_i (x_i, 1) a_i^T,    a_i = D_i W_2 D'_i w_3 y_i,

where D_i, D'_i are the patterns: which units are active at x_i. An attack has to find
x, lambda and the patterns together. Given the true patterns, the a_i are known, and the
rest is linear: least squares for lambda_i (x_i, 1), whose last coordinate is lambda_i.
Points of a class have nearly the same a_i; only differences of a_i separate points.

This is no bound, despite its name: least squares have no prior on images, and an attack
with one may read more. The patterns are those of the training points, so only
evaluations can use it.

Checked: tests/uninformed/kkt/test_ceiling.py (a planted first layer; a trained one).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from uninformed.homogeneous import DenseLayers, Layer
from uninformed.kkt import stationarity

# Slope at which a sigmoid is a step, except at sums that are 0 in float32.
_STEP = 1e12


def from_patterns(
    network: DenseLayers,
    points: Float[Array, "points inputs"],
    directions: Float[Array, "points outputs"],
) -> Float[np.ndarray, "points inputs"]:
    """Estimate the training points from the first layer and their true patterns.

    Args:
      points: training points, as the network sees them; used for their patterns only.
      directions: the directions that multipliers scale, see `kkt.directions`.
    Returns: an estimate of each x_i; of lambda_i x_i without biases in the first layer.
    """
    alpha = jnp.full(len(network) - 1, _STEP, points.dtype)
    at = jax.jit(stationarity.passes)(network, points, directions, alpha)
    return least_squares(network[0], np.asarray(at.back[0]))


def least_squares(
    layer: Layer, back: Float[np.ndarray, "points units"]
) -> Float[np.ndarray, "points inputs"]:
    """Solve layer = sum of (x_i, 1) a_i^T for the x_i; `back` has the a_i."""
    back, weights = back.astype(np.float64), np.asarray(layer.w, np.float64).T
    if layer.b is None:
        return np.linalg.lstsq(back.T, weights, rcond=None)[0]
    with_biases = np.column_stack([weights, np.asarray(layer.b, np.float64)])
    solution = np.linalg.lstsq(back.T, with_biases, rcond=None)[0]
    multipliers, tiny = solution[:, -1:], np.finfo(float).tiny
    return solution[:, :-1] / np.where(np.abs(multipliers) < tiny, tiny, multipliers)
