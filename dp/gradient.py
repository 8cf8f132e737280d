"""The gradient of DP-SGD: a sum of clipped per-example gradients, plus Gaussian noise.

`shadow.training` calls both clipped sums and `add_noise`, and divides by a public
number. The order of examples has to be public too. `clipped_sum` forms no per-example
gradients of dense layers w^T a + b. Each is the outer product of the example's input a
and the slope d of its loss in the layer's output, of squared length (|a|^2 + 1) |d|^2:
a "ghost norm" (Goodfellow 2015; Li et al. 2022). The gradient of losses weighted by
min(1, C / length), with C the clipping norm, is then the clipped sum. The lengths take
a backward pass of their own; compiled, it computes no gradients of weights.
`clipped_sum_traced` sums for any network, by `ghost_norms`.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dp import domain
from dp.ghost_norms import squared_lengths

# By layer: zeros added to its outputs, whose derivatives are the slopes; or its inputs.
Taps = Mapping[str, Array]
# Incremented when private training with the same key would give other weights.
REVISION = 5
# The least clipping norm: squares of the entries of gradients that are longer don't
# vanish in float32.
_SHORTEST = 1e-12
_DRAWS = 4  # normal numbers summed for one of the noise: (2^23)^4 outcomes
_GRID = 2.0**-10  # standard deviations: far above float32's digits, far below the noise


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacyConfig:
    """Settings of private training; off, without any effect, while clip_norm is None.

    Attributes:
      clip_norm: C, > 0 and finite; longer gradients of an example are cut to this
        length.
      noise_multiplier: sigma, >= 0 and finite; the standard deviation of the noise on
        the sum of clipped gradients over C. 0: only clipped, with no guarantee.
      sampling_probability: q, in (0, 1]; in each step every example takes part with
        this probability. 1: full batches.
      sampling: "poisson": independently in each step; "allocation": in exactly one
        uniformly random step of every 1 / q, a whole number, independently of all other
        examples (`dp.RandomAllocation`).
    """

    clip_norm: float | None = None
    noise_multiplier: float = 0.0
    sampling_probability: float = 1.0
    sampling: str = "poisson"

    def __post_init__(self) -> None:
        domain.choice("sampling", self.sampling, ("poisson", "allocation"))
        if self.clip_norm is not None:
            domain.finite_above("clip_norm", self.clip_norm, 0)
        domain.finite_at_least_0("noise_multiplier", self.noise_multiplier)
        domain.share("sampling_probability", self.sampling_probability)
        if not self.on and (self.noise_multiplier or self.sampling_probability < 1):
            raise domain.FieldError(
                "clip_norm",
                "{} is None, which turns privacy off, but noise or sampling is asked"
                " for. Set it.",
            )
        if self.clip_norm is not None:
            # Float32 would round others to 0 or infinity.
            limits = np.finfo(np.float32)
            held = _SHORTEST <= self.clip_norm <= float(limits.max)
            allowed = f"to be a number of float32, at least {_SHORTEST:g}"
            domain.require("clip_norm", self.clip_norm, held, allowed)
            deviation = float(np.multiply(self.noise_multiplier, self.clip_norm))
            held = deviation <= float(limits.max)
            held &= deviation >= float(limits.tiny) or not self.noise_multiplier
            allowed = "so that its product with clip_norm is a number of float32"
            domain.require("noise_multiplier", self.noise_multiplier, held, allowed)
        if self.sampling == "allocation":
            q = self.sampling_probability
            whole = abs(1 / q / self.steps_an_epoch - 1) < 1e-6
            allowed = "to be one over a whole number, the steps of an epoch"
            domain.require("sampling_probability", q, whole, allowed)

    @property
    def on(self) -> bool:
        """Return whether gradients are clipped at all."""
        return self.clip_norm is not None

    @property
    def drawn_probability(self) -> float:
        """Return the actual probability that an example takes part, at least q.

        Draws are compared with q in float32, of which there are 2^23 in [0, 1): a q of
        1e-8 comes out twelve times as often.
        """
        drawn = math.ceil(float(np.float32(self.sampling_probability)) * 2**23) / 2**23
        return max(self.sampling_probability, drawn)

    @property
    def steps_an_epoch(self) -> int:
        """Return the steps of an epoch of "allocation": 1 / q."""
        return round(1 / self.sampling_probability)

    def require_noise(self) -> None:
        """Raise ValueError where no noise is added, so that nothing is guaranteed."""
        if not self.on or not self.noise_multiplier:
            raise ValueError(
                "Training without clipping and noise has no privacy guarantee. Set"
                " clip_norm and noise_multiplier."
            )


def clipped_sum(
    losses: Callable[[Any, Taps], tuple[Array, Taps]],
    params: Any,
    taps: Taps,
    *,
    clip_norm: float,
    weights: Float[Array, " examples"] | None = None,
) -> Any:
    """Return the sum of clipped per-example gradients, by ghost norms.

    Args:
      losses: (params, taps) -> (losses (examples,), the inputs of each layer (features,
        examples, ...)); adds taps to the outputs (units, examples, ...) of the layers.
        Each layer is w^T inputs + b, each w and b in params used by one layer.
      params: parameters, any PyTree of arrays.
      taps: zeros, one per layer.
      clip_norm: C, the length that gradients of an example are cut to, > 0.
      weights: weight of each example (examples,), such as 0 for those that aren't in
        the batch.
    Returns: like params; NaN where a gradient isn't finite.
    Raises: ValueError: clip_norm isn't > 0 and finite.
    """
    values, pull, inputs = jax.vjp(losses, params, taps, has_aux=True)
    _, slopes = pull(jnp.ones_like(values))
    squared = sum(squared_norms(inputs[layer], slopes[layer]) for layer in taps)
    factors = clip_factors(jnp.asarray(squared), clip_norm)
    return pull(factors if weights is None else weights * factors)[0]


def clipped_sum_traced(
    loss: Callable[..., Array],
    params: Any,
    examples: Any,
    *,
    clip_norm: float,
    weights: Float[Array, " examples"] | None = None,
) -> Any:
    """Return the clipped sum for any network, whose loss is traced (`ghost_norms`).

    Args:
      loss: the loss of one example, a function (params, example) -> scalar.
      examples: a PyTree with a leading axis of examples.
      params, clip_norm, weights: those of `clipped_sum`.
    """
    factors = clip_factors(squared_lengths(loss, params, examples), clip_norm)
    factors = jax.lax.stop_gradient(factors if weights is None else weights * factors)

    def weighted(params: Any) -> Array:
        return factors @ jax.vmap(loss, in_axes=(None, 0))(params, examples)

    return jax.grad(weighted)(params)


def squared_norms(
    inputs: Float[Array, "features examples *positions"],
    slopes: Float[Array, "units examples *positions"],
) -> Float[Array, " examples"]:
    """Compute squared lengths of the gradients of a layer's w and b, one an example."""
    if inputs.ndim == 2:
        # In units of the largest slope: in float32 the square of a slope can be 0 where
        # the gradient is long all the same.
        units = jax.lax.stop_gradient(jnp.abs(slopes).max(axis=0))
        units = jnp.where(units > 0, units, 1.0)
        squares = jnp.sum((slopes / units[None]) ** 2, axis=0)
        return (jnp.sum(inputs**2, axis=0) + 1) * units * squares * units
    inputs = inputs.reshape(*inputs.shape[:2], -1)
    slopes = slopes.reshape(*slopes.shape[:2], -1)
    of_bias = jnp.sum(jnp.sum(slopes, axis=2) ** 2, axis=0)
    # From inner products of positions (Bu et al. 2022) it would need less memory, but
    # where gradients of positions cancel, rounding can make such a sum 0 or less: then
    # a gradient of any length passes the clipping.
    gradients = jnp.einsum("fnp,unp->nfu", inputs, slopes)
    return jnp.sum(gradients**2, axis=(1, 2)) + of_bias


def clip_factors(
    squared: Float[Array, " examples"], clip_norm: float
) -> Float[Array, " examples"]:
    """Return min(1, C / length) from squared lengths, with C = clip_norm; NaN stays."""
    domain.finite_above("clip_norm", clip_norm, 0)
    smallest = jnp.finfo(squared.dtype).tiny
    return jnp.minimum(1.0, clip_norm / jnp.sqrt(jnp.maximum(squared, smallest)))


def add_noise(key: Array, sums: Any, deviation: float) -> Any:
    """Return a PyTree with Gaussian noise on every entry, rounded to a public grid.

    A normal number of float32 is one of 2^23, far apart in the tails, and the gradient
    shows in the last digits of the noisy sum: both reveal the gradient beneath the
    noise, however large it is (Mironov 2012). So each normal number here is made of
    `_DRAWS` (Holohan and Braghin 2021), and the noisy sum is rounded to a multiple of
    `_GRID` deviations, which is processing of a release and costs no privacy. What is
    accounted for is exactly normal noise; this is as near as float32 comes, without a
    proof. JAX's generator isn't a cryptographic one. Sums of fewer bits than float32
    are made float32 for it and cast back afterwards.

    Raises: ValueError: the deviation isn't >= 0 and finite.
    """
    domain.finite_at_least_0("deviation", deviation)
    if not deviation:
        return sums
    leaves, treedef = jax.tree.flatten(sums)
    sizes = [leaf.size for leaf in leaves]
    dtype = jnp.result_type(jnp.float32, *leaves)
    drawn = jax.random.normal(key, (_DRAWS, sum(sizes)), dtype).sum(axis=0)
    noise = drawn * (deviation / math.sqrt(_DRAWS))
    # A power of two, so that dividing by it and multiplying are exact.
    least = float(jnp.finfo(dtype).tiny)
    grid = 2.0 ** math.floor(math.log2(max(deviation * _GRID, least)))
    parts = jnp.split(noise, [sum(sizes[:i]) for i in range(1, len(sizes))])
    noisy = [
        _rounded(leaf.astype(dtype) + part.reshape(leaf.shape), grid).astype(leaf.dtype)
        for leaf, part in zip(leaves, parts, strict=True)
    ]
    return jax.tree.unflatten(treedef, noisy)


def _rounded(values: Array, grid: float) -> Array:
    """Round to multiples of a power of two, which larger numbers are already."""
    largest = 2.0 ** jnp.finfo(values.dtype).nmant * grid
    inside = jnp.where(jnp.abs(values) < largest, values, 0)
    return jnp.where(inside == values, jnp.round(inside / grid) * grid, values)
