"""A trace's hash: the same for what computes the same, another for other constants."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shadow.victims.traces import digest

ARGUMENT = jax.ShapeDtypeStruct((40,), jnp.float32)


def doubled(function):
    """The function behind a custom rule of differentiation."""
    rule = jax.custom_vjp(function)
    rule.defvjp(lambda x: (function(x), x), lambda x, tangent: (2 * tangent * x,))
    return lambda x: rule(x)


WRAPPERS = {
    "bare": lambda function: function,
    "jit": jax.jit,
    "jit in jit": lambda function: jax.jit(jax.jit(function)),
    "checkpoint": jax.checkpoint,
    "custom_vjp": doubled,
    "scan": lambda function: (
        lambda x: jax.lax.scan(
            lambda total, _: (total + function(x), None), 0.0, length=3
        )[0]
    ),
    "cond": lambda function: lambda x: jax.lax.cond(x[0] > 0, function, jnp.sum, x),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("library", [np, jnp])
def test_a_captured_array_counts_however_the_function_is_wrapped(wrapper, library):
    def build(last):
        held = library.asarray(np.append(np.ones(39), last), dtype=np.float32)
        return WRAPPERS[wrapper](lambda x: (x * held).sum())

    assert digest(build(1.0), ARGUMENT) == digest(build(1.0), ARGUMENT)
    assert digest(build(1.0), ARGUMENT) != digest(build(2.0), ARGUMENT)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_number_counts_to_its_last_bit(wrapper):
    number = np.float32(1 / 3)
    close = np.nextafter(number, np.float32(1))

    def build(factor):
        return WRAPPERS[wrapper](lambda x: (x * factor).sum())

    assert digest(build(number), ARGUMENT) != digest(build(close), ARGUMENT)
