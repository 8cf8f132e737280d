"""A test whether an optimiser is linear in gradients and parameters, by its trace.

For a linear optimiser, the same for all weights, steps of sums are sums of steps, so
`gradient_descent` may train coefficients of the data in place of weights (`gram_form`).
The answer is no wherever an operation isn't known to be linear. `rests` tests for
weight decay, which attacks on stationary points have to know.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.extend.core import Jaxpr, Literal, Var

from shadow.victims import Params, traces

# Names of JAX's operations, by the inputs in which they are linear; see `_keeps`.
_SUMS = ("add", "sub", "add_any")
_ALONE = ("neg", "convert_element_type", "copy", "copy_p", "reshape", "squeeze")
_SCALED = ("mul", "div")
_CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call")
_STEPS = 3  # enough for weight decay to show
# The answers of this process, by what the optimiser computes.
_KNOWN: dict[Any, bool] = {}


def is_linear(
    optimiser: optax.GradientTransformation, params: Params, *, steps: int
) -> bool:
    """Return whether the first steps are the same linear map for every weight.

    `params` are arrays, or their shapes. False too where the optimiser needs more than
    gradients and parameters.
    """
    with jax.ensure_compile_time_eval():
        params = jax.tree.map(lambda leaf: jnp.ones(leaf.shape), params)
        try:
            state = optimiser.init(params)
            update = traces.digest(optimiser.update, params, state, params)
            tree = jax.tree.structure(params)
            key = (traces.digest(optimiser.init, params), update, tree, steps)
            if key not in _KNOWN:
                _KNOWN[key] = _traces_linear(optimiser, params) and _same_for_all(
                    optimiser, params, steps
                )
            return _KNOWN[key]
        except (TypeError, ValueError, LookupError, AttributeError):
            return False  # not a function of gradients and parameters alone


def _traces_linear(optimiser: optax.GradientTransformation, params: Params) -> bool:
    """Return whether gradients, parameters and state meet linear operations alone."""
    state = optimiser.init(params)
    trace = jax.make_jaxpr(optimiser.update)(params, state, params)
    if any(not leaf.shape for leaf in jax.tree.leaves(params)):
        return False  # such a parameter looks like a counter
    moving = [bool(variable.aval.shape) for variable in trace.jaxpr.invars]
    outs = _outputs(trace.jaxpr, moving)
    if outs is None:
        return False
    sizes = [bool(variable.aval.shape) for variable in trace.jaxpr.outvars]
    return outs == sizes  # counters stay counters, and all else is linear in the rest


def _outputs(jaxpr: Jaxpr, moving: list[bool]) -> list[bool] | None:
    """Return which outputs vary linearly with moving inputs; None: one isn't linear."""
    moves = {variable: True for variable, on in zip(jaxpr.invars, moving) if on}  # noqa: B905
    for equation in jaxpr.eqns:
        inputs = [not isinstance(v, Literal) and v in moves for v in equation.invars]
        if not any(inputs):
            continue
        if not _keeps(equation.primitive.name, equation, inputs):
            return None
        outs: list[bool] | None = [True] * len(equation.outvars)
        if equation.primitive.name in _CALLS:
            programs = (getattr(p, "jaxpr", p) for p in equation.params.values())
            (inner,) = (program for program in programs if isinstance(program, Jaxpr))
            outs = _outputs(inner, inputs)
        if outs is None:
            return None
        moves |= {v: True for v, on in zip(equation.outvars, outs, strict=True) if on}
    return [isinstance(v, Var) and v in moves for v in jaxpr.outvars]


def _keeps(name: str, equation: Any, moving: list[bool]) -> bool:
    """Return whether an operation is linear in its moving inputs."""
    if name in _CALLS or name in _ALONE:
        return True
    if name in _SUMS:
        return all(moving)
    factors = [v for v, on in zip(equation.invars, moving, strict=True) if not on]
    scalar = all(not v.aval.shape for v in factors)
    if name in _SCALED:
        return scalar and moving[0] != moving[-1] and (name == "mul" or moving[0])
    if name == "select_n":
        return scalar and not moving[0] and all(moving[1:])
    return False


def rests(optimiser: optax.GradientTransformation, params: Params) -> bool:
    """Return whether weights stay put in the first steps if all gradients are zero.

    With weight decay inside the optimiser they move. Args: as `is_linear`.
    """
    with jax.ensure_compile_time_eval():
        params = jax.tree.map(lambda leaf: jnp.ones(leaf.shape), params)
        zeros, state = jax.tree.map(jnp.zeros_like, params), optimiser.init(params)
        for _ in range(_STEPS):
            change, state = optimiser.update(zeros, state, params)
            if any(np.any(leaf) for leaf in jax.tree.leaves(change)):
                return False
    return True


def _same_for_all(
    optimiser: optax.GradientTransformation, params: Params, steps: int
) -> bool:
    """Return whether all weights move alike, and like those of other shapes."""

    def changes(params: Params, steps: int) -> np.ndarray:
        """Return the least and the largest change of every step, (steps, 2)."""

        def step(state: Any, number: jax.Array) -> tuple[Any, jax.Array]:
            gradients = jax.tree.map(lambda leaf: leaf + number, params)
            change, state = optimiser.update(gradients, state, params)
            leaves = [jnp.ravel(leaf) for leaf in jax.tree.leaves(change)]
            moved = jnp.concatenate(leaves)
            return state, jnp.stack([moved.min(), moved.max()])

        numbers = jnp.arange(float(steps))
        return np.asarray(jax.lax.scan(step, optimiser.init(params), numbers)[1])

    # Small arrays: there may be a million steps.
    small = jax.tree.map(lambda leaf: jnp.ones((2,) * leaf.ndim), params)
    other = {"any": jnp.ones((2, 3)), "scale": jnp.ones(())}  # as `gram_form` has them
    moved = np.hstack([changes(tree, steps) for tree in (small, other)])
    true = changes(params, few := min(steps, _STEPS))
    return all(
        np.allclose(rows, moved[: len(rows), :1], rtol=1e-5, atol=0)
        for rows in (moved, true[:few])
    )
