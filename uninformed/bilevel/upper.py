"""The upper problem: points whose training ends at the released weights."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from shadow import checks
from shadow.precision import highest
from shadow.threat import Release
from uninformed.bilevel.lower import (
    Lower,
    Points,
    Targets,
    Theta,
    inverse_hessian,
    solve,
)
from uninformed.knowledge import Architecture, Candidates

OPTIMISERS = ("adam", "line_search")
# Grows when the same configuration would give something else; see `shadow.records`.
REVISION = 1
# Mean and standard deviation, in pixels, of the noise that `BilevelAttack` begins at:
# grey favours no class, and the noise makes points of one class differ.
_GREY, _SPREAD = 0.5, 0.1
# Largest number of times a step of the line search is halved; the next search begins at
# twice the step that was taken last.
_HALVINGS = 20


@highest
def hypergradient(
    lower: Lower, points: Points, targets: Targets, theta: Theta, p: Theta
) -> Points:
    """The gradient of 1/2 |theta(x) - theta*|^2 with respect to x, (points, inputs).

    Equation (7) of Runkel et al. 2024, with p from H p = theta(x) - theta*.
    """

    def along(points: Points) -> Array:
        return lower.slope(theta, points, targets) @ p

    return -jax.grad(along)(points)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BilevelConfig:
    """How the upper problem is minimised.

    Attributes:
      steps: largest number of steps of the optimiser.
      optimiser: "adam", or "line_search", gradient descent with backtracking: its steps
        stay in the directions of the gradient, which Adam's, scaled pixel by pixel, do
        not.
      rate: Adam's first learning rate, in pixels, falling to 0.
      enough: share of |theta*|^2 below which |theta - theta*|^2 ends the attack,
        because Adam would make steps out of rounding. `matching` ends by the tolerance
        on |grad E| instead.
    """

    steps: int = 2000
    optimiser: str = "adam"
    rate: float = 1e-2
    enough: float = 1e-11

    def __post_init__(self) -> None:
        checks.choice("optimiser", self.optimiser, OPTIMISERS)
        checks.at_least("steps", self.steps, 1)
        checks.at_least("enough", self.enough, 0)
        checks.positive("rate", self.rate)


class Ended(NamedTuple):
    """Where an attack ended.

    Attributes:
      points: the reconstructions, (points, inputs).
      distance: |theta - theta*|^2, theta the solution of the lower problem there, which
        `matching` solves at the end.
      slope_norm: |grad E| of that solution: how far to trust the distance.
    """

    points: Points
    distance: Array
    slope_norm: Array


@highest
def attack(
    config: BilevelConfig,
    lower: Lower,
    released: Theta,
    start: Points,
    targets: Targets,
    theta: Theta,
) -> Ended:
    """The bilevel attack, equation (2) of Runkel et al. 2024.

    Args:
      config: how the upper problem is minimised.
      lower: the victim's training problem.
      released: theta*.
      start: points at the start.
      targets: labels of the training points.
      theta: where the first solution of the lower problem begins.
    """
    optimise = _optimiser(config)

    def distance(theta: Theta) -> Array:
        return jnp.sum((theta - released) ** 2)

    first = solve(lower, start, targets, theta)
    enough = config.enough * jnp.sum(released**2)

    def step(carry: tuple, _: Array) -> tuple[tuple, None]:
        # The hypergradient at the present solution of the lower problem.
        points, solution, state = carry
        v = solution.theta - released
        p = inverse_hessian(lower, points, targets, solution, v)
        slope = hypergradient(lower, points, targets, solution.theta, p)

        def upper(points: Points) -> Array:
            found = solve(lower, points, targets, solution.theta)
            return 0.5 * distance(found.theta)

        # A step of the points, and the lower problem solved anew from where it was.
        value = 0.5 * distance(solution.theta)
        moved, state = _moved(optimise, points, value, slope, state, upper)
        then = (moved, solve(lower, moved, targets, solution.theta), state)
        return _unless(distance(solution.theta) <= enough, then, carry), None

    begin = (start, first, optimise.init(start))
    (points, solution, _), _ = jax.lax.scan(step, begin, jnp.arange(config.steps))
    return Ended(points, distance(solution.theta), solution.slope_norm)


@dataclasses.dataclass(frozen=True)
class BilevelAttack:
    """The bilevel attack, one run for each release (a `CandidateAttack`).

    It begins at noise around grey, and solves the lower problem from the release.

    Attributes:
      config: how the upper problem is minimised.
    """

    config: BilevelConfig = BilevelConfig()

    def __call__(
        self, release: Release, architecture: Architecture, *, key: Array
    ) -> Candidates:
        """Needs lower and targets. Scores are minus the distance of theta."""
        architecture.require("lower", "targets")
        lower, targets = architecture.lower, jnp.asarray(architecture.targets)
        inputs = lower.inputs
        noise = jax.random.normal(key, (len(targets), inputs), targets.dtype)

        @jax.jit
        def run(theta: Theta) -> Ended:
            start = _GREY + _SPREAD * noise
            return attack(self.config, lower, theta, start, targets, theta)

        ends = [run(jnp.asarray(theta, targets.dtype)) for theta in release.weights]
        return Candidates(
            points=np.stack([np.asarray(end.points) for end in ends]),
            scores=np.stack(
                [np.full(len(targets), -float(end.distance)) for end in ends]
            ),
        )


@highest
def matching(
    config: BilevelConfig,
    lower: Lower,
    released: Theta,
    start: Points,
    targets: Targets,
    theta: Theta,
) -> Ended:
    """Gradient matching, problem (3): points at which theta* itself is stationary."""
    optimise = _optimiser(config)

    def cost(points: Points) -> Array:
        return jnp.sum(lower.slope(released, points, targets) ** 2)

    bound = lower.tolerance * (1 + jnp.linalg.norm(released))

    def step(carry: tuple, _: Array) -> tuple[tuple, None]:
        points, state = carry
        left, slope = jax.value_and_grad(cost)(points)
        then = _moved(optimise, points, left, slope, state, cost)
        return _unless(left <= bound**2, then, carry), None

    begin = (start, optimise.init(start))
    (points, _), _ = jax.lax.scan(step, begin, jnp.arange(config.steps))
    solution = solve(lower, points, targets, theta)
    distance = jnp.sum((solution.theta - released) ** 2)
    return Ended(points, distance, solution.slope_norm)


def _optimiser(config: BilevelConfig) -> optax.GradientTransformationExtraArgs:
    if config.optimiser == "line_search":
        search = optax.scale_by_backtracking_linesearch(_HALVINGS, increase_factor=2.0)
        return optax.chain(optax.sgd(1.0), search)
    rates = optax.cosine_decay_schedule(config.rate, config.steps)
    return optax.with_extra_args_support(optax.adam(rates))


def _moved(
    optimise: optax.GradientTransformationExtraArgs,
    points: Points,
    value: Array,
    slope: Points,
    state: Any,
    value_fn: Callable[[Points], Array],
) -> tuple[Points, Any]:
    """Points and state of the optimiser after one step."""
    update, state = optimise.update(
        slope, state, points, value=value, grad=slope, value_fn=value_fn
    )
    return points + update, state


def _unless(done: Array, then: tuple, carry: tuple) -> tuple:
    """`then`, or `carry` if nothing is to be done any more."""
    return jax.tree.map(lambda new, old: jnp.where(done, old, new), then, carry)
