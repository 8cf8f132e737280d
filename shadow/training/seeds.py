"""Families of seeds: how theta_0 is made from an integer, as training scripts do.

    theta_0 = init(jax.random.key(seed))

Who knows the family and not the seed can try them all (`informed.attacks.seeds`).
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from shadow import checks
from shadow.precision import highest

BITS = 32


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SeedFamily:
    """Which seeds there are, and theta_0 of each.

    Attributes:
      draw: what makes theta_0, any tree of arrays, its leaves in the order of theta.
        A function of a JAX key, traced, and called with `jax.random.key(seed)`.
      start, stop: the seeds are start, ..., stop - 1.
    Raises: FieldError: no seeds, or seeds of more than 32 bits (JAX without float64
      takes no more of one).
    """

    draw: Callable[[Any], Any]
    start: int = 0
    stop: int = 2**BITS

    def __post_init__(self) -> None:
        checks.at_least("start", self.start, 0)
        checks.at_least("stop", self.stop, self.start + 1)
        checks.require("stop", self.stop, self.stop <= 2**BITS, f"<= 2**{BITS}")

    def __len__(self) -> int:
        return self.stop - self.start

    def theta(self, seed: int) -> Float[np.ndarray, " params"]:
        """Draw theta_0 as this seed draws it."""
        return np.asarray(self.traced(np.uint32(seed)))

    @functools.cached_property
    def traced(self) -> Callable[[Any], Float[Array, " params"]]:
        """Theta_0 of a seed, compiled."""

        @highest
        def theta(seed: Array) -> Array:
            leaves = jax.tree.leaves(self.draw(jax.random.key(seed)))
            return jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])

        return jax.jit(theta)

    def own_key(self, seed: Any) -> Array:
        """Return the key of a seed, for an A that makes its own theta_0."""
        return jax.random.key(jnp.uint32(seed))
