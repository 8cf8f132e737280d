"""The lower problem: a victim's training, solved, and differentiated at its solution.

Parameters are one vector; everything can be put under `vmap`.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from shadow import checks
from shadow.precision import highest

Points = Float[Array, "points inputs"]
Theta = Float[Array, " params"]
Targets = Float[Array, " points"]

INVERSES = ("exact", "conjugate_gradients", "quasi_newton")
# Pairs of steps and changes that L-BFGS keeps, the default of optax.
_MEMORY = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lower:
    """The victim, and how its training problem is solved.

    Attributes:
      inputs: length of a point.
      width: units of a hidden layer with biases, whose weights begin theta; None: the
        victim is w . x + b, theta is w and then b, and everything has a closed form.
      smoothness: beta of its activation softplus(beta z) / beta; None: ReLU, whose
        Hessian is not what the implicit function theorem asks for.
      decay: mu > 0, the weight decay; without it the Hessian is singular.
      steps: largest number of L-BFGS steps of a solution.
      tolerance: largest |grad E| / (1 + |theta|) at which L-BFGS stops.
      inverse: how H p = v is solved: "exact", for affine victims;
        "conjugate_gradients"; or "quasi_newton", by what L-BFGS knows of H, as in the
        paper.
      inverse_steps: largest number of steps of conjugate gradients.
    """

    inputs: int
    width: int | None = None
    smoothness: float | None = 20.0
    decay: float = 1e-2
    steps: int = 50
    tolerance: float = 1e-6
    inverse: str = "conjugate_gradients"
    inverse_steps: int = 50

    def __post_init__(self) -> None:
        checks.choice("inverse", self.inverse, INVERSES)
        if not self.decay > 0:
            raise checks.FieldError(
                "decay",
                f"Expected {{}} > 0, got {self.decay!r}: without it the lower problem"
                " has no unique solution.",
            )
        if self.inverse == "exact" and self.width is not None:
            raise checks.FieldError(
                "inverse",
                '{} is "exact", which only affine victims have. Use'
                ' "conjugate_gradients".',
            )

    @property
    def num_params(self) -> int:
        """Length of theta."""
        if self.width is None:
            return self.inputs + 1
        return self.width * (self.inputs + 2) + 1

    def outputs(self, theta: Theta, points: Points) -> Targets:
        """What the victim says of each point."""
        if self.width is None:
            return points @ theta[:-1] + theta[-1]
        first, bias, second, last = jnp.split(
            theta,
            [self.width * i for i in (self.inputs, self.inputs + 1, self.inputs + 2)],
        )
        hidden = points @ first.reshape(self.inputs, self.width) + bias[None]
        if self.smoothness is None:
            hidden = jax.nn.relu(hidden)
        else:
            hidden = jax.nn.softplus(self.smoothness * hidden) / self.smoothness
        return hidden @ second + last[0]

    def energy(self, theta: Theta, points: Points, targets: Targets) -> Array:
        """The loss E: half the mean squared error plus mu / 2 |theta|^2."""
        errors = self.outputs(theta, points) - targets
        return 0.5 * jnp.mean(errors**2) + 0.5 * self.decay * jnp.sum(theta**2)

    def slope(self, theta: Theta, points: Points, targets: Targets) -> Theta:
        """The gradient of E with respect to theta."""
        return jax.grad(self.energy)(theta, points, targets)


class Solution(NamedTuple):
    """A solution of the lower problem.

    Attributes:
      theta: the parameters at the end.
      slope_norm: |grad E| there.
      moves: the last steps of L-BFGS, within the span of the points where it ran there.
      changes: the change of grad E in each of these steps.
    """

    theta: Theta
    slope_norm: Array
    moves: Float[Array, "memory moved"]
    changes: Float[Array, "memory moved"]


@highest
def solve(lower: Lower, points: Points, targets: Targets, start: Theta) -> Solution:
    """theta(x), warm-started; in closed form for affine victims.

    With a first layer and fewer points than inputs, within the span of the points: at a
    solution decay has left nothing of that layer outside. What `start` has there is
    dropped.
    """
    if lower.width is None:
        theta = ridge(points, targets, lower.decay)
        nothing = jnp.zeros((0, len(theta)), theta.dtype)
        norm = jnp.linalg.norm(lower.slope(theta, points, targets))
        return Solution(theta, norm, nothing, nothing)
    if len(points) < lower.inputs:
        span = _Span(lower, points)
        inside = span.project(start)
        found = solve(span.lower, span.points, targets, inside)
        return found._replace(theta=span.lift(found.theta))
    return _quasi_newton(lower, points, targets, start)


class _Span:
    """The lower problem within the span of the points, where all is that isn't decay.

    E depends on the first layer W by products with the points only, so with orthonormal
    columns Q that span these, W = Q B + rest, it is that of points x Q and of B, plus
    mu / 2 |rest|^2.
    """

    def __init__(self, lower: Lower, points: Points) -> None:
        # Q, (inputs, points).
        self.basis = jnp.linalg.qr(points.T)[0]
        self.points = points @ self.basis
        self.lower = dataclasses.replace(lower, inputs=len(points))

    def project(self, theta: Theta) -> Float[Array, " inside"]:
        """B and the other parameters."""
        w, rest = self._cut(theta, self.basis.shape[0])
        return jnp.concatenate([(self.basis.T @ w).ravel(), rest])

    def lift(self, inside: Float[Array, " inside"]) -> Theta:
        """theta of B and the other parameters, with nothing of W outside the span."""
        b, rest = self._cut(inside, self.basis.shape[1])
        return jnp.concatenate([(self.basis @ b).ravel(), rest])

    def _cut(self, theta: Theta, inputs: int) -> tuple[Array, Array]:
        assert self.lower.width is not None
        w, rest = jnp.split(theta, [inputs * self.lower.width])
        return w.reshape(inputs, -1), rest


def ridge(points: Points, targets: Targets, decay: float) -> Theta:
    """The affine solution, from the m x m dual; the intercept is penalised too."""
    with_one = _with_one(points)
    inner = with_one @ with_one.T + decay * len(points) * jnp.eye(len(points))
    return with_one.T @ jnp.linalg.solve(inner, targets)


def _with_one(points: Points) -> Float[Array, "points params"]:
    return jnp.concatenate([points, jnp.ones_like(points[:, :1])], axis=1)


def _quasi_newton(
    lower: Lower, points: Points, targets: Targets, start: Theta
) -> Solution:
    """L-BFGS of optax, until the tolerance is met or all steps are made."""
    optimise = optax.lbfgs(memory_size=_MEMORY)

    def energy(theta: Theta) -> Array:
        return lower.energy(theta, points, targets)

    value_and_slope = optax.value_and_grad_from_state(energy)

    def unfinished(carry: tuple) -> Array:
        theta, state, number, norm = carry
        del state
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

    begin = (
        start,
        optimise.init(start),
        jnp.asarray(0),
        jnp.linalg.norm(jax.grad(energy)(start)),
    )
    theta, state, _, norm = jax.lax.while_loop(unfinished, step, begin)
    memory = state[0]
    return Solution(theta, norm, memory.diff_params_memory, memory.diff_updates_memory)


@highest
def inverse_hessian(
    lower: Lower, points: Points, targets: Targets, solution: Solution, v: Theta
) -> Theta:
    """p with H p = v at the solution of the lower problem."""
    # H of affine victims is X^T X / m + mu, inverted by Woodbury's identity.
    if lower.inverse == "exact":
        with_one = _with_one(points)
        scaled = lower.decay * len(points)
        inner = with_one @ with_one.T + scaled * jnp.eye(len(points))
        return (v - with_one.T @ jnp.linalg.solve(inner, with_one @ v)) / lower.decay
    if lower.width is not None and len(points) < lower.inputs:
        span = _Span(lower, points)
        at, inside = (span.project(each) for each in (solution.theta, v))
        p = inverse_hessian(
            span.lower, span.points, targets, solution._replace(theta=at), inside
        )
        # Outside the span the Hessian is mu times the identity.
        outside = v - span.lift(inside)
        return span.lift(p) + outside / lower.decay
    if lower.inverse == "quasi_newton":
        return _two_loop(solution, v)

    def product(p: Theta) -> Theta:
        def slope(theta: Theta) -> Theta:
            return lower.slope(theta, points, targets)

        return jax.jvp(slope, (solution.theta,), (p,))[1]

    return jax.scipy.sparse.linalg.cg(product, v, maxiter=lower.inverse_steps)[0]


def _two_loop(solution: Solution, v: Theta) -> Theta:
    """The inverse Hessian of L-BFGS times v (Nocedal & Wright 2006, Algorithm 7.4).

    Pairs in any order do: curvature is that of one point. Empty ones are skipped.
    """
    moves, changes = solution.moves, solution.changes
    curvatures = jnp.sum(moves * changes, axis=1)
    used = curvatures > 0
    inverse = jnp.where(used, 1 / jnp.where(used, curvatures, 1), 0)
    # The first loop, from the last pair to the first.
    shares = []
    for i in reversed(range(len(moves))):
        share = inverse[i] * (moves[i] @ v)
        v = v - share * changes[i]
        shares.append(share)
    # The initial matrix: the identity, scaled by the last pair's curvature.
    last = jnp.argmax(used * jnp.arange(1, len(moves) + 1))
    squared = jnp.sum(changes[last] ** 2)
    p = v * jnp.where(
        squared > 0, curvatures[last] / jnp.where(squared > 0, squared, 1), 1
    )
    # The second loop, back again.
    for i, share in zip(range(len(moves)), reversed(shares), strict=True):
        p = p + moves[i] * (share - inverse[i] * (changes[i] @ p))
    return p
