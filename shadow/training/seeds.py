"""Families of seeds: how initial weights theta_0 are drawn from a secret integer.

    theta_0 = init(jax.random.key(seed))

Many scripts draw theta_0 so, and `gradient_descent` can. `informed.attacks.seeds` tries
all seeds of a `SeedFamily`, which an adversary has as `Knowledge.seeds`.
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
    """A range of seeds, and the function that draws theta_0 from one.

    Attributes:
      draw: jax.random.key(seed) -> theta_0, any tree of arrays, its leaves in the order
        of theta; traced.
      start, stop: the seeds are start, ..., stop - 1.
    Raises: FieldError: no seeds, or seeds of more than 32 bits, which JAX without
      float64 doesn't take.
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
        """Draw theta_0 from a seed."""
        return np.asarray(self.traced(np.uint32(seed)))

    @functools.cached_property
    def traced(self) -> Callable[[Any], Float[Array, " params"]]:
        """The compiled function from a seed to theta_0."""

        @highest
        def theta(seed: Array) -> Array:
            leaves = jax.tree.leaves(self.draw(jax.random.key(seed)))
            return jnp.concatenate([jnp.ravel(leaf) for leaf in leaves])

        return jax.jit(theta)

    def own_key(self, seed: Any) -> Array:
        """Return the key of a seed, for users' training that makes theta_0 itself."""
        return jax.random.key(jnp.uint32(seed))
