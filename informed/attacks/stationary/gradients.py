"""Gradients of the penalised loss at released weights theta, and how much is left.

    g(theta) = sum over D_- of grad loss + (n + 1) decay theta

D_- are the n known records. At a stationary point of training on D_- and the target z
this equals -grad loss(z; theta), so the initialisation needn't be known.

If training hasn't converged, the gradient G of all records at its end isn't zero. In
the eigenbasis of the Hessian, E[(v_i . G)^2] = f(lambda_i) is a smooth function: steep
directions converge first. `stationary_attack` learns it from the adversary's own
models, whose z is known, and divides v_i . (g + grad loss(z)) = 0 by its root. All
arrays are float64.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from shadow.data import Examples
from shadow.training import GradientDescent, cross_entropy

# Hessian-vector products per program; affects speed and memory only.
_ROWS = 64
# Smallest number of directions per mean: fewer follow f more closely, more cut noise.
_BIN = 60
# Largest number of such means.
_MOST_BINS = 60
# Smallest f relative to the largest, so that no direction gets unlimited weight.
_FLOOR = 1e-24


class PenalisedGradients:
    """Gradients of the loss of one algorithm on D_-; compiled once for all theta.

    Call it under `jax.enable_x64`. `closed_form` needs a dense first layer, `first`.
    """

    def __init__(self, algorithm: GradientDescent, fixed: Examples) -> None:
        victim = algorithm.victim
        penalty = algorithm.weight_decay * (len(fixed) + 1)
        self._victim, self._penalty, self.first = victim, penalty, victim.first
        self._images = np.asarray(fixed.images, np.float64)
        self._labels = np.asarray(fixed.labels, np.int32)

        def loss(theta: Array, images: Array, labels: Array) -> Array:
            params = victim.unflatten(theta)
            return cross_entropy(victim.apply(params, images), labels).sum()

        def known(theta: Array, images: Array, labels: Array) -> Array:
            return jax.grad(loss)(theta, images, labels) + penalty * theta

        def rows(theta: Array, images: Array, labels: Array, along: Array) -> Array:
            def gradient(at: Array) -> Array:
                return jax.grad(loss)(at, images, labels)

            return jax.vmap(lambda v: jax.jvp(gradient, (theta,), (v,))[1])(along)

        def of_target(theta: Array, image: Array, label: Array) -> Array:
            return jax.grad(loss)(theta, image[None], label[None])

        self._known, self._rows = jax.jit(known), jax.jit(rows)
        self._target = jax.jit(jax.vmap(of_target, in_axes=(None, 0, 0)))
        self._target_slopes = jax.jit(jax.jacfwd(of_target, argnums=1))

    def known(self, theta: Float[np.ndarray, " params"]) -> np.ndarray:
        """Compute the (params,) gradient over D_- with the penalty, g(theta)."""
        return np.asarray(self._known(theta, self._images, self._labels))

    def target(
        self, theta: np.ndarray, images: np.ndarray, labels: np.ndarray
    ) -> Float[np.ndarray, "points params"]:
        """Compute the gradient of the loss of each of several guesses."""
        return np.asarray(self._target(theta, images, labels.astype(np.int32)))

    def slopes(
        self, theta: np.ndarray, image: np.ndarray, label: int
    ) -> Float[np.ndarray, "params pixels"]:
        """Differentiate a guess's gradient with respect to its pixels."""
        slopes = self._target_slopes(theta, image, np.int32(label))
        return np.asarray(slopes).reshape(len(theta), -1)

    def hessian(self, theta: np.ndarray) -> Float[np.ndarray, "params params"]:
        """Compute the Hessian of the loss over D_- with the penalty."""
        count = len(theta)
        hessian = np.empty((count, count))
        for start in range(0, count, _ROWS):
            rows = np.arange(start, start + _ROWS)
            along = (np.arange(count) == rows[:, None]).astype(np.float64)
            part = self._rows(theta, self._images, self._labels, along)
            hessian[start : start + _ROWS] = np.asarray(part)[: count - start]
        hessian = (hessian + hessian.T) / 2
        hessian[np.diag_indices(count)] += self._penalty
        return hessian

    def closed_form(
        self, gradient: Float[np.ndarray, " params"]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Read an example out of its gradient, for networks with a dense first layer.

        dL/dW = x delta^T and dL/db = delta, so each column of dL/dW divided by its
        entry of dL/db is x; this is their least-squares mean. The output's bias
        gradient is softmax - one-hot.

        Returns: x (pixels,); a score per label (classes,), largest for the likeliest.
        """
        assert self.first is not None
        parts = self._victim.unflatten(jnp.asarray(gradient))
        first = parts[self.first.name]
        weights, delta = np.asarray(first["w"]), np.asarray(first["b"])
        x = weights @ delta / max(delta @ delta, np.finfo(float).tiny)
        return x, -np.asarray(parts["output"]["b"])


Models = Float[np.ndarray, "models params"]


@dataclasses.dataclass(frozen=True, eq=False)
class Spread:
    """The function f: log-linear between known curvatures, constant beyond."""

    curvatures: Float[np.ndarray, " k"]  # where f is known, ascending, > 0
    squares: Float[np.ndarray, " k"]  # f there: the mean square of G per direction

    def __call__(self, curvatures: np.ndarray) -> Float[np.ndarray, " params"]:
        """Interpolate f at the given curvatures."""
        at = np.log(np.maximum(curvatures, self.curvatures[0]))
        logs = np.interp(at, np.log(self.curvatures), np.log(self.squares))
        return np.exp(logs)

    @classmethod
    def learned(cls, curvatures: Models, gradients: Models) -> "Spread":
        """Learn f from own models' Hessian eigenvalues, and G in the eigenbases."""
        flat = np.abs(curvatures).ravel()
        flat = np.maximum(flat, 1e-12 * flat.max())
        order = np.argsort(flat)
        bins = max(1, min(_MOST_BINS, len(order) // _BIN))
        parts = np.array_split(order, bins)
        centres = np.array([np.exp(np.log(flat[part]).mean()) for part in parts])
        squares = np.array([(gradients.ravel()[part] ** 2).mean() for part in parts])
        squares = np.maximum(squares, _FLOOR * squares.max())
        squares = np.maximum(squares, np.finfo(float).tiny)
        # Steep directions converge first, so f falls with curvature.
        squares = np.maximum.accumulate(squares[::-1])[::-1]
        centres, kept = np.unique(centres, return_index=True)
        return cls(centres, squares[kept])
