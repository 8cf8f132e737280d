"""Square roots with slope zero at zero, for derivatives of users' training by Adam.

Adam divides by the root of a mean of squared gradients. Where a gradient is exactly
zero, of a dead unit or a constant column, JAX differentiates that root to infinity, and
its product with zero makes all derivatives of the training NaN. The true derivative is
finite: Adam's step is m / (sqrt(v) + eps), and m is zero where v is, so the root's
slope is multiplied by zero and may be set to zero. `foreign` replaces all of `sqrt` in
a user's function, but not `rsqrt` or powers.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun
from jax.extend.core.primitives import sqrt_p


@jax.custom_jvp
def root(values: Any) -> Any:
    """Compute the square root, with slope zero at zero."""
    return jnp.sqrt(values)


@root.defjvp
def _root_jvp(primals: tuple, tangents: tuple) -> tuple:
    (values,), (moved,) = primals, tangents
    roots = jnp.sqrt(values)
    zero = roots == 0
    slope = jnp.where(zero, 0, 0.5 / jnp.where(zero, 1, roots))
    return roots, moved * slope


def with_finite_slopes(function: Callable) -> Callable:
    """Replace each square root of a function by `root`; values stay, bit for bit.

    The function is from trees of arrays to a tree of arrays, and JAX can trace it.
    """

    def replaced(*arguments: Any) -> Any:
        # A new function each time: JAX keeps the traces of equal ones, and a method is
        # equal to itself after its object has changed.
        fresh = jax.make_jaxpr(lambda *values: function(*values), return_shape=True)
        traced, shape = fresh(*arguments)
        values = jaxpr_as_fun(_closed(traced))(*jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), values)

    return replaced


def _closed(program: ClosedJaxpr) -> ClosedJaxpr:
    return program.replace(jaxpr=_open(program.jaxpr))


def _open(program: Jaxpr) -> Jaxpr:
    """Replace the roots of a program, those in its loops and branches too."""
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
    """Replace roots in a parameter, if it is the body of a loop, branch or call."""
    if isinstance(parameter, ClosedJaxpr):
        return _closed(parameter)
    if isinstance(parameter, Jaxpr):
        return _open(parameter)
    if isinstance(parameter, tuple):
        parts = tuple(_within(part) for part in parameter)
        # Named tuples hold settings, and are left unchanged.
        return parts if type(parameter) is tuple else parameter
    return parameter
