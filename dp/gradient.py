"""The gradient of DP-SGD: a sum of clipped per-example gradients, plus Gaussian noise.

`shadow.training` calls both clipped sums and `add_noise`, and divides by a public
number. The order of examples has to be public too. Both sums are made of the very
numbers whose length was measured. A second backward pass, of weighted losses, would
round otherwise: where gradients nearly cancel, or are computed in bfloat16, one example
could move the sum by many clipping norms.

`clipped_sum_traced` is for any network; `ghost_norms` says how it measures. Networks of
`shadow` state the inputs of their layers, which is faster: `clipped_sum`.
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
from dp.ghost_norms import Gradients, single

# By layer: zeros added to its outputs, whose derivatives are the slopes; or its inputs.
Taps = Mapping[str, Array]
# Incremented when private training with the same key would give other weights.
REVISION = 6
# The least clipping norm: squares of the entries of gradients that are longer don't
# vanish in float32.
_SHORTEST = 1e-12
_DRAWS = 4  # normal numbers summed for one of the noise: (2^23)^4 outcomes
# Entries of gradients that are held at once: 16 MiB.
_ENTRIES = 1 << 22
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
    losses: Callable[[Taps], tuple[Array, Taps]],
    params: Mapping[str, Mapping[str, Array]],
    taps: Taps,
    *,
    clip_norm: float,
    weights: Float[Array, " examples"] | None = None,
) -> dict[str, dict[str, Array]]:
    """Return the sum of clipped per-example gradients of layers w^T inputs + b.

    Args:
      losses: taps -> (losses (examples,), the inputs of each layer (features, examples,
        ...)); adds taps to the outputs (units, examples, ...) of the layers.
      params: w and b of each layer, by its name; w has the shape (features, units), or
        one that is reshaped to it.
      taps: zeros, one per layer.
      clip_norm: C, the length that gradients of an example are cut to, > 0.
      weights: weight of each example (examples,), such as 0 for those that aren't in
        the batch; at most 1.
    Returns: like params, in float32 at least; NaN where a gradient isn't finite.
    Raises: ValueError: clip_norm isn't > 0 and finite.
    """
    values, pull, inputs = jax.vjp(losses, taps, has_aux=True)
    (slopes,) = pull(jnp.ones_like(values))
    squared, layers = jnp.zeros(len(values)), {}
    for name in taps:
        x, slope, formed = single(inputs[name]), single(slopes[name]), None
        if x.ndim == 2:
            squared += squared_norms(x, slope)
        else:
            x, slope = (v.reshape(*v.shape[:2], -1) for v in (x, slope))
            # Inner products of positions (Bu et al. 2022) would need less memory. But
            # where gradients of positions cancel, rounding can make such a length 0.
            formed = jnp.einsum("fnp,unp->nfu", x, slope)
            slope = slope.sum(axis=2)
            squared += jnp.sum(formed**2, axis=(1, 2)) + jnp.sum(slope**2, axis=0)
        layers[name] = x, slope, formed
    factors = clip_factors(squared, clip_norm)
    factors = factors if weights is None else weights * factors
    sums = {}
    for name, (x, slope, formed) in layers.items():
        slope = slope * factors[None]
        if formed is None:
            w = jnp.matmul(x, slope.T, precision="highest")
        else:
            w = jnp.tensordot(factors, formed, 1, precision="highest")
        sums[name] = {"w": w.reshape(params[name]["w"].shape), "b": slope.sum(axis=1)}
    return sums


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
      params: parameters, any PyTree of floating-point arrays.
      examples: a PyTree with a leading axis of examples.
      clip_norm, weights: those of `clipped_sum`.
    Returns: like params, in float32 at least, as a rounded sum could move further than
      C; NaN where a gradient isn't finite.
    Raises: ValueError: clip_norm isn't > 0 and finite, or the weights have
      another length.
    """
    examples = jax.tree.map(jnp.asarray, examples)  # their rows are taken in a loop
    first = jax.tree.map(lambda values: values[0], examples)
    gradients = Gradients(loss, params, first)
    count = len(jax.tree.leaves(examples)[0])
    weights = jnp.ones(count) if weights is None else jnp.asarray(weights)
    if weights.shape != (count,):
        raise ValueError(f"Expected {count} weights, got the shape {weights.shape}.")

    def of_group(group: Any, weights: Array) -> Any:
        # Without the barrier XLA might compute what is measured and what is summed
        # apart, and round them differently.
        parts = jax.lax.optimization_barrier(jax.vmap(gradients)(group))
        squared = jax.vmap(gradients.squared_length)(parts)
        return gradients.total(parts, weights * clip_factors(squared, clip_norm))

    groups = min(-(-count * gradients.entries // _ENTRIES), count)
    if groups <= 1:
        return of_group(examples, weights)
    size = -(-count // groups)
    groups = -(-count // size)
    # The last group is filled up with the first examples, of weight 0.
    rows = jnp.arange(groups * size).reshape(groups, size)
    kept = jnp.where(rows < count, weights[rows % count], 0)

    def add(before: Any, group: tuple[Array, Array]) -> tuple[Any, None]:
        rows, weights = group
        part = of_group(jax.tree.map(lambda values: values[rows], examples), weights)
        return jax.tree.map(jnp.add, before, part), None

    def zeros(leaf: Array) -> Array:
        return jnp.zeros(leaf.shape, jnp.promote_types(leaf.dtype, jnp.float32))

    # Reverse mode through training stores only the sum of a group.
    added = jax.checkpoint(add, prevent_cse=False)
    return jax.lax.scan(added, jax.tree.map(zeros, params), (rows % count, kept))[0]


def squared_norms(
    inputs: Float[Array, "features examples"], slopes: Float[Array, "units examples"]
) -> Float[Array, " examples"]:
    """Compute squared lengths of the gradients of a layer's w and b, one an example.

    The gradient of w is the outer product of input and slope, of squared length
    |input|^2 |slope|^2: a "ghost norm" (Goodfellow 2015; Li et al. 2022).
    """
    # In units of the largest slope: in float32 the square of a slope can be 0 where the
    # gradient is long all the same.
    units = jax.lax.stop_gradient(jnp.abs(slopes).max(axis=0))
    units = jnp.where(units > 0, units, 1.0)
    squares = jnp.sum((slopes / units[None]) ** 2, axis=0)
    return (jnp.sum(inputs**2, axis=0) + 1) * units * squares * units


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

    Raises: ValueError: the deviation isn't >= 0 and finite, or an entry is complex.
    """
    domain.finite_at_least_0("deviation", deviation)
    if not deviation:
        return sums
    leaves, treedef = jax.tree.flatten(sums)
    sizes = [leaf.size for leaf in leaves]
    dtype = jnp.result_type(jnp.float32, *leaves)
    if jnp.issubdtype(dtype, jnp.complexfloating):  # JAX would halve the variance
        raise ValueError("Expected real sums: add noise to real and imaginary parts.")
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
