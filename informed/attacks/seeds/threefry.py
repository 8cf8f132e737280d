"""Compute single elements of JAX's random initialisations, for many seeds at once.

The seed search needs a few weights for each of billions of seeds, and drawing whole
arrays would be too slow. JAX's generator is threefry, a function of a key and a
counter. With the partitionable form (JAX's default), the random word of element i of an
array depends on the key and i only. So `element`, for `seed_search`, traces the user's
initialiser (`draw`: key -> theta_0) under a generator that fills every array with the
random word of the requested element; XLA then computes that element alone. `split` and
`fold_in` are threefry's own, so keys may be derived as Haiku, Flax or Equinox do.

Source: Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3; JAX.
Checked: tests/informed/attacks/test_seeds.py (`jax.random` itself).
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import random as extended
from jaxtyping import Array, Float, UInt32

# Of Threefry-2x32 in the source: the bits of each rotation, and the key's parity.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def threefry2x32(key: tuple[Array, Array], high: Any, low: Any) -> tuple[Array, Array]:
    """Encrypt the counter (high, low) by Threefry-2x32, unrolled for XLA to fuse."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    x, y = high + keys[0], low + keys[1]
    for step in range(5):
        for rotation in _ROTATIONS[step % 2]:
            x = x + y
            y = (y << rotation) | (y >> (32 - rotation))
            y = x ^ y
        x = x + keys[(step + 1) % 3]
        y = y + keys[(step + 2) % 3] + jnp.uint32(step + 1)
    return x, y


def _child(key: UInt32[Array, "2"], data: Any) -> UInt32[Array, "2"]:
    """Derive the same key as `jax.random.fold_in(key, data)`."""
    counter = jnp.asarray(data, jnp.uint32)
    return jnp.stack(threefry2x32((key[0], key[1]), jnp.uint32(0), counter))


def _split(key: UInt32[Array, "2"], shape: tuple[int, ...]) -> UInt32[Array, "..."]:
    """Derive the keys of `jax.random.split`; XLA drops unused ones."""
    children = [_child(key, i) for i in range(math.prod(shape))]
    return jnp.stack(children).reshape(*shape, 2)


@functools.cache
def _alone(element: int) -> Any:
    """Define a generator that fills arrays with the random word of one element."""

    def random_bits(
        key: UInt32[Array, "2"], bit_width: int, shape: tuple[int, ...]
    ) -> Array:
        size = math.prod(shape)
        counter = jnp.uint32(element % max(size, 1))
        high, low = threefry2x32((key[0], key[1]), jnp.uint32(0), counter)
        if bit_width == 64:
            word = (high.astype(jnp.uint64) << 32) | low.astype(jnp.uint64)
        else:
            word = (high ^ low).astype(f"uint{bit_width}")
        return jnp.broadcast_to(word, shape)

    return extended.define_prng_impl(
        key_shape=(2,),
        seed=extended.threefry_prng_impl.seed,
        split=_split,
        random_bits=random_bits,
        fold_in=_child,
        name=f"threefry_alone_{element}",
        tag=f"alone{element}",
    )


def element(
    draw: Callable[[Array], Any], number: int
) -> Callable[[UInt32[Array, " seeds"]], Float[Array, " seeds"]]:
    """Return a function from seeds to one initial weight, to be compiled by `jit`.

    Args:
      draw: key -> theta_0, any tree of arrays. Check the result against the complete
        theta_0: orthogonal matrices, for instance, aren't drawn element by element.
      number: the element's position in the concatenated leaves.
    Raises: ValueError: theta_0 has fewer elements.
    """
    shapes = jax.tree.leaves(jax.eval_shape(draw, jax.random.key(0)))
    leaf, inside = 0, number
    while leaf < len(shapes) and inside >= shapes[leaf].size:
        inside -= shapes[leaf].size
        leaf += 1
    if leaf == len(shapes) or number < 0:
        size = sum(shape.size for shape in shapes)
        raise ValueError(f"Expected an element of {size}, got number {number}.")

    def one(seed: UInt32[Array, ""]) -> Float[Array, ""]:
        key = jax.random.key(seed, impl=_alone(inside))
        return jnp.ravel(jax.tree.leaves(draw(key))[leaf])[inside]

    return jax.vmap(one)
