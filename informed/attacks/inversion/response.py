"""Derivatives of training on many points, by how these answer a small change.

One target among thousands moves the weights little. So around training on D_- alone,
which ends at theta_t after t steps, the gradient of D_- is linear in what the target
has changed:

    g(theta_t + delta) = g(theta_t) + H_t delta

H_t is made once for D_-, in the first directions of its images; then one target after
the other is trained against it, itself without any approximation, and a Jacobian takes
less than a second (MNIST at a fixed set of 10,000, rank 100: 0.24 s where derivatives
of the training itself take 10; H_t took 15). What is neglected is of second order in
the target's share of the loss; and, as in `span`, how images beyond their first
directions answer.
"""

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

_FEWEST = 4000  # known points; with fewer the training itself is differentiated
_BYTES = 1 << 30  # of all H_t
_GROUP = 1000  # known points whose part of H_t is made at once


def pays(num_fixed: int, directions: int, others: int, steps: int) -> bool:
    """Whether H_t is worth making, and fits.

    Args:
      num_fixed: size of D_-.
      directions: of the first layer's weights, rank times units.
      others: numbers in all other parameters.
      steps: of training.
    """
    size = steps * 4 * (directions + others) ** 2
    return num_fixed >= _FEWEST and size <= _BYTES


class Trajectory(NamedTuple):
    """Training on D_- alone, the loss divided by n + 1; before each of its steps.

    Attributes:
      scale: (steps,), c: what decay leaves of W_0.
      weights: (steps, units, pixels), W^T of the first layer.
      rest: (steps, others), all other parameters, flat.
    """

    scale: Array
    weights: Array
    rest: Array


class Target(NamedTuple):
    """What a target's training depends on, or a direction of it.

    Attributes:
      lead: (rank,), the image in the first directions.
      start: (units,), W_0^T z.
      square: (), z^T z.
    """

    lead: Any
    start: Any
    square: Any


class Moved(NamedTuple):
    """What the target has changed.

    Attributes:
      fixed: (units, rank), X^T A, transposed, in the first directions.
      target: (units,), a of W = c W_0 + X^T A + z a^T.
      rest: (others,), flat.
    """

    fixed: Array
    target: Array
    rest: Array


class Response:
    """How D_- answers."""

    def __init__(
        self,
        first: FirstLayer,
        optimise: optax.GradientTransformation,
        *,
        epochs: int,
        w: Array,
        rest: Params,
        images: Array,
        labels: Array,
        lead: np.ndarray,
    ) -> None:
        """Train once, and take H_t at every step.

        Args:
          first: the victim's first layer.
          optimise: linear in gradient and parameters.
          epochs: steps of training.
          w, rest: W_0 (pixels, units), and all other initial parameters.
          images, labels: (fixed, pixels), (fixed,).
          lead: (rank, pixels), the first directions, orthonormal.
        """
        flat, unravel = ravel_pytree(rest)
        devices = jax.local_device_count()
        count = len(images) + 1

        def slopes(
            flat: Array, outputs: Array, labels: Array, weights: Any = 1
        ) -> tuple[Array, Array]:
            def loss(flat: Array, outputs: Array) -> Array:
                each = cross_entropy(first.after(unravel(flat), outputs), labels)
                return (weights * each).sum() / count

            return jax.grad(loss, argnums=(0, 1))(flat, outputs)

        def path(w: Array, flat: Array, images: Array, labels: Array) -> Trajectory:
            def step(state: tuple, _: None) -> tuple[tuple, Trajectory]:
                here, optimiser_state = state
                outputs = here.weights @ images.T
                of_rest, of_outputs = slopes(here.rest, outputs, labels)
                gradient = Trajectory(
                    jnp.zeros_like(here.scale), of_outputs @ images, of_rest
                )
                change, optimiser_state = optimise.update(
                    gradient, optimiser_state, here
                )
                return (optax.apply_updates(here, change), optimiser_state), here

            start = Trajectory(jnp.ones((), w.dtype), w.T, flat)
            with jax.default_matmul_precision("highest"):
                state = (start, optimise.init(start))
                return jax.lax.scan(step, state, length=epochs)[1]

        def curvatures(groups: tuple, trajectory: Trajectory) -> Array:
            def at(here: Trajectory) -> Array:
                def of_group(total: Array, group: tuple) -> tuple[Array, None]:
                    images, thin, labels, weights = group
                    part = _curvature(
                        lambda flat, outputs: slopes(flat, outputs, labels, weights),
                        here.rest,
                        here.weights @ images.T,
                        thin,
                    )
                    return total + part, None

                size = here.weights.shape[0] * len(lead) + len(here.rest)
                none = jnp.zeros((size, size), here.rest.dtype)
                return jax.lax.scan(of_group, none, groups)[0]

            with jax.default_matmul_precision("highest"):
                return jax.lax.map(at, trajectory)

        def columns(
            shared: tuple, target: Target, label: Array, tangents: Target
        ) -> tuple[Moved, Moved]:
            trajectory, hessians, leading, outputs = shared

            def trained(moving: Target) -> Moved:
                away = jax.tree.map(jnp.subtract, moving, target)

                def step(state: tuple, now: tuple) -> tuple[tuple, None]:
                    moved, optimiser_state = state
                    here, hessian, leading, output = now
                    output = (
                        output
                        + here.scale * away.start
                        + leading @ away.lead
                        + moved.fixed @ moving.lead
                        + moved.target * moving.square
                    )
                    of_rest, of_output = slopes(
                        here.rest + moved.rest, output[:, None], label[None]
                    )
                    weights = moved.fixed + jnp.outer(moved.target, moving.lead)
                    whole = jnp.concatenate([weights.ravel(), moved.rest])
                    answer = hessian @ whole
                    gradient = Moved(
                        answer[: weights.size].reshape(weights.shape),
                        of_output[:, 0],
                        answer[weights.size :] + of_rest,
                    )
                    change, optimiser_state = optimise.update(
                        gradient, optimiser_state, moved
                    )
                    moved = optax.apply_updates(moved, change)
                    return (moved, optimiser_state), None

                nothing = Moved(
                    jnp.zeros(leading.shape[1:], leading.dtype),
                    jnp.zeros_like(target.start),
                    jnp.zeros(trajectory.rest.shape[1:], leading.dtype),
                )
                state = (nothing, optimise.init(nothing))
                every = (trajectory, hessians, leading, outputs)
                return jax.lax.scan(step, state, every)[0][0]

            with jax.default_matmul_precision("highest"):
                return jax.vmap(
                    lambda tangent: jax.jvp(trained, (target,), (tangent,)),
                    out_axes=(None, 0),
                )(tangents)

        self._lead = jnp.asarray(lead, w.dtype)
        self._w, self._unravel = w, unravel
        trajectory = jax.jit(path)(w, flat, images, labels)
        # As many steps on every device.
        steps = np.minimum(np.arange(-(-epochs // devices) * devices), epochs - 1)
        with jax.default_matmul_precision("highest"):
            thin = images @ self._lead.T
        ones = jnp.ones(len(images), w.dtype)
        groups = [_in_groups(part) for part in (images, thin, labels, ones)]
        hessians = sharded(curvatures, (EVERYWHERE, BY_ROW), BY_ROW)(
            everywhere(tuple(groups)),
            jax.tree.map(lambda part: part[steps], trajectory),
        )
        begun = trajectory.scale[:, None, None] * w.T[None]
        with jax.default_matmul_precision("highest"):
            leading = (trajectory.weights - begun) @ self._lead.T
        self._weights = trajectory.weights
        self._shared = everywhere(
            (trajectory._replace(weights=()), hessians[:epochs], leading)
        )
        self._columns = sharded(
            columns, (EVERYWHERE,) * 3 + (BY_ROW,), (EVERYWHERE, BY_ROW)
        )

    def columns(
        self, image: Array, label: Array, tangents: Target
    ) -> tuple[np.ndarray, Moved]:
        """Derivatives of what the target changes.

        Args:
          image: (pixels,), z.
          label: ().
          tangents: directions, (tangents, ...), as many on every device.
        Returns: a (units,); derivatives of all, (tangents, ...).
        """
        with jax.default_matmul_precision("highest"):
            target = Target(self._lead @ image, self._w.T @ image, image @ image)
            outputs = self._weights @ image
        shared = (*self._shared, outputs)
        value, slopes = self._columns(shared, target, label, tangents)
        return np.asarray(value.target), jax.tree.map(np.asarray, slopes)

    def others(self, flat: Any) -> Params:
        """(tangents, others) -> (tangents, ...) of all other parameters."""
        return jax.vmap(self._unravel)(flat)


def _in_groups(array: Array) -> Array:
    """(groups, size, ...), filled up with zeros."""
    widths = [(0, -len(array) % _GROUP)] + [(0, 0)] * (array.ndim - 1)
    return jnp.pad(array, widths).reshape(-1, _GROUP, *array.shape[1:])


def _curvature(
    slopes: Callable[[Array, Array], tuple[Array, Array]],
    flat: Array,
    outputs: Array,
    thin: Array,
) -> Array:
    """H at one step: (rank x units + others, the same).

    Args:
      slopes: (other parameters, outputs) -> gradients with respect to both.
      flat: (others,), all other parameters.
      outputs: (units, fixed), of the first layer.
      thin: (fixed, rank), images in the first directions.
    """
    units, rank = len(outputs), thin.shape[1]

    def along_outputs(direction: Array) -> Array:
        tangent = jnp.broadcast_to(direction[:, None], outputs.shape)
        return jax.jvp(lambda o: slopes(flat, o)[1], (outputs,), (tangent,))[1]

    def along_others(direction: Array) -> tuple[Array, Array]:
        return jax.jvp(lambda f: slopes(f, outputs), (flat,), (direction,))[1]

    # Each example's outputs matter to its own loss alone.
    by_unit = jax.vmap(along_outputs)(jnp.eye(units, dtype=thin.dtype))
    others, mixed = jax.vmap(along_others)(jnp.eye(len(flat), dtype=thin.dtype))
    blocks = jnp.zeros((units, rank, units, rank), thin.dtype)
    for unit in range(units):
        # Of units from this one on; the others follow by symmetry.
        weighted = by_unit[unit, unit:, None, :] * thin.T[None]
        part = (weighted.reshape(-1, len(thin)) @ thin).reshape(-1, rank, rank)
        blocks = blocks.at[unit, :, unit:].set(part.transpose(1, 0, 2))
        blocks = blocks.at[unit:, :, unit].set(part)
    size = units * rank
    corner = (mixed @ thin).reshape(len(flat), size)
    return jnp.block([[blocks.reshape(size, size), corner.T], [corner, others]])
