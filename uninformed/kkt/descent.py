"""The KKT attack itself: descend on candidate training points and their multipliers.

THREAT: uninformed. Knows the weights theta, the architecture, the range of pixels and,
unless it is left out, the mean training point, which narrows that range; neither a
training point nor the initialisation. With `multipliers` it assumes equally large
classes. `experiment` and `landscape.runs` call `attack_many`; users call `Attack`.

Trained long enough, theta is a combination of the gradients of its outputs at those
training points that lie on the margin, with non-negative multipliers. The attack looks
for m candidates and multipliers that make it so (`stationarity`). Two forms:

multipliers   Haim et al. 2022: theta = sum_i lambda_i y_i grad Phi(x_i), lambda >= 0;
              for several outputs the lead over the runner-up (Buzaglo et al. 2023)
signed        Buzaglo et al. 2023: any loss with weight decay, coefficients s_i of any
              sign, one an output, and no labels

One margin for all candidates, a sigmoid that grows steeper, restarts and the search in
the first layer's span are ours (`KktConfig`). Only biases determine a point's length.

Sources: Haim et al. 2022, equations (6) to (9), Appendix B; Buzaglo et al. 2023.
Checked: tests/uninformed/kkt/test_descent.py (the published losses, written plainly).
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from shadow import bars, checks
from shadow.threat import Release, require_told
from uninformed import pieces
from uninformed.homogeneous import DenseLayers
from uninformed.kkt.kkt_config import KktConfig
from uninformed.kkt.loss import FLOOR, Begin, KktProblem, KktUnknowns
from uninformed.knowledge import Architecture, Candidates

# Incremented when a change alters results; see `shadow.records`.
REVISION = 3
# Share of the steps in which candidates may be restarted; the rest lets them settle.
_RESTARTING = 0.6
# Candidates with a multiplier below this share of the largest add almost nothing to
# theta, and Haim et al. don't count them; see `benchmarks.kkt_circle`.
_DEAD = 0.02
# Alpha reaches its last value after 1 / 1.2, five sixths, of the steps, so that the run
# ends on one loss.
_SHARPENING = 1.2


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class KktRun:
    """The candidates at the end of one run of the attack.

    Attributes:
      points: (candidates, inputs), as the network sees points: minus the mean if the
        victim's training subtracted it.
      multipliers: lambda of each candidate, (candidates,); with signed coefficients the
        length of its s_i.
      loss: the sum of all terms at the end, by which an adversary chooses runs.
      residual: |theta - sum| / |theta|, of all layers together.
    """

    points: np.ndarray
    multipliers: np.ndarray
    loss: float
    residual: float

    @property
    def alive(self) -> np.ndarray:
        """Return which candidates have a multiplier that matters."""
        return self.multipliers > _DEAD * self.multipliers.max()


def attack_many(
    config: KktConfig,
    network: DenseLayers,
    *,
    keys: Array,
    mean: Float[np.ndarray, " inputs"] | None = None,
    starts: Float[Array, "runs candidates inputs"] | None = None,
    place: pieces.Place | None = None,
    tick: Callable[[int], object] | None = None,
) -> list[KktRun]:
    """Return the ends of several runs, one per key, which are made at once.

    Args:
      network: theta; float32.
      mean: the mean training point, where it is known; it tightens the range of pixels.
      starts: where candidates begin, as the network sees points; None: at random. With
        `config.span` their part within it.
      place: where pieces of the runs are kept; None: nowhere.
      tick: see `pieces.scan`.
    Raises:
      ValueError: `starts` together with restarts, which would replace them.
      ConfigurationMismatchError: the checkpoints are of other runs.
    """
    if starts is not None and config.restarts:
        raise checks.FieldError(
            "restarts",
            f"{{}} is {config.restarts}, but candidates begin at given starts, which"
            " restarts would leave. Set it to 0.",
        )
    problem = KktProblem(config, network, mean)
    begins = [
        problem.begin(key, None if starts is None else starts[i])
        for i, key in enumerate(keys)
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *begins)
    # Distribute runs over all devices if their number is a multiple; else use one.
    even = len(keys) % jax.device_count() == 0
    devices = jax.devices() if even else jax.devices()[:1]
    mesh = jax.sharding.Mesh(np.array(devices), ("runs",))
    parts = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("runs"))
    stacked = jax.device_put(stacked, parts)
    run = Run(problem)

    def step(carry: tuple, number: Array) -> tuple:
        return jax.vmap(run.step, in_axes=(0, None, 0))(carry, number, stacked)

    with jax.default_matmul_precision("highest"):
        carry = jax.jit(jax.vmap(run.start))(stacked)
        carry = pieces.scan(step, carry, config.steps, place, tick)
        ends = map(np.asarray, jax.jit(jax.vmap(run.end))(carry, stacked))
    return [
        KktRun(
            points=problem.pixels(points),
            multipliers=multipliers,
            loss=float(loss),
            residual=float(np.sqrt(max(layers.sum() / problem.squared, 0))),
        )
        for points, multipliers, loss, layers in zip(*ends, strict=True)
    ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attack:
    """The attack as a call: one run on each release, whose scores are multipliers.

    With `progress`, a bar shows the steps and the time left.
    """

    config: KktConfig = dataclasses.field(default_factory=KktConfig)
    progress: bool = False

    def __call__(
        self, release: Release, knowledge: Architecture, *, key: Array
    ) -> Candidates:
        """Return the candidates for each release; refuse an unknown architecture."""
        require_told(knowledge, "victim")
        assert knowledge.victim is not None
        runs, total = [], len(release) * self.config.steps
        with bars.bar(total=total, desc="kkt", show=self.progress) as bar:
            for theta in release.weights:
                network = knowledge.victim.unflatten(jnp.asarray(theta))
                runs += attack_many(
                    self.config,
                    network,
                    keys=key[None],
                    mean=knowledge.mean,
                    tick=bar.update,
                )
        return Candidates(
            points=np.stack([run.points for run in runs]),
            scores=np.stack([run.multipliers for run in runs]),
        )


class Run:
    """The steps of one run, as pure functions of its state."""

    def __init__(self, problem: KktProblem) -> None:
        self._problem, self._config = problem, problem.config
        config = problem.config
        # Number of steps between restarts of candidates.
        self._every = max(1, int(_RESTARTING * config.steps / (config.restarts + 1)))
        optimisers = {
            "points": _optimiser(config, config.rate),
            "multipliers": _optimiser(config, config.multiplier_rate or config.rate),
        }
        self._optimisers = optax.partition(optimisers, KktUnknowns(*optimisers))

    def start(self, begin: Begin) -> tuple:
        """Return the unknowns and the state of their optimisers."""
        return begin.unknowns, self._optimisers.init(begin.unknowns)

    def step(self, carry: tuple, number: Array, begin: Begin) -> tuple:
        """Return the state after one step, at the sigmoid's slope there."""
        config = self._config
        if config.restarts:
            due = (number % self._every == 0) & (number > 0)
            due &= number < _RESTARTING * config.steps
            key = jax.random.fold_in(begin.key, number)
            anew = functools.partial(_restarted, self._problem)
            carry = jax.lax.cond(due, anew, lambda carry, _: carry, carry, key)
        unknowns, state = carry
        slope, _ = jax.grad(self._problem.loss, has_aux=True)(
            unknowns, begin, self._alpha(number)
        )
        update, state = self._optimisers.update(slope, state, unknowns)
        return optax.apply_updates(unknowns, update), state

    def end(self, carry: tuple, begin: Begin) -> tuple[Array, Array, Array, Array]:
        """Return points, multipliers, loss and each layer's squared residual."""
        unknowns, _ = carry
        last = jnp.asarray(self._config.steps - 1)
        total, (layers, coefficients) = self._problem.loss(
            unknowns, begin, self._alpha(last)
        )
        multipliers = begin.unit * unknowns.multipliers
        if self._config.coefficients == "signed":
            multipliers = jnp.linalg.norm(coefficients, axis=1)
        return unknowns.points, multipliers, total, layers

    def _alpha(self, number: Array) -> Array:
        """Return the slope alpha of the sigmoid at a step."""
        first, last = self._config.alpha, self._config.alpha_end
        share = jnp.minimum(_SHARPENING * number / self._config.steps, 1.0)
        if last is None:
            return jnp.asarray(first, share.dtype)
        slopes = jnp.asarray([first, last], share.dtype)
        return slopes[0] * (slopes[1] / slopes[0]) ** share


def _restarted(problem: KktProblem, carry: tuple, key: Array) -> tuple:
    """Redraw candidates without a multiplier, with a small one and no momentum."""
    unknowns, state = carry
    points, multipliers = unknowns
    sizes = jnp.abs(multipliers).reshape(len(points), -1).max(axis=1)
    dead = sizes <= _DEAD * sizes.max()

    def replaced(old: Array, new: Array) -> Array:
        return jnp.where(dead.reshape(-1, *[1] * (old.ndim - 1)), new, old)

    fresh = KktUnknowns(
        replaced(points, problem.random_points(key)),
        replaced(multipliers, FLOOR * jnp.ones_like(multipliers)),
    )

    def forgotten(leaf: Array) -> Array:
        of_candidates = leaf.shape[:1] == (len(points),)
        return replaced(leaf, jnp.zeros_like(leaf)) if of_candidates else leaf

    return fresh, jax.tree.map(forgotten, state)


def _optimiser(config: KktConfig, rate: float) -> optax.GradientTransformation:
    """Return Adam with rates that fall to 0, or momentum with a constant rate."""
    cosine = optax.cosine_decay_schedule(1.0, config.steps)
    if config.optimiser == "adam":
        return optax.adam(lambda count: rate * cosine(count))
    return optax.sgd(rate, momentum=0.9)
