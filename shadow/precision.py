"""The precision of matrix products: "highest" wherever an attack reads the result.

JAX's own choice on a GPU is TF32, with ten bits.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def highest(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Decorates a function whose products, traced or run, are in full float32."""

    @functools.wraps(function)
    def exact(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        with jax.default_matmul_precision("highest"):
            return function(*arguments, **named)

    return exact
