"""The KKT attack: training points out of the weights of a homogeneous network, alone.

THREAT: uninformed. Knows theta, the architecture, and the range of pixels; neither D_-,
nor the initialisation, nor how many points there were. For comparison with attacks of
informed adversaries.

Trained long enough, theta is a combination of the gradients of its outputs at those
training points that lie on the margin, with non-negative multipliers. The attack looks
for m candidates and multipliers that make it so (`stationarity`). Two forms:

multipliers   Haim et al. 2022: theta = sum_i lambda_i y_i grad Phi(x_i), lambda >= 0;
              for several outputs the lead over the runner-up (Buzaglo et al. 2023)
signed        Buzaglo et al. 2023: any loss with weight decay, coefficients s_i of any
              sign, one an output, and no labels

What is ours: a term that draws all candidates to one margin, because points off the
margin have no multiplier; multipliers in units of what fits at the start; a sigmoid in
units of the sums it acts on, sharper and sharper; candidates without a multiplier begin
anew; residuals relative to theta; the Gram form; and candidates within the span of the
first layer's weights, which training has made of the training points, whose number it
nearly tells. `KktConfig.published` and `KktConfig.public_code` are the paper's loss and
its code's, which differ.

Without biases a shorter point with a larger multiplier is the same, so lengths are
known only as far as biases matter.

Sources: Haim et al. 2022, equations (6) to (9), Appendix B; Buzaglo et al. 2023.
Checked: tests/uninformed/test_kkt.py (the published losses, written plainly).
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from shadow import checks
from shadow.release import Release
from uninformed import homogeneous, threat
from uninformed import max_margin as margin
from uninformed.homogeneous import Network
from uninformed.kkt import stationarity
from uninformed.kkt.config import KktConfig, Knobs

REVISION = 1  # see `shadow.records`
_FEW = 256  # random points that tell how large a layer's sums are
_RESTARTING = 0.6  # of all steps
_DEAD = 0.02  # of the largest multiplier
_ROUNDING, _DROP = 1e-6, 5.0  # of singular values
_FLOOR = 0.1  # of the mean; a candidate without a multiplier would never move


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """What one run of the attack found.

    Attributes:
      points: (candidates, inputs).
      multipliers: (candidates,), lambda; signed: the length of a candidate's s_i.
      coefficients: (candidates, outputs).
      labels: (candidates,), as assumed; None if signed.
      loss: all terms at the end, what an adversary chooses runs by.
      residual: |theta - sum| / |theta|.
      layers: the same of each layer, relative to that layer.
    """

    points: np.ndarray
    multipliers: np.ndarray
    coefficients: np.ndarray
    labels: np.ndarray | None
    loss: float
    residual: float
    layers: np.ndarray

    @property
    def alive(self) -> np.ndarray:
        """Candidates with a multiplier worth the name; (candidates,) bool."""
        return self.multipliers > _DEAD * self.multipliers.max()


@dataclasses.dataclass(frozen=True)
class KktAttack:
    """One run for each release; see `informed.threat.CandidateAttack`."""

    config: KktConfig = dataclasses.field(default_factory=KktConfig)

    def __call__(
        self, release: Release, architecture: threat.Architecture, *, key: Array
    ) -> threat.Candidates:
        """Needs the victim, uses the mean. Scores are multipliers."""
        architecture.require("victim")
        assert architecture.victim is not None
        found = [
            attack(
                self.config,
                architecture.victim.unflatten(jnp.asarray(theta)),
                key=key,
                mean=architecture.mean,
            )
            for theta in release.weights
        ]
        return threat.Candidates(
            points=np.stack([each.points for each in found]),
            scores=np.stack([each.multipliers for each in found]),
        )


def attack(
    config: KktConfig,
    network: Network,
    *,
    key: Array,
    knobs: Knobs | None = None,
    mean: Float[np.ndarray, " inputs"] | None = None,
) -> Candidates:
    """One run on a network; deterministic in the key.

    Args:
      network: theta; float32.
      knobs: in place of those of `config`.
      mean: what was subtracted from training points, where that is known; it tightens
        the range of pixels.
    """
    return attack_many(config, network, keys=key[None], knobs=knobs, mean=mean)[0]


def attack_many(
    config: KktConfig,
    network: Network,
    *,
    keys: Array,
    knobs: Knobs | None = None,
    mean: Float[np.ndarray, " inputs"] | None = None,
    starts: Float[Array, "runs candidates inputs"] | None = None,
) -> list[Candidates]:
    """Several runs at once, one a key; divided among the devices that divide them.

    Args:
      knobs: each a scalar, or (runs,).
      starts: where candidates begin, as the network sees points; None: at random. With
        `config.span` their part within it.
    Raises: ValueError: `starts` with restarts, which would leave them.
    """
    if starts is not None and config.restarts:
        raise checks.FieldError(
            "restarts",
            f"{{}} is {config.restarts}, but candidates begin at given starts, which"
            " restarts would leave. Set it to 0.",
        )
    knobs = Knobs.of(config) if knobs is None else knobs
    dtype = network[0].w.dtype
    knobs = jax.tree.map(
        lambda knob: jnp.broadcast_to(jnp.asarray(knob, dtype), keys.shape), knobs
    )
    problem = _Problem(config, network, mean)
    begun = [
        problem.begin(
            key,
            jax.tree.map(lambda knob, i=i: knob[i], knobs),
            None if starts is None else starts[i],
        )
        for i, key in enumerate(keys)
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *begun)
    stacked, knobs = jax.device_put((stacked, knobs), _division(len(keys)))
    with jax.default_matmul_precision("highest"):
        ends = jax.jit(jax.vmap(problem.run))(stacked, knobs)
        ends = jax.tree.map(np.asarray, ends)
    labels = None if config.coefficients == "signed" else np.asarray(problem.labels)
    return [
        Candidates(
            points=problem.pixels(ends.points[i]),
            multipliers=ends.multipliers[i],
            coefficients=ends.coefficients[i],
            labels=labels,
            loss=float(ends.loss[i]),
            residual=float(np.sqrt(max(ends.layers[i].sum() / problem.squared, 0))),
            layers=np.sqrt(np.maximum(ends.layers[i] / problem.layer_norms, 0)),
        )
        for i in range(len(keys))
    ]


def _division(runs: int) -> jax.sharding.Sharding:
    """Runs over all devices, if they come out even; else on one."""
    devices = jax.devices()
    devices = devices if runs % len(devices) == 0 else devices[:1]
    mesh = jax.sharding.Mesh(np.array(devices), ("runs",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("runs"))


class _Unknowns(NamedTuple):
    """What is optimised: points (m, inputs) and coefficients in their units."""

    points: Any
    multipliers: Any


class _Begin(NamedTuple):
    """Where a run begins, and its constants."""

    unknowns: _Unknowns
    key: Array
    unit: Array  # of multipliers
    scales: Array  # of each hidden layer's sums


class _End(NamedTuple):
    """Where a run ends."""

    points: Array
    multipliers: Array
    coefficients: Array
    loss: Array
    layers: Array


class _Problem:
    """The loss of one network."""

    def __init__(
        self, config: KktConfig, network: Network, mean: np.ndarray | None
    ) -> None:
        self.config = config
        self.shift = np.zeros((1, 1), np.float32) if mean is None else mean[None]
        self.basis = span(np.asarray(network[0].w)) if config.span else None
        if self.basis is not None:
            inside = self.basis @ np.asarray(network[0].w)
            network = (homogeneous.Layer(inside, network[0].b), *network[1:])
        self.network = jax.tree.map(jnp.asarray, network)
        self.outputs = network[-1].w.shape[1]
        self.labels = margin.equal_shares(config.candidates, max(self.outputs, 2))
        self.layer_norms = np.array(
            [float(homogeneous.squared_norm((layer,))) for layer in network]
        )
        self.squared = float(self.layer_norms.sum())
        gram = config.gram
        if gram is None:
            gram = stationarity.gram_pays(network, config.candidates)
        self._residual = stationarity.gram if gram else stationarity.plain

    def pixels(self, points: Any) -> Any:
        """Points in pixels."""
        return points if self.basis is None else points @ self.basis

    # The start

    def begin(self, key: Array, knobs: Knobs, start: Array | None = None) -> _Begin:
        """Candidates, multipliers and their units."""
        config, m = self.config, self.config.candidates
        dtype = self.network[0].w.dtype
        points_key, multipliers_key, few_key, later_key = jax.random.split(key, 4)
        shape = (m, self.network[0].w.shape[0])
        points = self._start(knobs) * jax.random.normal(points_key, shape, dtype)
        if start is not None:
            points = start if self.basis is None else start @ self.basis.T
        scales = jnp.ones(len(self.network) - 1, dtype)
        if config.alpha_units == "typical":
            few = jax.random.normal(few_key, (_FEW, shape[1]), dtype)
            spread = (config.high - config.low) / 4 * self._stretch
            scales = stationarity.typical_sums(self.network, spread * few)
        unit = jnp.asarray(1 / m if config.units == "per_candidate" else 1.0, dtype)
        if config.coefficients == "signed":
            drawn = jax.random.normal(multipliers_key, (m, self.outputs), dtype)
            if config.units == "fitted":
                fitted = self._fitted(points, drawn, knobs.alpha / scales, signed=True)
                drawn *= np.sign(fitted)[:, None]
                unit = jnp.asarray(np.abs(fitted).mean(), dtype)
            return _Begin(_Unknowns(points, drawn), later_key, unit, scales)
        drawn = jax.random.uniform(multipliers_key, (m,), dtype)
        if "fitted" in (config.units, config.multipliers):
            towards = directions(self._outputs(points), self.labels)
            fitted = self._fitted(points, towards, knobs.alpha / scales)
            mean = float(fitted.mean()) or 1.0
            if config.units == "fitted":
                unit = jnp.asarray(2 * mean, dtype)  # uniform ones have mean 1/2
            if config.multipliers == "fitted":
                drawn = jnp.asarray(np.maximum(fitted, _FLOOR * mean), dtype) / unit
        return _Begin(_Unknowns(points, drawn), later_key, unit, scales)

    @property
    def _stretch(self) -> float:
        """Deviation of a coordinate over that of a pixel."""
        if self.basis is None:
            return 1.0
        rank, pixels = self.basis.shape
        return float(np.sqrt(pixels / rank))

    def _start(self, knobs: Knobs) -> Array:
        return knobs.start * self._stretch

    def _fitted(
        self, points: Array, directions: Array, alpha: Array, signed: bool = False
    ) -> np.ndarray:
        return stationarity.best_multipliers(
            self.network, points, directions, alpha, signed=signed
        )

    def _outputs(self, points: Array) -> Array:
        return homogeneous.apply(self.network, points)

    # The loss

    def loss(
        self, unknowns: _Unknowns, begin: _Begin, knobs: Knobs, alpha: Array
    ) -> tuple[Array, tuple[Array, Array]]:
        """All terms; and the layers' squared residuals, and the coefficients."""
        config, points = self.config, unknowns.points
        signed = config.coefficients == "signed"
        # Directions depend on outputs; the way there is shared after compilation.
        towards = 1 if signed else directions(self._outputs(points), self.labels)
        multipliers = unknowns.multipliers
        each = multipliers if signed else multipliers[:, None]
        coefficients = begin.unit * each * towards
        at = stationarity.passes(
            self.network, points, coefficients, alpha / begin.scales
        )
        layers = self._residual(self.network, at)
        total = self._weighted(layers)
        if not signed:
            total += self._dual(multipliers - knobs.least_multiplier)
            if config.margin_weight:
                leads = jnp.sum(at.sums[-1] * towards, axis=1)
                total += self._off_margin(leads, begin.unit * multipliers)
        total += self._prior(points)
        return total, (layers, coefficients)

    def _weighted(self, layers: Array) -> Array:
        norms = jnp.asarray(self.layer_norms, layers.dtype)
        if self.config.balanced:
            layers = layers / norms
            return layers.mean() if self.config.relative else layers.sum()
        return layers.sum() / (self.squared if self.config.relative else 1.0)

    def _dual(self, excess: Array) -> Array:
        missing = jax.nn.relu(-excess)
        if self.config.dual == "squared":
            missing = missing**2
        total = jnp.sum(missing)
        if self.config.relative:
            total = total / self.config.candidates
        return self.config.dual_weight * total

    def _off_margin(self, leads: Array, multipliers: Array) -> Array:
        """Mean squared distance from the margin, each weighing as its multiplier.

        The margin is what Euler's identity makes of the multipliers: they sum to
        |theta|^2 / (L margin).
        """
        weights = jax.nn.relu(multipliers)
        total = weights.sum() + jnp.finfo(weights.dtype).tiny
        common = self.squared / (len(self.network) * jax.lax.stop_gradient(total))
        off = jnp.sum(weights * (leads / common - 1) ** 2) / total
        return self.config.margin_weight * off

    def _prior(self, points: Array) -> Array:
        config, points = self.config, self.pixels(points)
        above = jax.nn.relu(points + self.shift - config.high)
        below = jax.nn.relu(config.low - self.shift - points)
        if config.prior == "squared":
            above, below = above**2, below**2
        total = jnp.sum(above + below)
        return config.prior_weight * (
            total / points.shape[1] if config.prior_mean else total
        )

    # A run

    def _restarted(self, carry: tuple, key: Array, knobs: Knobs) -> tuple:
        """Dead candidates drawn anew, with a small multiplier and no momentum."""
        unknowns, state = carry
        points, multipliers = unknowns
        sizes = jnp.abs(multipliers).reshape(len(points), -1).max(axis=1)
        dead = sizes <= _DEAD * sizes.max()
        drawn = jax.random.normal(key, points.shape, points.dtype)
        drawn = self._start(knobs) * drawn
        small = _FLOOR * jnp.ones_like(multipliers)

        def replaced(old: Array, new: Array) -> Array:
            return jnp.where(dead.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        fresh = _Unknowns(replaced(points, drawn), replaced(multipliers, small))
        state = jax.tree.map(
            lambda leaf: (
                replaced(leaf, jnp.zeros_like(leaf))
                if leaf.shape[:1] == (len(points),)
                else leaf
            ),
            state,
        )
        return fresh, state

    def run(self, begin: _Begin, knobs: Knobs) -> _End:
        """All steps."""
        config = self.config
        optimise = optax.partition(
            {
                "points": _optimiser(config, knobs.rate),
                "multipliers": _optimiser(config, knobs.multiplier_rate),
            },
            _Unknowns("points", "multipliers"),
        )

        def alpha_at(number: Array) -> Array:
            share = jnp.minimum(1.2 * number / config.steps, 1.0)
            return knobs.alpha * (knobs.alpha_end / knobs.alpha) ** share

        every = max(1, int(_RESTARTING * config.steps / (config.restarts + 1)))

        def step(carry: tuple, number: Array) -> tuple[tuple, None]:
            if config.restarts:
                due = (number % every == 0) & (number > 0)
                due &= number < _RESTARTING * config.steps
                key = jax.random.fold_in(begin.key, number)
                carry = jax.lax.cond(
                    due, lambda: self._restarted(carry, key, knobs), lambda: carry
                )
            unknowns, state = carry
            slope, _ = jax.grad(self.loss, has_aux=True)(
                unknowns, begin, knobs, alpha_at(number)
            )
            update, state = optimise.update(slope, state, unknowns)
            return (optax.apply_updates(unknowns, update), state), None

        start = (begin.unknowns, optimise.init(begin.unknowns))
        numbers = jnp.arange(config.steps)
        (unknowns, _), _ = jax.lax.scan(step, start, numbers)
        total, (layers, coefficients) = self.loss(
            unknowns, begin, knobs, alpha_at(numbers[-1])
        )
        multipliers = begin.unit * unknowns.multipliers
        if config.coefficients == "signed":
            multipliers = jnp.linalg.norm(coefficients, axis=1)
        return _End(unknowns.points, multipliers, coefficients, total, layers)


def directions(
    outputs: Float[Array, "points outputs"], labels: Int[Array, " points"]
) -> Float[Array, "points outputs"]:
    """What a multiplier stands for: y, or e_label - e_runner-up."""
    count = outputs.shape[1]
    if count == 1:
        return margin.signs(labels)[:, None].astype(outputs.dtype)
    right = jax.nn.one_hot(labels, count, dtype=outputs.dtype)
    rivals = jnp.where(right > 0, -jnp.inf, outputs)
    return right - jax.nn.one_hot(rivals.argmax(axis=1), count, dtype=outputs.dtype)


def span(w: Float[np.ndarray, "inputs units"]) -> np.ndarray | None:
    """Orthonormal rows that span the columns of w, as far as these aren't noise.

    Where singular values drop by more than a factor of five, the greatest drop ends
    what training has put there.

    Returns: (rank, inputs), or None where it would be no fewer than the inputs.
    """
    rotation, sizes, _ = np.linalg.svd(w, full_matrices=False)
    sizes = np.maximum(sizes, _ROUNDING * sizes[0])
    drops = sizes[:-1] / sizes[1:]
    rank = len(sizes)
    if len(drops) and drops.max() > _DROP:
        rank = int(drops.argmax()) + 1
    return None if rank >= len(w) else rotation[:, :rank].T


def _optimiser(config: KktConfig, rate: Array) -> optax.GradientTransformation:
    """Adam, or momentum; on a schedule."""
    shape = (
        optax.cosine_decay_schedule(1.0, config.steps)
        if config.schedule == "cosine"
        else optax.constant_schedule(1.0)
    )

    def schedule(count: Array) -> Array:
        return rate * shape(count)

    if config.optimiser == "adam":
        return optax.adam(schedule)
    return optax.sgd(schedule, momentum=0.9)
