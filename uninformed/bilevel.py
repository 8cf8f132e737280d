"""Search for training points whose training ends at the released weights.

THREAT: uninformed, with labels. Knows the released weights theta*, the architecture,
loss and weight decay of the victim, and the training labels y (`targets` below); not
the points x. `landscape.runs` calls this attack.

    min_x 1/2 |theta(x) - theta*|^2   s.t.   theta(x) = argmin_theta E(x, y; theta),

E the mean squared error halved plus mu/2 |theta|^2. The constraint (the lower problem)
is solved in closed form for an affine victim, else to a tolerance or a number of steps.
With v = theta(x) - theta* and H p = v, H the Hessian of E, the gradient of the
objective (the upper problem) is

    - grad_x <grad_theta E(x, y; theta(x)), p>,

p and theta(x) held fixed. The paper prints the other sign. `matching` is its problem
(3), min_x |grad_theta E(x, y; theta*)|^2. Parameters are one vector; everything can be
put under `vmap`.

Source: Runkel et al. 2024, equations (2), (3), (7).
Checked: tests/uninformed/test_bilevel.py (autodiff to 1e-6; finite differences).
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from shadow import checks
from shadow.precision import highest

Points = Float[Array, "points inputs"]
Theta = Float[Array, " params"]
Targets = Float[Array, " points"]

# Incremented when a change alters results; see `shadow.records`.
REVISION = 1
# Largest number of calls of `tick`.
_TICKS = 50
# The attack ends when |theta - theta*|^2 is below this share of |theta*|^2, because
# Adam would then step along rounding.
_ENOUGH = 1e-11


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lower:
    """The victim, and how its training problem is solved.

    Attributes:
      inputs: length of a point.
      width: units of a hidden layer with biases, whose weights come first in theta;
        None: the victim is w . x + b, theta is (w, b), and solutions are closed forms.
      smoothness: beta of its activation softplus(beta z) / beta.
      decay: mu > 0, the weight decay; without it the Hessian is singular.
      steps: largest number of L-BFGS steps of a solution.
      tolerance: largest |grad E| / (1 + |theta|) at which L-BFGS stops.
      inverse_steps: largest number of steps of conjugate gradients for H p = v.
    """

    inputs: int
    width: int | None = None
    smoothness: float = 20.0
    decay: float = 1e-2
    steps: int = 50
    tolerance: float = 1e-6
    inverse_steps: int = 50

    def __post_init__(self) -> None:
        if not self.decay > 0:
            raise checks.FieldError(
                "decay",
                f"Expected {{}} > 0, got {self.decay!r}: without it the lower problem"
                " has no unique solution.",
            )
        checks.positive("smoothness", self.smoothness)

    @property
    def num_params(self) -> int:
        """The length of theta."""
        if self.width is None:
            return self.inputs + 1
        return self.width * (self.inputs + 2) + 1

    def outputs(self, theta: Theta, points: Points) -> Targets:
        """Return the victim's output at each point."""
        if self.width is None:
            return points @ theta[:-1] + theta[-1]
        first, bias, second, last = jnp.split(
            theta,
            [self.width * i for i in (self.inputs, self.inputs + 1, self.inputs + 2)],
        )
        hidden = points @ first.reshape(self.inputs, self.width) + bias[None]
        hidden = jax.nn.softplus(self.smoothness * hidden) / self.smoothness
        return hidden @ second + last[0]

    def energy(self, theta: Theta, points: Points, targets: Targets) -> Array:
        """Compute the loss E: half the mean squared error plus mu / 2 |theta|^2."""
        errors = self.outputs(theta, points) - targets
        return 0.5 * jnp.mean(errors**2) + 0.5 * self.decay * jnp.sum(theta**2)

    def slope(self, theta: Theta, points: Points, targets: Targets) -> Theta:
        """Compute the gradient of E with respect to theta."""
        return jax.grad(self.energy)(theta, points, targets)


class Solution(NamedTuple):
    """A solution theta of the lower problem, and |grad E| there."""

    theta: Theta
    slope_norm: Array


@highest
def solve(lower: Lower, points: Points, targets: Targets, start: Theta) -> Solution:
    """Solve the lower problem from `start`, or in closed form for affine victims.

    With a hidden layer and fewer points than inputs, it is solved within the span of
    the points, because decay leaves no weights of the first layer outside. The part of
    `start` outside is dropped.
    """
    if lower.width is None:
        theta = ridge(points, targets, lower.decay)
        return Solution(theta, jnp.linalg.norm(lower.slope(theta, points, targets)))
    if len(points) < lower.inputs:
        span = _Span(lower, points)
        inside = solve(span.lower, span.points, targets, span.project(start))
        return inside._replace(theta=span.lift(inside.theta))
    return _quasi_newton(lower, points, targets, start)


class _Span:
    """The lower problem within the span of the points; outside, E is decay alone.

    E depends on the first layer W only through products with the points. With
    orthonormal columns Q that span these and W = Q B + rest, E is that of points x Q
    and weights B, plus mu / 2 |rest|^2.
    """

    def __init__(self, lower: Lower, points: Points) -> None:
        # Q, (inputs, points).
        self.basis = jnp.linalg.qr(points.T)[0]
        self.points = points @ self.basis
        self.lower = dataclasses.replace(lower, inputs=len(points))

    def project(self, theta: Theta) -> Float[Array, " inside"]:
        """Return B and the other parameters as one vector."""
        w, rest = self._split(theta, self.basis.shape[0])
        return jnp.concatenate([(self.basis.T @ w).ravel(), rest])

    def lift(self, inside: Float[Array, " inside"]) -> Theta:
        """Return theta of B and the other parameters, with W = Q B."""
        b, rest = self._split(inside, self.basis.shape[1])
        return jnp.concatenate([(self.basis @ b).ravel(), rest])

    def _split(self, theta: Theta, inputs: int) -> tuple[Array, Array]:
        assert self.lower.width is not None
        w, rest = jnp.split(theta, [inputs * self.lower.width])
        return w.reshape(inputs, -1), rest


def ridge(points: Points, targets: Targets, decay: float) -> Theta:
    """Return the affine solution, from the m x m dual; the intercept decays too."""
    with_one = _with_one(points)
    inner = with_one @ with_one.T + decay * len(points) * jnp.eye(len(points))
    return with_one.T @ jnp.linalg.solve(inner, targets)


def _with_one(points: Points) -> Float[Array, "points params"]:
    return jnp.concatenate([points, jnp.ones_like(points[:, :1])], axis=1)


def _quasi_newton(
    lower: Lower, points: Points, targets: Targets, start: Theta
) -> Solution:
    """Return where optax's L-BFGS ends: at the tolerance, or at the last step."""
    optimise = optax.lbfgs()

    def energy(theta: Theta) -> Array:
        return lower.energy(theta, points, targets)

    value_and_slope = optax.value_and_grad_from_state(energy)

    def unfinished(carry: tuple) -> Array:
        theta, _, number, norm = carry
        bound = lower.tolerance * (1 + jnp.linalg.norm(theta))
        return (number < lower.steps) & (norm > bound)

    def step(carry: tuple) -> tuple:
        theta, state, number, _ = carry
        value, slope = value_and_slope(theta, state=state)
        update, state = optimise.update(
            slope, state, theta, value=value, grad=slope, value_fn=energy
        )
        theta = optax.apply_updates(theta, update)
        return theta, state, number + 1, jnp.linalg.norm(jax.grad(energy)(theta))

    norm = jnp.linalg.norm(jax.grad(energy)(start))
    begin = (start, optimise.init(start), jnp.asarray(0), norm)
    theta, _, _, norm = jax.lax.while_loop(unfinished, step, begin)
    return Solution(theta, norm)


@highest
def inverse_hessian(
    lower: Lower, points: Points, targets: Targets, theta: Theta, v: Theta
) -> Theta:
    """Solve H p = v for p, H the Hessian of E at a solution theta."""
    if lower.width is None:
        # H = X^T X / m + mu, inverted by Woodbury's identity.
        with_one = _with_one(points)
        scaled = lower.decay * len(points)
        inner = with_one @ with_one.T + scaled * jnp.eye(len(points))
        return (v - with_one.T @ jnp.linalg.solve(inner, with_one @ v)) / lower.decay
    if len(points) < lower.inputs:
        span = _Span(lower, points)
        at, inside = span.project(theta), span.project(v)
        p = inverse_hessian(span.lower, span.points, targets, at, inside)
        # Outside the span the Hessian is mu times the identity.
        outside = v - span.lift(inside)
        return span.lift(p) + outside / lower.decay

    def slope(theta: Theta) -> Theta:
        return lower.slope(theta, points, targets)

    def product(p: Theta) -> Theta:
        return jax.jvp(slope, (theta,), (p,))[1]

    return jax.scipy.sparse.linalg.cg(product, v, maxiter=lower.inverse_steps)[0]


@highest
def hypergradient(
    lower: Lower, points: Points, targets: Targets, theta: Theta, p: Theta
) -> Points:
    """Compute the gradient of 1/2 |theta(x) - theta*|^2 with respect to x.

    Equation (7) of Runkel et al. 2024, with p from H p = theta(x) - theta*.
    """

    def along(points: Points) -> Array:
        return lower.slope(theta, points, targets) @ p

    return -jax.grad(along)(points)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BilevelConfig:
    """Settings of the bilevel attack: how Adam minimises the upper problem.

    Attributes:
      steps: largest number of steps.
      rate: first learning rate, in pixels, falling to 0.
    """

    steps: int = 2000
    rate: float = 1e-2

    def __post_init__(self) -> None:
        checks.at_least("steps", self.steps, 1)
        checks.positive("rate", self.rate)


class Ended(NamedTuple):
    """The points at which an attack ended, and the solution theta of the lower problem.

    `distance` is |theta - theta*|^2, the more exact the smaller `slope_norm`, |grad E|.
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
    tick: Callable[[Any], None] | None = None,
) -> Ended:
    """Return where the bilevel attack ends, equation (2) of Runkel et al. 2024.

    Args:
      released: theta*.
      start: starting points.
      targets: labels of the training points.
      theta: where the first solution of the lower problem begins.
      tick: called with a number of steps as they are made, some fifty times.
    """
    adam = _adam(config)

    def distance(theta: Theta) -> Array:
        return jnp.sum((theta - released) ** 2)

    enough = _ENOUGH * jnp.sum(released**2)

    def step(carry: tuple) -> tuple:
        # The hypergradient at the present solution of the lower problem.
        points, solution, state = carry
        v = solution.theta - released
        p = inverse_hessian(lower, points, targets, solution.theta, v)
        slope = hypergradient(lower, points, targets, solution.theta, p)
        # A step of the points; then solve the lower problem from its last solution.
        update, state = adam.update(slope, state)
        moved = points + update
        after = (moved, solve(lower, moved, targets, solution.theta), state)
        return _unless(distance(solution.theta) <= enough, after, carry)

    begin = (start, solve(lower, start, targets, theta), adam.init(start))
    points, solution, _ = _repeated(step, begin, config.steps, tick)
    return Ended(points, distance(solution.theta), solution.slope_norm)


@highest
def matching(
    config: BilevelConfig,
    lower: Lower,
    released: Theta,
    start: Points,
    targets: Targets,
    theta: Theta,
    tick: Callable[[Any], None] | None = None,
) -> Ended:
    """Return where gradient matching ends: at points with theta* stationary.

    Problem (3), with the arguments of `attack`. It ends by the tolerance on |grad E|.
    """
    adam = _adam(config)

    def cost(points: Points) -> Array:
        return jnp.sum(lower.slope(released, points, targets) ** 2)

    bound = lower.tolerance * (1 + jnp.linalg.norm(released))

    def step(carry: tuple) -> tuple:
        points, state = carry
        value, slope = jax.value_and_grad(cost)(points)
        update, state = adam.update(slope, state)
        return _unless(value <= bound**2, (points + update, state), carry)

    begin = (start, adam.init(start))
    points, _ = _repeated(step, begin, config.steps, tick)
    solution = solve(lower, points, targets, theta)
    distance = jnp.sum((solution.theta - released) ** 2)
    return Ended(points, distance, solution.slope_norm)


def _repeated(
    step: Callable[[tuple], tuple],
    carry: tuple,
    steps: int,
    tick: Callable[[Any], None] | None,
) -> tuple:
    """Return the state after all steps, made in one loop, which calls `tick`."""
    every = -(-steps // _TICKS)

    def one(carry: tuple, number: Array) -> tuple[tuple, None]:
        if tick is not None:
            jax.lax.cond(
                (number + 1) % every == 0,
                lambda: jax.debug.callback(tick, every),
                lambda: None,
            )
        return step(carry), None

    return jax.lax.scan(one, carry, jnp.arange(steps))[0]


def _adam(config: BilevelConfig) -> optax.GradientTransformation:
    return optax.adam(optax.cosine_decay_schedule(config.rate, config.steps))


def _unless(done: Array, after: tuple, before: tuple) -> tuple:
    """Return `after`, or `before` if the attack is done."""
    return jax.tree.map(lambda new, old: jnp.where(done, old, new), after, before)
