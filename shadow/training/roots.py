"""Square roots whose slope at zero is zero, in a training of the user's own.

Adam divides by the root of a mean of squared gradients. Where a gradient is exactly
zero, of a dead unit or a constant column, JAX differentiates that root to infinity, and
its product with zero makes all derivatives of the training NaN. What Adam makes of it
has a derivative all the same: the root is multiplied by the mean gradient, so that what
it adds is of second order, and its slope may be taken as zero.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun
from jax.extend.core.primitives import sqrt_p


@jax.custom_jvp
def root(values: Any) -> Any:
    """The square root, with slope zero at zero."""
    return jnp.sqrt(values)


@root.defjvp
def _root_jvp(primals: tuple, tangents: tuple) -> tuple:
    (values,), (moved,) = primals, tangents
    roots = jnp.sqrt(values)
    zero = roots == 0
    slope = jnp.where(zero, 0, 0.5 / jnp.where(zero, 1, roots))
    return roots, moved * slope


def with_finite_slopes(function: Callable) -> Callable:
    """A function of arrays with each of its square roots replaced by `root`.

    Args:
      function: of trees of arrays to a tree of arrays, as JAX can trace it.
    Returns: a function of the same values, bit for bit.
    """

    def replaced(*arguments: Any) -> Any:
        traced, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        values = jaxpr_as_fun(_closed(traced))(*jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), values)

    return replaced


def _closed(program: ClosedJaxpr) -> ClosedJaxpr:
    return program.replace(jaxpr=_open(program.jaxpr))


def _open(program: Jaxpr) -> Jaxpr:
    """A program with its roots replaced, those within its loops and branches too."""
    equations = []
    for equation in program.eqns:
        if equation.primitive is sqrt_p:
            of: Any = equation.invars[0].aval
            call = jax.make_jaxpr(root)(jax.ShapeDtypeStruct(of.shape, of.dtype))
            equations.append(
                call.eqns[0].replace(invars=equation.invars, outvars=equation.outvars)
            )
        else:
            params = {
                name: _within(parameter) for name, parameter in equation.params.items()
            }
            equations.append(equation.replace(params=params))
    return program.replace(eqns=equations)


def _within(parameter: Any) -> Any:
    """A parameter of an operation: its body, if it is a loop, a branch or a call."""
    if isinstance(parameter, ClosedJaxpr):
        return _closed(parameter)
    if isinstance(parameter, Jaxpr):
        return _open(parameter)
    if isinstance(parameter, tuple):
        parts = tuple(_within(part) for part in parameter)
        # Named tuples, of settings, are left as they are.
        return parts if type(parameter) is tuple else parameter
    return parameter
