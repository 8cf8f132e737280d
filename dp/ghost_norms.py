"""Lengths of per-example gradients, without forming those of dense layers.

`gradient.clipped_sum_traced` clips by these lengths. We trace the loss of one example.
Where a parameter array is used once, by a product with one vector of the example's
activations a, the array's gradient is the outer product of a and the slope s of the
loss in the product. Its squared length is |a|^2 |s|^2 (Goodfellow 2015): no array of
that size is made. The gradients of all other parameters (biases, convolutions, arrays
used twice) are formed and measured.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun
from jaxtyping import Array, Float

# Names of calls of jitted functions, whose bodies are read as part of the loss.
_CALLS = ("jit", "pjit")
# Entries of gradients that are held at once: 16 MiB.
_ENTRIES = 1 << 22


def squared_lengths(
    loss: Callable[..., Array], params: Any, examples: Any
) -> Float[Array, " examples"]:
    """Return the squared lengths of gradients of a loss (params, example) -> scalar.

    Args:
      examples: a PyTree with a leading axis of examples.
    """
    first = jax.tree.map(lambda values: values[0], examples)
    trace, products = traced(loss, params, first)
    leaves = jax.tree.leaves(params)
    direct = [at for at in range(len(leaves)) if at not in products]
    by_equation = {id(product): (at, i) for at, (product, i) in products.items()}
    outputs: dict[int, Any] = {at: p.outvars[0].aval for at, (p, _) in products.items()}
    taps = {at: jnp.zeros(aval.shape, aval.dtype) for at, aval in outputs.items()}

    def played(
        formed: Sequence[Array], taps: dict[int, Array], example: Any
    ) -> tuple[Array, dict[int, Array]]:
        """Return the loss with taps added to the products, and their other factors."""
        every, factors = list(leaves), {}
        for at, leaf in zip(direct, formed, strict=True):
            every[at] = leaf

        def changed(equation: JaxprEqn, operands: list[Any], out: list[Any]) -> None:
            if id(equation) in by_equation:
                at, other = by_equation[id(equation)]
                factors[at] = operands[other]
                out[0] = out[0] + taps[at]

        (value,) = _evaluated(trace, [*every, *jax.tree.leaves(example)], changed)
        return value, factors

    def of_one(example: Any) -> Array:
        (gradients, slopes), factors = jax.grad(played, (0, 1), has_aux=True)(
            [leaves[at] for at in direct], taps, example
        )
        squares = [jnp.sum(jnp.square(_single(g))) for g in gradients]
        squares += [_of_product(factors[at], slopes[at]) for at in slopes]
        return jnp.asarray(sum(squares))

    size = sum(leaves[at].size for at in direct)
    together = max(1, _ENTRIES // max(size, 1))
    if len(jax.tree.leaves(examples)[0]) <= together:
        return jax.vmap(of_one)(examples)
    return jax.lax.map(of_one, examples, batch_size=together)


def traced(
    loss: Callable[..., Array], params: Any, example: Any
) -> tuple[ClosedJaxpr, dict[int, tuple[JaxprEqn, int]]]:
    """Trace a loss; only shapes and dtypes matter.

    Returns: the loss of (leaves of the parameters, leaves of an example); for each leaf
      that is measured without its gradient the equation that uses it, and the position
      of the other factor among the equation's operands.
    """
    leaves, treedef = jax.tree.flatten((params, example))

    def flat(*leaves: Array) -> Array:
        return loss(*jax.tree.unflatten(treedef, leaves))

    called = jax.make_jaxpr(flat)(*leaves)
    # With the bodies of jitted functions in place of their calls.
    trace = jax.make_jaxpr(lambda *inputs: _evaluated(called, inputs))(*leaves)
    users: dict[Var, list[JaxprEqn]] = {}
    for equation in trace.jaxpr.eqns:
        for operand in equation.invars:
            if not isinstance(operand, Literal):
                users.setdefault(operand, []).append(equation)
    outputs, products = set(trace.jaxpr.outvars), {}
    for at in range(len(jax.tree.leaves(params))):
        product = _product(trace.jaxpr.invars[at], users, outputs)
        if product is not None:
            products[at] = product
    return trace, products


def _product(
    variable: Var, users: dict[Var, list[JaxprEqn]], outputs: set[Any]
) -> tuple[JaxprEqn, int] | None:
    """Return the one product of a parameter with a vector; None: it has other uses."""
    while True:
        if len(users.get(variable, ())) != 1 or variable in outputs:
            return None
        (equation,) = users[variable]
        if equation.primitive.name != "transpose":
            break
        variable = equation.outvars[0]
    if equation.primitive.name != "dot_general":
        return None
    other = 1 - equation.invars.index(variable)
    contracted, batched = equation.params["dimension_numbers"]
    factor: Any = equation.invars[other].aval
    # A vector: all of its entries are summed over.
    vector = factor.size == math.prod(factor.shape[d] for d in contracted[other])
    avals: list[Any] = [v.aval for v in (*equation.invars, *equation.outvars)]
    alike = vector and not batched[0] and len({aval.dtype for aval in avals}) == 1
    return (equation, other) if alike else None


def _of_product(factor: Array, slope: Array) -> Array:
    """Compute |a|^2 |s|^2, in units of the largest entries, as squares may overflow."""
    factor, slope = _single(factor), _single(slope)
    units = [jax.lax.stop_gradient(jnp.abs(v).max()) for v in (factor, slope)]
    units = [jnp.where((unit > 0) & jnp.isfinite(unit), unit, 1.0) for unit in units]
    sums = [jnp.sum(jnp.square(v)) for v in (factor / units[0], slope / units[1])]
    return jnp.square(units[0] * units[1]) * sums[0] * sums[1]


def _single(values: Array) -> Array:
    """Return an array in float32, or in float64 as it is."""
    return values.astype(jnp.promote_types(values.dtype, jnp.float32))


def _evaluated(
    trace: ClosedJaxpr,
    inputs: Sequence[Any],
    changed: Callable[[JaxprEqn, list[Any], list[Any]], None] | None = None,
) -> list[Any]:
    """Evaluate a trace; `changed` may change an equation's results."""
    values: dict[Var, Any] = {}

    def value(operand: Any) -> Any:
        return operand.val if isinstance(operand, Literal) else values[operand]

    values.update(zip(trace.jaxpr.constvars, trace.consts, strict=True))
    values.update(zip(trace.jaxpr.invars, inputs, strict=True))
    for equation in trace.jaxpr.eqns:
        operands = [value(operand) for operand in equation.invars]
        if equation.primitive.name in _CALLS:
            out = _evaluated(equation.params["jaxpr"], operands)
        else:
            given = {
                v: values[v] for v in equation.invars if not isinstance(v, Literal)
            }
            alone = trace.jaxpr.replace(
                constvars=[],
                invars=list(given),
                outvars=equation.outvars,
                eqns=[equation],
            )
            out = list(jaxpr_as_fun(ClosedJaxpr(alone, []))(*given.values()))
        if changed is not None:
            changed(equation, operands, out)
        values.update(zip(equation.outvars, out, strict=True))
    return [value(operand) for operand in trace.jaxpr.outvars]
