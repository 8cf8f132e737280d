"""Train victims of the KKT attack until they are near a KKT point of max margin.

`kkt.experiment` calls `train`; `kkt` and `model_inversion` also use `margins`. Gradient
descent converges like 1 / log(steps). These phases, of loss L and weights theta, are
faster; the first two have the same limits:

fitting       gradient descent on log L instead of L, which is gradient flow at another
              speed (Lyu & Li 2020), with steps of at most `largest_step` |theta|
sphere        after fitting: ascent of the soft least margin of theta / |theta|, ever
              sharper; at the end the norm is set so that the least margin is 1
weight_decay  or after fitting, since theta = 0 is a minimum too: descent of
              L + lambda / 2 |theta|^2, whose minima are sums of gradients, for any loss

Gradients of the first layer lie in the span of the points. With fewer points than
inputs, training uses their coordinates in an orthonormal basis: the same up to
rounding, except for Adam (`weight_decay`). Weights off the span are only scaled.

Source: Haim et al. 2022, Section 3; Buzaglo et al. 2023 (weight decay).
Checked: tests/uninformed/test_max_margin.py (the same without the basis; KKT points).
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Shaped

from shadow import checks
from uninformed import homogeneous, pieces
from uninformed.homogeneous import DenseLayers, Layer

LOSSES = ("logistic", "mse")
ROUTES = ("sphere", "weight_decay", "none")
# Incremented when a change alters results; see `shadow.records`.
REVISION = 1
# First and last sharpness of the soft least margin, in units of 1 / least margin: at
# first all points count, in the end only those within about a percent of the margin.
_SHARP = (3.0, 300.0)
# The seed of the order of mini-batches.
_SHUFFLES = 0
# For leads q above this, log softplus(-q) is -q in float32.
_LARGE = 15.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class MarginConfig:
    """Settings of the training of a homogeneous victim.

    Attributes:
      loss: "logistic", which is cross-entropy if the network has several outputs, or
        "mse", to labels -1 and 1.
      fitting_steps: number of gradient steps of the first phase.
      learning_rate: rate of these steps.
      largest_step: largest length of such a step, in units of |theta|.
      log_loss: whether these steps descend log L rather than L; "mse" always has L.
      least_loss: loss L at which these steps stop; 0: none.
      batch_size: points in a mini-batch of these steps, shuffled for each epoch; it
        divides the number of points. None: all points.
      route: the phase after fitting: "sphere", "weight_decay" or "none".
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
    least_loss: float = 0.0
    batch_size: int | None = None
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
        checks.at_least("least_loss", self.least_loss, 0)
        if self.batch_size is not None:
            checks.at_least("batch_size", self.batch_size, 1)
        for field in ("learning_rate", "largest_step", "route_rate", "weight_decay"):
            checks.positive(field, getattr(self, field))

    @classmethod
    def published(cls, **changes: Any) -> "MarginConfig":
        """Return the settings of Haim et al. 2022, Section 5: plain descent at 0.01."""
        fields: dict[str, Any] = {
            "fitting_steps": 1_000_000,
            "learning_rate": 0.01,
            # Never reached: steps of this rate are shorter than |theta|.
            "largest_step": 1.0,
            "log_loss": False,
            "route": "none",
        }
        return cls(**fields | changes)


class State(NamedTuple):
    """The network on coordinates in the span of the points.

    The first layer's weights `outside` the span are the initial ones times this number.
    """

    network: DenseLayers
    outside: Float[Array, ""]


def train(
    config: MarginConfig,
    network: DenseLayers,
    points: Float[np.ndarray, "points inputs"],
    labels: Int[np.ndarray, " points"],
    *,
    place: pieces.Place | None = None,
) -> DenseLayers:
    """Return a network trained on the points, deterministically, in its precision.

    Args:
      network: the initial network, as `homogeneous.init` draws it.
      labels: 0 or 1 for one output, otherwise the number of the class.
      place: file for checkpoints of the training; None: no checkpoints.
    Raises:
      ValueError: a label out of range.
      FieldError: "mse" with several outputs; a batch_size that doesn't divide points.
      ConfigurationMismatchError: the checkpoints are of another training.
    """
    outputs = network[-1].w.shape[1]
    if config.loss == "mse" and outputs > 1:
        raise checks.FieldError(
            "loss",
            f'{{}} is "mse", which is of one output; this network has {outputs}. Use'
            ' "logistic".',
        )
    if config.batch_size is not None and len(points) % config.batch_size:
        raise checks.FieldError(
            "batch_size",
            f"{{}} is {config.batch_size}, which doesn't divide {len(points)} points;"
            " use a number that does, or None for full batches.",
        )
    classes = max(outputs, 2)
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"Expected labels in 0 .. {classes - 1} for a network of {outputs} outputs,"
            f" found values from {labels.min()} to {labels.max()}."
        )
    w = np.asarray(network[0].w)
    points = np.asarray(points, w.dtype)
    # Points and first layer as coordinates in the span of the points.
    basis = _basis(points)
    inside, outside = w, np.zeros_like(w)
    if basis is not None:
        points, inside = points @ basis.T, basis @ w
        outside = w - basis.T @ inside
    first = Layer(jnp.asarray(inside), network[0].b)
    state = State((first, *network[1:]), outside=jnp.ones((), w.dtype))
    rest = jnp.asarray(np.sum(outside**2), w.dtype)
    training = _Training(config, rest, jnp.asarray(points), jnp.asarray(labels))
    with jax.default_matmul_precision("highest"):
        end = training.run(state, place)
    if basis is None:
        return end.network
    # Convert back to weights of all inputs.
    w = basis.T @ np.asarray(end.network[0].w) + end.outside * outside
    return (Layer(jnp.asarray(w), end.network[0].b), *end.network[1:])


def _basis(points: np.ndarray) -> np.ndarray | None:
    """Return orthonormal rows that span the points; None: all inputs are needed."""
    needed = len(points) < points.shape[1]
    return np.linalg.qr(points.T)[0].T if needed else None


def margins(
    outputs: Float[Array, "points outputs"], labels: Int[Array, " points"]
) -> Float[Array, "points rivals"]:
    """Return the leads of the right class over the others; y Phi(x) for one output."""
    if outputs.shape[1] == 1:
        return outputs * signs(labels)[:, None].astype(outputs.dtype)
    right = jnp.take_along_axis(outputs, labels[:, None], axis=1)
    rivals = jnp.arange(outputs.shape[1])[None] != labels[:, None]
    return jnp.where(rivals, right - outputs, jnp.inf)


def signs(labels: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
    """Return labels 0 and 1 as -1 and 1."""
    return 2 * labels - 1


def equal_shares(count: int, classes: int) -> Int[Array, " count"]:
    """Return labels of `count` points in equal shares, one class after the other."""
    return jnp.arange(count) * classes // count


def loss(
    kind: str, outputs: Float[Array, "points outputs"], labels: Int[Array, " points"]
) -> Float[Array, ""]:
    """Compute the mean loss, in nats for "logistic"."""
    if kind == "mse":
        targets = signs(labels)[:, None].astype(outputs.dtype)
        return jnp.mean((outputs - targets) ** 2)
    return jnp.exp(_log_logistic(outputs, labels))


def _log_logistic(outputs: Array, labels: Array) -> Array:
    """Compute the log of the mean cross-entropy, even if the mean underflows."""
    leads = margins(outputs, labels)
    soft = -jax.nn.logsumexp(-leads, axis=1)
    near = jnp.minimum(soft, _LARGE)
    log_losses = jnp.where(soft < _LARGE, jnp.log(jax.nn.softplus(-near)), -soft)
    return jax.nn.logsumexp(log_losses) - jnp.log(len(labels)).astype(soft.dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class _Training:
    """The phases of a training, on coordinates of the points.

    `rest` is the squared norm of the first layer's initial weights outside the span.
    """

    config: MarginConfig
    rest: Array
    points: Array
    labels: Array

    def run(self, state: State, place: pieces.Place | None) -> State:
        """Return the state after the fitting phase and the route."""
        config, steps = self.config, self.config.route_steps

        def of(phase: str) -> pieces.Place | None:
            return None if place is None else place.named(phase)

        state = pieces.scan(self.fit, state, config.fitting_steps, of("fitting"))
        if config.route == "weight_decay":
            carry = (state, self.adam.init(state))
            return pieces.scan(self.decay, carry, steps, of("weight_decay"))[0]
        if config.route == "sphere":
            state = jax.jit(self.normalised)(state)
            state = pieces.scan(self.ascend, state, steps, of("sphere"))
            return jax.jit(self.with_margin_1)(state)
        return state

    @property
    def adam(self) -> optax.GradientTransformation:
        """The optimiser of the route "weight_decay"."""
        steps = max(self.config.route_steps, 1)
        return optax.adam(optax.cosine_decay_schedule(self.config.route_rate, steps))

    def margins(self, state: State) -> Array:
        """Return the leads of the right classes, (points, rivals)."""
        return margins(homogeneous.apply(state.network, self.points), self.labels)

    def squared_norm(self, state: State) -> Array:
        """Compute |theta|^2, with what lies outside the span."""
        return homogeneous.squared_norm(state.network) + self.rest * state.outside**2

    def normalised(self, state: State) -> State:
        """Scale the state to norm 1."""
        length = jnp.sqrt(self.squared_norm(state))
        return jax.tree.map(lambda leaf: leaf / length, state)

    def with_margin_1(self, state: State) -> State:
        """Scale the state to the norm at which the least margin is 1."""
        least = self.margins(state).min()
        least = jnp.where(least > 0, least, 1.0)  # else it separates nothing: leave it
        # The output is homogeneous of a degree that is the number of layers.
        factor = least ** (-1 / len(state.network))
        return jax.tree.map(lambda leaf: factor * leaf, state)

    def fit(self, state: State, number: Array) -> State:
        """Return the state after a bounded descent step, none below `least_loss`."""
        config, points, labels = self.config, self.points, self.labels
        if (size := config.batch_size) is not None:
            epoch, place = jnp.divmod(number, len(points) // size)
            key = jax.random.fold_in(jax.random.key(_SHUFFLES), epoch)
            order = jax.random.permutation(key, len(points))
            chosen = jax.lax.dynamic_slice_in_dim(order, place * size, size)
            points, labels = points[chosen], labels[chosen]

        def objective(state: State) -> Array:
            outputs = homogeneous.apply(state.network, points)
            if config.loss == "logistic" and config.log_loss:
                return _log_logistic(outputs, labels)
            return loss(config.loss, outputs, labels)

        value, slope = jax.value_and_grad(objective)(state)
        cap = config.largest_step * jnp.sqrt(self.squared_norm(state))
        rate = jnp.minimum(config.learning_rate, cap / _length(slope))
        if config.least_loss:
            logarithm = config.log_loss and config.loss == "logistic"
            reached = jnp.log(config.least_loss) if logarithm else config.least_loss
            rate = jnp.where(value > reached, rate, 0)
        return jax.tree.map(lambda leaf, part: leaf - rate * part, state, slope)

    def ascend(self, state: State, number: Array) -> State:
        """Return the state after an ascent of the soft least margin, on the sphere."""
        config = self.config
        share = (number / config.route_steps).astype(self.rest.dtype)
        least = jnp.abs(self.margins(state).min())
        sharp = _SHARP[0] * (_SHARP[1] / _SHARP[0]) ** share / least

        def soft_least(state: State) -> Array:
            return -jax.nn.logsumexp(-sharp * self.margins(state))

        slope = jax.grad(soft_least)(state)
        rate = config.route_rate * (1 - share) / _length(slope)
        moved = jax.tree.map(lambda leaf, part: leaf + rate * part, state, slope)
        return self.normalised(moved)

    def decay(self, carry: tuple, _: Array) -> tuple:
        """Return the state after a step of Adam on the loss with weight decay."""

        def penalised(state: State) -> Array:
            outputs = homogeneous.apply(state.network, self.points)
            fitted = loss(self.config.loss, outputs, self.labels)
            return fitted + 0.5 * self.config.weight_decay * self.squared_norm(state)

        state, moments = carry
        update, moments = self.adam.update(jax.grad(penalised)(state), moments, state)
        return optax.apply_updates(state, update), moments


def _length(tree: State) -> Array:
    """Return the Euclidean norm, never 0."""
    squared = homogeneous.squared_norm(tree.network) + tree.outside**2
    return jnp.sqrt(squared) + jnp.finfo(squared.dtype).tiny
