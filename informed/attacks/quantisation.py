"""Detect the number format of released weights, and the rounding noise that it implies.

Attacks call it to know how far released weights may be from the trained ones: `span`
calls `measure`, and inversion, seeds and `stationary` call `deviations`.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

# Largest number of decimals to test for.
_DECIMALS = 8
# Bits of the significand, the leading one included.
_SIGNIFICANDS = {"bfloat16": 8, "float16": 11, "float32": 24}
_DOUBLE = 53  # of float64
# The smallest normal number of float16; below it spacing is constant.
_SMALLEST_HALF = 2.0**-14
# Numbers with more distinct values than this don't count as quantised to integers.
_MOST_STEPS = 1 << 16
# Formats that keep all digits of training.
_UNROUNDED = ("float64", "float32", "whole numbers")


class Precision(NamedTuple):
    """The number format of released weights, and its rounding error."""

    # "float64", "bfloat16", ..., "4 decimals", "whole numbers" or "steps of ...".
    name: str
    deviation: Float[np.ndarray, "outputs features"]  # standard deviation of rounding


def measure(weights: Float[np.ndarray, "outputs features"]) -> Precision:
    """Find the coarsest number format that represents all weights exactly.

    Decimals are tested first, because numbers of few digits are also floats. Whole
    numbers count as exact: a perceptron on whole numbers has such weights.
    """
    size = np.abs(weights)
    if np.array_equal(np.round(weights), weights):
        return Precision("whole numbers", _spacing(size, _DOUBLE))
    single = np.array_equal(np.asarray(weights, np.float32), weights)
    finest = 16 * np.spacing(np.float32(size.max(initial=0.0))) if single else 0.0
    for digits in range(1, _DECIMALS + 1):
        rounded = np.round(weights, digits)
        if single:  # decimals of float32 aren't those of float64
            rounded = rounded.astype(np.float32).astype(np.float64)
        if 10.0**-digits >= finest and np.array_equal(rounded, weights):
            spacing = np.full_like(size, 10.0**-digits)
            return Precision(f"{digits} decimals", spacing / np.sqrt(12))
    mantissa, exponent = np.frexp(weights)
    for name, bits in _SIGNIFICANDS.items():
        rounded = np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)
        if np.array_equal(rounded, weights):
            if name == "float32" and _step(weights) is not None:
                break
            floor = _SMALLEST_HALF if name == "float16" else 0.0
            return Precision(name, _spacing(np.maximum(size, floor), bits))
    step = _step(weights)
    if step is not None:
        return Precision(f"steps of {step:.3g}", np.full_like(size, step / 12**0.5))
    return Precision("float64", _spacing(size, _DOUBLE))


def deviations(release: Any, i: int) -> np.ndarray | None:
    """Return (params,) deviations of what publishing added to a model; None: nothing.

    The release is a `shadow.threat.Release`, which isn't imported because it needs JAX.
    If it doesn't declare deviations, they follow from the format of its numbers.
    """
    if release.deviations is not None:
        return np.asarray(release.deviations[i], np.float64)
    precision = measure(release.weights[i].astype(np.float64)[None])
    return None if precision.name in _UNROUNDED else precision.deviation[0]


def _spacing(size: np.ndarray, bits: int) -> np.ndarray:
    """Return the standard deviation of rounding to `bits` bits of significand."""
    _, exponent = np.frexp(size)
    return np.where(size > 0, np.ldexp(1.0, exponent - bits), 0.0) / np.sqrt(12)


def _step(weights: np.ndarray) -> float | None:
    """Return the step if all weights are integers times one scale; else None."""
    values = np.unique(np.abs(weights))
    values = values[values > 0]
    if not 1 < len(values) < min(_MOST_STEPS, weights.size):
        return None
    step = float(np.diff(values).min())
    if step <= 1e-6 * values[-1]:
        return None
    # The largest number determines the scale most precisely.
    step = float(values[-1] / np.round(values[-1] / step))
    multiples = weights / step
    # The tolerance allows for products rounded to single precision.
    return step if np.abs(multiples - np.round(multiples)).max() < 1e-4 else None
