"""Round released weights to float16, bfloat16 or int8, for `views.Layers`."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Float32

from shadow import checks
from shadow.victims import Slice

Rounded = tuple[np.ndarray, np.ndarray]  # weights, and the spacing of numbers at each


def rounded(
    weights: Float32[np.ndarray, "models params"], form: str, layout: Sequence[Slice]
) -> tuple[Float32[np.ndarray, "models params"], Float[np.ndarray, "models params"]]:
    """Round theta of each model to a number format.

    Args:
      form: "float16", "bfloat16", or "int8": whole numbers of -127 .. 127 times one
        scale per array of parameters.
      layout: the arrays of theta.
    Returns: the rounded weights as float32, and the standard deviation of the rounding
      of each: spacing / sqrt(12), as if evenly distributed. An adversary can compute
      these from the rounded weights alone.
    Raises: ValueError: another format.
    """
    checks.choice("form", form, FORMATS)
    if not layout or layout[-1].stop != weights.shape[1]:
        raise checks.FieldError(
            "layout",
            f"Expected {{}} of the {weights.shape[1]} parameters that are rounded, as"
            " Layers.of(layout, precision=...) has it.",
        )
    published = np.empty_like(weights)
    spacings = np.empty(weights.shape, np.float64)
    for part in layout:
        columns = slice(part.start, part.stop)
        published[:, columns], spacings[:, columns] = FORMATS[form](weights[:, columns])
    return published, spacings / np.sqrt(12)


def _floating(dtype: Any, mantissa_bits: int) -> Callable[[np.ndarray], Rounded]:
    def rounding(weights: np.ndarray) -> Rounded:
        smallest = float(jnp.finfo(dtype).smallest_normal)
        published = weights.astype(dtype).astype(np.float32)
        exponents = np.floor(np.log2(np.maximum(np.abs(published), smallest)))
        return published, 2.0 ** (exponents - mantissa_bits)

    return rounding


def _int8(weights: np.ndarray) -> Rounded:
    largest = np.abs(weights).max(axis=1, keepdims=True, initial=0)
    scales = np.maximum(largest, np.finfo(np.float32).tiny) / 127
    published = (np.round(weights / scales) * scales).astype(np.float32)
    spacings = np.abs(published).max(axis=1, keepdims=True, initial=0) / 127.0
    return published, np.broadcast_to(spacings.astype(np.float64), weights.shape)


FORMATS: dict[str, Callable[[np.ndarray], Rounded]] = {
    "float16": _floating(np.float16, 10),
    "bfloat16": _floating(jnp.bfloat16, 7),
    "int8": _int8,
}
