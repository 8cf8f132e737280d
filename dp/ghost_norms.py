"""Per-example gradients of a loss, without forming those of dense layers.

`gradient.clipped_sum_traced` measures, clips and sums them. We trace the loss of one
example. Where a parameter array is used once, by a product with one vector of the
example's activations a, the array's gradient is the outer product of a and the slope s
of the loss in the product. Its squared length is |a|^2 |s|^2: no array of that size is
made for an example (Goodfellow 2015; Li et al. 2022). The gradients of all other
parameters (biases, convolutions, arrays used twice) are formed.
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
# Of every leaf of the parameters: its gradient alone, or the factors a and s.
Parts = list[tuple[Array, ...]]


class Gradients:
    """Per-example gradients of a loss (params, example) -> scalar.

    Args:
      params: a PyTree of arrays.
      example: a PyTree; only shapes and dtypes matter.
    Attributes:
      entries: how many numbers of an example's gradient are formed.
    """

    def __init__(self, loss: Callable[..., Array], params: Any, example: Any) -> None:
        self._leaves, self._treedef = jax.tree.flatten(params)
        self._trace, self._products = traced(loss, params, example)
        self.entries = sum(
            leaf.size
            for at, leaf in enumerate(self._leaves)
            if at not in self._products
        )

    def __call__(self, example: Any) -> Parts:
        """Return the gradient of one example, in float32 at least."""
        by_equation = {id(path[-1]): at for at, (path, _) in self._products.items()}

        def played(tapped: list[Array]) -> tuple[Array, dict[int, Array]]:
            """Return the loss and the products' other factors.

            `tapped` holds the leaves; in place of those in products it holds zeros that
            are added to the products.
            """
            factors = {}

            def changed(
                equation: JaxprEqn, operands: list[Any], out: list[Any]
            ) -> None:
                at = by_equation.get(id(equation))
                if at is not None:
                    factors[at] = operands[self._products[at][1]]
                    out[0] = out[0] + tapped[at]

            leaves = [
                leaf if at in self._products else tapped[at]
                for at, leaf in enumerate(self._leaves)
            ]
            inputs = [*leaves, *jax.tree.leaves(example)]
            (value,) = _evaluated(self._trace, inputs, changed)
            return value, factors

        tapped = list(self._leaves)
        for at, (path, _) in self._products.items():
            aval: Any = path[-1].outvars[0].aval
            tapped[at] = jnp.zeros(aval.shape, aval.dtype)
        slopes, factors = jax.grad(played, has_aux=True)(tapped)
        return [
            (single(factors[at]), single(slope)) if at in factors else (single(slope),)
            for at, slope in enumerate(slopes)
        ]

    def squared_length(self, parts: Parts) -> Float[Array, ""]:
        """Return the squared length of the gradient of one example."""
        squares = [
            jnp.sum(jnp.square(part[0]))
            if len(part) == 1
            else _of_product(part[0], part[1])
            for part in parts
        ]
        return jnp.asarray(sum(squares))

    def total(self, parts: Parts, weights: Float[Array, " examples"]) -> Any:
        """Return the weighted sum of gradients of examples, stacked; like params."""
        sums = []
        for at, leaf in enumerate(self._leaves):
            *factor, slopes = parts[at]
            scale = weights.astype(slopes.dtype)
            if not factor:
                sums.append(jnp.tensordot(scale, slopes, 1, precision="highest"))
                continue
            path, other = self._products[at]

            def products(leaf: Array, of: Any = (factor[0], path, other)) -> Array:
                return jax.vmap(lambda a: _product_of(leaf, a, *of[1:]))(of[0])

            like = jax.ShapeDtypeStruct(leaf.shape, slopes.dtype)
            weighted = jax.vmap(jnp.multiply)(scale, slopes)
            sums += jax.linear_transpose(products, like)(weighted)
        return jax.tree.unflatten(self._treedef, sums)


def traced(
    loss: Callable[..., Array], params: Any, example: Any
) -> tuple[ClosedJaxpr, dict[int, tuple[list[JaxprEqn], int]]]:
    """Trace a loss; only shapes and dtypes matter.

    Returns: the loss of (leaves of the parameters, leaves of an example); for each leaf
      whose gradient isn't formed, the transpositions and the product that use it, and
      the position of the other factor among the product's operands.
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
) -> tuple[list[JaxprEqn], int] | None:
    """Return the one product of a parameter with a vector; None: it has other uses."""
    path: list[JaxprEqn] = []
    while True:
        if len(users.get(variable, ())) != 1 or variable in outputs:
            return None
        (equation,) = users[variable]
        path.append(equation)
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
    return (path, other) if alike else None


def _product_of(
    leaf: Array, factor: Array, path: Sequence[JaxprEqn], other: int
) -> Array:
    """Compute the product of a leaf and the other factor, as `path` does."""
    *transpositions, last = path
    for equation in transpositions:
        leaf = jnp.transpose(leaf, equation.params["permutation"])
    operands = (factor, leaf) if other == 0 else (leaf, factor)
    dimensions = last.params["dimension_numbers"]
    return jax.lax.dot_general(*operands, dimensions, precision="highest")


def _of_product(factor: Array, slope: Array) -> Array:
    """Compute |a|^2 |s|^2, in units of the largest entries, as squares may overflow."""
    factor, slope = single(factor), single(slope)
    units = [jax.lax.stop_gradient(jnp.abs(v).max()) for v in (factor, slope)]
    units = [jnp.where((unit > 0) & jnp.isfinite(unit), unit, 1.0) for unit in units]
    sums = [jnp.sum(jnp.square(v)) for v in (factor / units[0], slope / units[1])]
    return jnp.square(units[0] * units[1]) * sums[0] * sums[1]


def single(values: Array) -> Array:
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
