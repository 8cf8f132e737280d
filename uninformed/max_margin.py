"""Training homogeneous networks until they are near a KKT point of margin maximisation.

Gradient descent gets there like log(steps). The routes here have the same limits:

fitting       gradient descent on log L instead of L, which is gradient flow at another
              speed (Lyu & Li 2020), with steps of at most `largest_step` |theta|
sphere        then ascent of the soft least margin of theta / |theta|, sharper and
              sharper, with steps that shrink to nothing; the norm is restored so that
              the least margin is 1, and layers end with equal norms
weight_decay  or then, descent of L + lambda / 2 |theta|^2, whose stationary points are
              theta = -1 / (n lambda) sum of dL_i, whatever the loss; switched on after
              fitting, since theta = 0 is a minimum of it too

Gradients of the first layer lie in the span of the points. Where there are fewer points
than inputs the network is therefore trained on their coordinates in an orthonormal
basis, which is the same training to rounding. What the initial weights have outside the
span only shrinks with the norm.

Source: Haim et al. 2022, Section 3; Buzaglo et al. 2023 (weight decay).
Checked: tests/uninformed/test_max_margin.py (training without the span; identities of
KKT points; layer norms conserved).
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Shaped

from shadow import checks
from uninformed import homogeneous
from uninformed.homogeneous import DenseLayers, Layer

LOSSES = ("logistic", "mse")
ROUTES = ("sphere", "weight_decay", "none")
# Grows when the same configuration would give something else; see `shadow.records`.
REVISION = 1
# First and last sharpness of the soft least margin, in units of 1 / least margin: at
# first all points pull, in the end those alone within about a percent of the margin.
_SHARP = (3.0, 300.0)
# From this lead on log softplus(-q) is -q in float32.
_LARGE = 15.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class MarginConfig:
    """How a homogeneous victim is trained.

    Attributes:
      loss: "logistic", which is cross-entropy where the network has several outputs, or
        "mse", to labels -1 and 1.
      fitting_steps: number of steps of full-batch gradient descent at first.
      learning_rate: rate of these steps.
      largest_step: largest length of such a step, in units of |theta|.
      log_loss: whether these steps descend log L rather than L; "mse" always has L.
      route: what comes after fitting: "sphere", "weight_decay" or "none".
      route_steps: number of steps of the route.
      route_rate: rate of its first step, falling to 0: Adam's for "weight_decay", the
        length of a step in units of |theta| for "sphere".
      weight_decay: lambda of the route "weight_decay".
    """

    loss: str = "logistic"
    fitting_steps: int = 30_000
    learning_rate: float = 0.1
    largest_step: float = 1e-3
    log_loss: bool = True
    route: str = "sphere"
    route_steps: int = 100_000
    route_rate: float = 1e-3
    weight_decay: float = 1e-4

    def __post_init__(self) -> None:
        checks.choice("loss", self.loss, LOSSES)
        checks.choice("route", self.route, ROUTES)
        if self.route == "sphere" and self.loss == "mse":
            raise checks.FieldError(
                "route",
                '{} is "sphere", which maximises margins; the loss "mse" has none. Use'
                ' "weight_decay" or "none".',
            )
        for field in ("fitting_steps", "route_steps"):
            checks.at_least(field, getattr(self, field), 0)
        for field in ("learning_rate", "largest_step", "route_rate", "weight_decay"):
            checks.positive(field, getattr(self, field))


class State(NamedTuple):
    """What is trained where points are given as coordinates in their span.

    Attributes:
      network: the network on coordinates.
      outside: scalar; the first layer's initial weights outside the span, times this
        number, are its weights there.
    """

    network: DenseLayers
    outside: Float[Array, ""]


def train(
    config: MarginConfig,
    network: DenseLayers,
    points: Float[np.ndarray, "points inputs"],
    labels: Int[np.ndarray, " points"],
) -> DenseLayers:
    """The network after full-batch training on the points.

    Deterministic. In the precision of `network`.

    Args:
      network: where to begin, as `homogeneous.init` makes it.
      points: training points, (points, inputs).
      labels: 0 or 1 for one output, otherwise the number of the class.
    Raises: ValueError: a label out of range.
    """
    outputs = network[-1].w.shape[1]
    classes = max(outputs, 2)
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"Expected labels in 0 .. {classes - 1} for a network of {outputs} outputs,"
            f" found values from {labels.min()} to {labels.max()}."
        )
    dtype = network[0].w.dtype
    points = np.asarray(points, dtype)
    # Points and first layer as coordinates in the span of the points.
    basis = _basis(points)
    w = np.asarray(network[0].w)
    inside, outside = w, np.zeros_like(w)
    if basis is not None:
        points, inside = points @ basis.T, basis @ w
        outside = w - basis.T @ inside
    state = State(
        network=(Layer(jnp.asarray(inside), network[0].b), *network[1:]),
        outside=jnp.ones((), dtype),
    )
    rest = jnp.asarray(np.sum(outside**2), dtype)
    with jax.default_matmul_precision("highest"):
        end = _train(config, state, rest, jnp.asarray(points), jnp.asarray(labels))
    # And back to weights of all inputs.
    first = end.network[0].w
    if basis is not None:
        first = jnp.asarray(basis.T @ np.asarray(first) + end.outside * outside)
    return (Layer(first, end.network[0].b), *end.network[1:])


def _basis(points: np.ndarray) -> np.ndarray | None:
    """Orthonormal rows that span the points, or None where all inputs are needed."""
    if len(points) >= points.shape[1]:
        return None
    return np.linalg.qr(points.T)[0].T


def margins(
    outputs: Float[Array, "points outputs"], labels: Int[Array, " points"]
) -> Float[Array, "points rivals"]:
    """By how much the right class leads each other one; y Phi(x) for one output."""
    if outputs.shape[1] == 1:
        return outputs * signs(labels)[:, None].astype(outputs.dtype)
    right = jnp.take_along_axis(outputs, labels[:, None], axis=1)
    rivals = jnp.arange(outputs.shape[1])[None] != labels[:, None]
    return jnp.where(rivals, right - outputs, jnp.inf)


def signs(labels: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
    """Labels 0 and 1 as -1 and 1."""
    return 2 * labels - 1


def equal_shares(count: int, classes: int) -> Int[Array, " count"]:
    """Labels of `count` points in equal shares, one class after the other."""
    return jnp.arange(count) * classes // count


def loss(
    kind: str, outputs: Float[Array, "points outputs"], labels: Int[Array, " points"]
) -> Float[Array, ""]:
    """The mean loss, in nats for "logistic"."""
    if kind == "mse":
        wanted = signs(labels)[:, None].astype(outputs.dtype)
        return jnp.mean((outputs - wanted) ** 2)
    return jnp.exp(_log_logistic(outputs, labels))


def _log_logistic(outputs: Array, labels: Array) -> Array:
    """Log of the mean cross-entropy, also where that underflows."""
    leads = margins(outputs, labels)
    soft = -jax.nn.logsumexp(-leads, axis=1)
    near = jnp.minimum(soft, _LARGE)
    log_losses = jnp.where(soft < _LARGE, jnp.log(jax.nn.softplus(-near)), -soft)
    return jax.nn.logsumexp(log_losses) - jnp.log(len(labels)).astype(soft.dtype)


def _train(
    config: MarginConfig, state: State, rest: Array, points: Array, labels: Array
) -> State:
    """Fitting and the route, compiled as one program."""

    def squared_norm(state: State) -> Array:
        return homogeneous.squared_norm(state.network) + rest * state.outside**2

    def objective(state: State) -> Array:
        outputs = homogeneous.apply(state.network, points)
        if config.loss == "logistic" and config.log_loss:
            return _log_logistic(outputs, labels)
        return loss(config.loss, outputs, labels)

    # Fitting: gradient descent with steps of bounded length.
    def fit(state: State, _: Array) -> State:
        slope = jax.grad(objective)(state)
        cap = config.largest_step * jnp.sqrt(squared_norm(state))
        rate = jnp.minimum(config.learning_rate, cap / _length(slope))
        return jax.tree.map(lambda leaf, part: leaf - rate * part, state, slope)

    def normalised(state: State) -> State:
        length = jnp.sqrt(squared_norm(state))
        return jax.tree.map(lambda leaf: leaf / length, state)

    # The sphere: ascent of the soft least margin at norm 1, sharper and sharper.
    def ascend(state: State, number: Array) -> State:
        share = (number / config.route_steps).astype(rest.dtype)
        outputs = homogeneous.apply(state.network, points)
        least = jnp.abs(margins(outputs, labels).min())
        sharp = _SHARP[0] * (_SHARP[1] / _SHARP[0]) ** share / least

        def soft_least(state: State) -> Array:
            leads = margins(homogeneous.apply(state.network, points), labels)
            return -jax.nn.logsumexp(-sharp * leads)

        slope = jax.grad(soft_least)(state)
        rate = config.route_rate * (1 - share) / _length(slope)
        moved = jax.tree.map(lambda leaf, part: leaf + rate * part, state, slope)
        return normalised(moved)

    # Weight decay: Adam on the penalised loss.
    def penalised(state: State) -> Array:
        outputs = homogeneous.apply(state.network, points)
        fitted = loss(config.loss, outputs, labels)
        return fitted + 0.5 * config.weight_decay * squared_norm(state)

    def decay(state: State) -> State:
        schedule = optax.cosine_decay_schedule(config.route_rate, config.route_steps)
        adam = optax.adam(schedule)

        def step(carry: tuple, _: Array) -> tuple[tuple, None]:
            state, moments = carry
            update, moments = adam.update(jax.grad(penalised)(state), moments, state)
            return (optax.apply_updates(state, update), moments), None

        numbers = jnp.arange(config.route_steps)
        return jax.lax.scan(step, (state, adam.init(state)), numbers)[0][0]

    @jax.jit
    def phases(state: State) -> State:
        state = _repeat(fit, state, config.fitting_steps)
        if config.route == "weight_decay":
            return decay(state)
        if config.route == "sphere":
            state = _repeat(ascend, normalised(state), config.route_steps)
            outputs = homogeneous.apply(state.network, points)
            # The norm at which the least margin is 1, by homogeneity of degree L.
            least = jnp.maximum(
                margins(outputs, labels).min(), jnp.finfo(rest.dtype).tiny
            )
            factor = least ** (-1 / len(state.network))
            return jax.tree.map(lambda leaf: factor * leaf, state)
        return state

    return phases(state)


def _repeat(step: Callable[[State, Array], State], state: State, steps: int) -> State:
    """The state after `steps` steps."""
    return jax.lax.scan(
        lambda state, number: (step(state, number), None), state, jnp.arange(steps)
    )[0]


def _length(tree: State) -> Array:
    """Euclidean norm; never 0."""
    squared = homogeneous.squared_norm(tree.network) + tree.outside**2
    return jnp.sqrt(squared) + jnp.finfo(squared.dtype).tiny
