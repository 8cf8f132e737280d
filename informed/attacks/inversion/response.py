"""Fast derivatives of the weights in the target, for inversion of large trainings.

`span_derivatives` uses a `Response` where it `pays`. One target z among thousands of
known points (D_-) moves the trained weights little. So we linearise the gradient of D_-
around training on D_- alone, which is at theta_t after t steps:

    g(theta_t + delta) = g(theta_t) + H_t delta

H_t is computed once for D_-, along the leading (first) directions of its images. Every
target is then trained against this linear *response* of D_-, with its own gradient
exact. A Jacobian of MNIST, with 10,000 known points and rank 100, takes 0.24 s instead
of 10 s by derivatives of the training itself; H_t takes 15 s once. Neglected are terms
of second order in the target's share of the loss and, as in `span_derivatives`, the
response of images beyond their leading directions. W below are the first layer's
weights, W_0 their initial values.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from shadow.parallel import BY_ROW, EVERYWHERE, everywhere, sharded
from shadow.training import cross_entropy
from shadow.victims import FirstLayer, Params

# Smallest number of known points to use H_t; with fewer, the neglected terms are
# larger. MNIST at 1,000: derivatives are wrong by 0.3 (0.1 if training is
# differentiated); one target of 20 needs another start.
_FEWEST = 1000
# Memory for all H_t together, in bytes.
_BYTES = 1 << 30
# Known points whose part of H_t is computed at once; affects memory only.
_GROUP = 1000

_highest = functools.partial(jax.default_matmul_precision, "highest")


def pays(num_fixed: int, directions: int, others: int, steps: int) -> bool:
    """Return whether computing H_t, in `directions` = rank x units, pays and fits."""
    size = steps * 4 * (directions + others) ** 2
    return num_fixed >= _FEWEST and size <= _BYTES


class Trajectory(NamedTuple):
    """Parameters before every step of training on D_- alone, loss divided by n + 1."""

    scale: Array  # (steps,), c: the factor of W_0 that weight decay leaves
    weights: Array  # (steps, units, pixels), W^T of the first layer
    rest: Array  # (steps, others), all other parameters, flat


class Target(NamedTuple):
    """The quantities of a target that training depends on, or a tangent of them."""

    lead: Any  # (rank,), the image in the first directions
    start: Any  # (units,), W_0^T z
    square: Any  # (), z^T z


class Moved(NamedTuple):
    """A target's change of W = c W_0 + X^T A + z a^T and of all other parameters."""

    fixed: Array  # (units, rank), X^T A, transposed, in the first directions
    target: Array  # (units,), a
    rest: Array  # (others,), all other parameters, flat


@dataclasses.dataclass(frozen=True, eq=False)
class Loss:
    """The training loss in the outputs of the first layer and all other parameters."""

    first: FirstLayer
    unravel: Callable[[Array], Params]  # (others,) -> all other parameters
    count: int  # n + 1 training points

    def gradients(
        self, rest: Array, outputs: Array, labels: Array, weights: Any = 1
    ) -> tuple[Array, Array]:
        """Return gradients of the weighted loss in `rest`, flat, and in `outputs`."""

        def loss(rest: Array, outputs: Array) -> Array:
            logits = self.first.after(self.unravel(rest), outputs)
            return (weights * cross_entropy(logits, labels)).sum() / self.count

        return jax.grad(loss, argnums=(0, 1))(rest, outputs)


def trajectory_of(
    loss: Loss,
    optimise: optax.GradientTransformation,
    epochs: int,
    w: Array,
    rest: Array,
    images: Array,
    labels: Array,
) -> Trajectory:
    """Return the path of training on D_-. Arguments as of `Response`, `rest` flat."""

    def step(state: tuple, _: None) -> tuple[tuple, Trajectory]:
        here, optimiser_state = state
        of_rest, of_outputs = loss.gradients(here.rest, here.weights @ images.T, labels)
        gradient = Trajectory(jnp.zeros_like(here.scale), of_outputs @ images, of_rest)
        change, optimiser_state = optimise.update(gradient, optimiser_state, here)
        return (optax.apply_updates(here, change), optimiser_state), here

    start = Trajectory(jnp.ones((), w.dtype), w.T, rest)
    with _highest():
        state = (start, optimise.init(start))
        return jax.lax.scan(step, state, length=epochs)[1]


def hessians_of(loss: Loss, rank: int, groups: tuple, trajectory: Trajectory) -> Array:
    """Return H_t at every step of a trajectory, (steps, size, size); traced.

    `groups` is D_-: images, the same in the first directions, labels, weights of
    losses.
    """

    def at(here: Trajectory) -> Array:
        def of_group(total: Array, group: tuple) -> tuple[Array, None]:
            images, thin, labels, weights = group
            part = curvature(
                lambda rest, outputs: loss.gradients(rest, outputs, labels, weights),
                here.rest,
                here.weights @ images.T,
                thin,
            )
            return total + part, None

        size = here.weights.shape[0] * rank + len(here.rest)
        none = jnp.zeros((size, size), here.rest.dtype)
        return jax.lax.scan(of_group, none, groups)[0]

    with _highest():
        return jax.lax.map(at, trajectory)


def moved_by(
    loss: Loss,
    optimise: optax.GradientTransformation,
    shared: tuple,
    around: Target,
    target: Target,
    label: Array,
) -> Moved:
    """Return a target's change of all parameters, to which D_- responds; traced.

    Args:
      shared: the trajectory without its weights; H_t (steps, size, size); the change
        of W^T by training on D_-, in the first directions (steps, units, rank); the
        first layer's outputs for the image of `around` (steps, units).
      target: moved away from `around` by derivatives.
    """
    trajectory, hessians, leading, outputs = shared
    away = jax.tree.map(jnp.subtract, target, around)

    def step(state: tuple, now: tuple) -> tuple[tuple, None]:
        moved, optimiser_state = state
        here, hessian, leading, output = now
        # The first layer's outputs for the target, including its own changes of W.
        output = (
            output
            + here.scale * away.start
            + leading @ away.lead
            + moved.fixed @ target.lead
            + moved.target * target.square
        )
        of_rest, of_output = loss.gradients(
            here.rest + moved.rest, output[:, None], label[None]
        )
        # The response of D_-: H_t times the change of all parameters.
        weights = moved.fixed + jnp.outer(moved.target, target.lead)
        of_fixed = hessian @ jnp.concatenate([weights.ravel(), moved.rest])
        gradient = Moved(
            of_fixed[: weights.size].reshape(weights.shape),
            of_output[:, 0],
            of_fixed[weights.size :] + of_rest,
        )
        change, optimiser_state = optimise.update(gradient, optimiser_state, moved)
        return (optax.apply_updates(moved, change), optimiser_state), None

    nothing = Moved(
        jnp.zeros(leading.shape[1:], leading.dtype),
        jnp.zeros_like(around.start),
        jnp.zeros(trajectory.rest.shape[1:], leading.dtype),
    )
    state = (nothing, optimise.init(nothing))
    return jax.lax.scan(step, state, (trajectory, hessians, leading, outputs))[0][0]


def columns_of(function: Callable[[Any], Any], at: Any, tangents: Any) -> Any:
    """Return a function's value, and its derivatives along each tangent; traced."""

    def along(tangent: Any) -> Any:
        return jax.jvp(function, (at,), (tangent,))

    return jax.vmap(along, out_axes=(None, 0))(tangents)


class Response:
    """The response of D_- to a small change; see the module's docstring."""

    def __init__(
        self,
        first: FirstLayer,
        optimise: optax.GradientTransformation,
        epochs: int,
        w: Array,
        rest: Params,
        images: Array,
        labels: Array,
        lead: np.ndarray,
    ) -> None:
        """Train once, and take H_t at every step.

        Args:
          optimise: an optimiser that is linear in gradient and parameters.
          w, rest: W_0 (pixels, units), and all other initial parameters.
          images, labels: D_-, (fixed, pixels) and (fixed,).
          lead: (rank, pixels), the first directions, orthonormal.
        """
        flat, self.unravel = ravel_pytree(rest)
        self._lead, self._w = jnp.asarray(lead, w.dtype), w
        loss = Loss(first, self.unravel, len(images) + 1)
        train = functools.partial(trajectory_of, loss, optimise, epochs)
        trajectory = jax.jit(train)(w, flat, images, labels)
        # Pad the steps to the same number on every device.
        devices = jax.local_device_count()
        steps = np.minimum(np.arange(-(-epochs // devices) * devices), epochs - 1)
        with _highest():
            thin = images @ self._lead.T
        ones = jnp.ones(len(images), w.dtype)
        groups = [_in_groups(part) for part in (images, thin, labels, ones)]
        curvatures = functools.partial(hessians_of, loss, len(lead))
        hessians = sharded(curvatures, (EVERYWHERE, BY_ROW), BY_ROW)(
            everywhere(tuple(groups)),
            jax.tree.map(lambda part: part[steps], trajectory),
        )
        begun = trajectory.scale[:, None, None] * w.T[None]
        with _highest():
            leading = (trajectory.weights - begun) @ self._lead.T
        self._weights = trajectory.weights
        self._shared = everywhere(
            (trajectory._replace(weights=()), hessians[:epochs], leading)
        )

        def columns(shared: tuple, at: Target, label: Array, tangents: Target) -> Any:
            def moved(target: Target) -> Moved:
                return moved_by(loss, optimise, shared, at, target, label)

            with _highest():
                return columns_of(moved, at, tangents)

        on_devices = (EVERYWHERE,) * 3 + (BY_ROW,)
        self._columns = sharded(columns, on_devices, (EVERYWHERE, BY_ROW))

    def columns(
        self, image: Array, label: Array, tangents: Target
    ) -> tuple[np.ndarray, Moved]:
        """Return a target's a (units,), and all derivatives (tangents, ...).

        The number of tangents is a multiple of the number of devices.
        """
        with _highest():
            target = Target(self._lead @ image, self._w.T @ image, image @ image)
            outputs = self._weights @ image
        shared = (*self._shared, outputs)
        value, slopes = self._columns(shared, target, label, tangents)
        return np.asarray(value.target), jax.tree.map(np.asarray, slopes)


def _in_groups(array: Array) -> Array:
    """Reshape to (groups, size, ...), padded with zeros."""
    widths = [(0, -len(array) % _GROUP)] + [(0, 0)] * (array.ndim - 1)
    return jnp.pad(array, widths).reshape(-1, _GROUP, *array.shape[1:])


def curvature(
    gradients: Callable[[Array, Array], tuple[Array, Array]],
    rest: Array,
    outputs: Array,
    thin: Array,
) -> Array:
    """Return the Hessian H at one step, a square matrix of size rank x units + others.

    `gradients` are those by `rest` and `outputs` (units, fixed) of the first layer;
    `thin` (fixed, rank) are images in the first directions.
    """
    units, rank = len(outputs), thin.shape[1]

    def along_outputs(direction: Array) -> Array:
        tangent = jnp.broadcast_to(direction[:, None], outputs.shape)
        return jax.jvp(lambda o: gradients(rest, o)[1], (outputs,), (tangent,))[1]

    def along_others(direction: Array) -> tuple[Array, Array]:
        return jax.jvp(lambda r: gradients(r, outputs), (rest,), (direction,))[1]

    # One tangent per unit is enough, since an example's outputs affect only its loss.
    by_unit = jax.vmap(along_outputs)(jnp.eye(units, dtype=thin.dtype))
    others, mixed = jax.vmap(along_others)(jnp.eye(len(rest), dtype=thin.dtype))
    blocks = jnp.zeros((units, rank, units, rank), thin.dtype)
    for unit in range(units):
        # Blocks with this unit and later ones; earlier ones follow by symmetry.
        weighted = by_unit[unit, unit:, None, :] * thin.T[None]
        part = (weighted.reshape(-1, len(thin)) @ thin).reshape(-1, rank, rank)
        blocks = blocks.at[unit, :, unit:].set(part.transpose(1, 0, 2))
        blocks = blocks.at[unit:, :, unit].set(part)
    size = units * rank
    corner = (mixed @ thin).reshape(len(rest), size)
    return jnp.block([[blocks.reshape(size, size), corner.T], [corner, others]])
