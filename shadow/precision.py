"""Give a function full float32 matrix products, by the decorator `highest`.

The toolkit's own training, metrics and `uninformed.bilevel` take it. JAX's default on a
GPU is TF32, with ten bits of mantissa, too few for exact attacks.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def highest(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Decorate a function, so that its products are in full float32."""

    @functools.wraps(function)
    def exact(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        with jax.default_matmul_precision("highest"):
            return function(*arguments, **named)

    return exact
