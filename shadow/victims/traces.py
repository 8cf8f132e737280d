"""Hash what a network or optimiser in JAX computes, to identify it in records.

Victims, `gradient_descent`, `reconn.modules` and `reconn.network` call `digest`.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

_ADDRESS = re.compile(r"0x[0-9a-f]+")


def digest(function: Callable, *arguments: Any) -> str:
    """Hash a function's trace, and the arrays and numbers that it captures.

    Functions with the same operations have the same hash, in whatever file they are.
    Arguments are arrays, or their shapes (`jax.ShapeDtypeStruct`).
    """
    # A new function each time, whose trace JAX hasn't kept from other settings.
    trace = jax.make_jaxpr(lambda *values: function(*values))(*arguments)
    hashed = hashlib.sha256(_ADDRESS.sub("", str(trace.jaxpr)).encode())
    for value in _held(trace):
        if jax.dtypes.issubdtype(getattr(value, "dtype", float), jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        array = np.asarray(value)
        hashed.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return hashed.hexdigest()


def _held(node: Any) -> Iterator[Any]:
    """Yield the arrays and numbers of a trace, those of inner functions too."""
    if isinstance(node, ClosedJaxpr):
        yield from node.consts
        node = node.jaxpr
    if isinstance(node, Jaxpr):
        for equation in node.eqns:
            for operand in equation.invars:
                if isinstance(operand, Literal):
                    yield operand.val
            yield from _held(list(equation.params.values()))
    elif isinstance(node, list | tuple):
        for part in node:
            yield from _held(part)
