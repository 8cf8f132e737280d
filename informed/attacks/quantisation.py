"""How finely released numbers are written, as the noise that it leaves on them."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

# Digits after the point that are tried, the fewest first.
_DECIMALS = 8
# Bits of the significand, the leading one included.
_SIGNIFICANDS = {"bfloat16": 8, "float16": 11, "float32": 24}
_DOUBLE = 53
# The smallest number of float16 that has all its bits: below it spacing is absolute.
_SMALLEST_HALF = 2.0**-14
# Evenly spaced values up to which numbers are taken for quantised.
_MOST_STEPS = 1 << 16
# Names of numbers that have all the digits of training.
_UNROUNDED = ("float64", "float32", "whole numbers")


class Precision(NamedTuple):
    """What released numbers were rounded to.

    Attributes:
      name: "float64", "float32", "float16", "bfloat16", "4 decimals" or "steps of ...".
      deviation: (outputs, features), the standard deviation of rounding.
    """

    name: str
    deviation: Float[np.ndarray, "outputs features"]


def measure(weights: Float[np.ndarray, "outputs features"]) -> Precision:
    """Find the coarsest writing in which all numbers are what they are.

    Numbers of few digits would look like single precision too, so decimals go first.
    Whole numbers are taken for exact: a perceptron on whole numbers has such weights.
    """
    size = np.abs(weights)
    if np.array_equal(np.round(weights), weights):
        return Precision("whole numbers", _spacing(size, _DOUBLE))
    for digits in range(1, _DECIMALS + 1):
        if np.array_equal(np.round(weights, digits), weights):
            spacing = np.full_like(size, 10.0**-digits)
            return Precision(f"{digits} decimals", spacing / np.sqrt(12))
    mantissa, exponent = np.frexp(weights)
    for name, bits in _SIGNIFICANDS.items():
        rounded = np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)
        if np.array_equal(rounded, weights):
            floor = _SMALLEST_HALF if name == "float16" else 0.0
            return Precision(name, _spacing(np.maximum(size, floor), bits))
    step = _step(weights)
    if step is not None:
        return Precision(f"steps of {step:.3g}", np.full_like(size, step / 12**0.5))
    return Precision("float64", _spacing(size, _DOUBLE))


def deviations(release: Any, i: int) -> np.ndarray | None:
    """Return the (params,) deviations of what was added to a model; None: nothing.

    The release is a `shadow.threat.Release`, which isn't imported: it needs JAX. Where
    nobody says what publishing changed, but the numbers are of fewer digits than
    single precision has, they were rounded to these, in training or after.
    """
    if release.deviations is not None:
        return np.asarray(release.deviations[i], np.float64)
    precision = measure(release.weights[i].astype(np.float64)[None])
    return None if precision.name in _UNROUNDED else precision.deviation[0]


def _spacing(size: np.ndarray, bits: int) -> np.ndarray:
    """Return the deviation of rounding to a significand, uniform within a spacing."""
    _, exponent = np.frexp(size)
    return np.where(size > 0, np.ldexp(1.0, exponent - bits), 0.0) / np.sqrt(12)


def _step(weights: np.ndarray) -> float | None:
    """Return the step of evenly spaced numbers, as integers times one scale are."""
    values = np.unique(np.abs(weights))
    values = values[values > 0]
    if not 1 < len(values) < min(_MOST_STEPS, weights.size):
        return None
    step = float(np.diff(values).min())
    if step <= 1e-6 * values[-1]:
        return None
    # The scale from the largest number, which carries it best.
    step = float(values[-1] / np.round(values[-1] / step))
    multiples = weights / step
    # Products of a whole number and a scale, in single precision at the coarsest.
    return step if np.abs(multiples - np.round(multiples)).max() < 1e-4 else None
