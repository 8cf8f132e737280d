"""The 32-bit numbers that random generators put out ("words"), many seeds at once.

mt19937: the generator of PyTorch on CPUs (`torch.manual_seed`, which takes 32 bits of
the seed), of NumPy's RandomState, and by way of it of scikit-learn. Seeding is a
recurrence of 623 steps; word i of the first 227 needs the steps up to i + 397.
pcg64: the generator of NumPy's default_rng. The seed is hashed into 256 bits of state
and increment; after that the generator can be moved on by any number of words at once.

Source: Matsumoto and Nishimura 1998; O'Neill 2014; NumPy's SeedSequence.
Checked: tests/informed/attacks/test_seeds.py (NumPy and PyTorch themselves).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

Words = Callable[[UInt32[Array, " seeds"]], UInt32[Array, " seeds"]]

# Mersenne twister

# The twist makes word i of words i, i + 1 and i + 397 of the seeded state.
_MIDDLE = 397
# The first words, which need no word that the same twist has made.
MT_WORDS = 624 - _MIDDLE
_SEEDING = 1812433253
# Steps of the recurrence that one pass of the compiled loop makes; a matter of speed.
_UNROLL = 8


def mt19937(position: int) -> Words:
    """Return the function of seeds that gives word `position` < MT_WORDS."""
    if not 0 <= position < MT_WORDS:
        raise ValueError(f"Expected position in [0, {MT_WORDS}), got {position}.")

    def step(number: Array, state: Array) -> Array:
        mixed = state ^ (state >> 30)
        return jnp.uint32(_SEEDING) * mixed + number.astype(jnp.uint32)

    def advance(state: Array, start: int, stop: int) -> Array:
        """Run the seeding recurrence through the steps start, ..., stop - 1."""
        return jax.lax.fori_loop(start, stop, step, state, unroll=_UNROLL)

    def word(seeds: UInt32[Array, " seeds"]) -> UInt32[Array, " seeds"]:
        first = advance(seeds, 1, position + 1)
        second = advance(first, position + 1, position + 2)
        middle = advance(second, position + 2, position + _MIDDLE + 1)
        # The twist.
        joined = (first & jnp.uint32(0x80000000)) | (second & jnp.uint32(0x7FFFFFFF))
        odd = (joined & 1) * jnp.uint32(0x9908B0DF)
        y = middle ^ (joined >> 1) ^ odd
        # Tempering.
        y = y ^ (y >> 11)
        y = y ^ ((y << 7) & jnp.uint32(0x9D2C5680))
        y = y ^ ((y << 15) & jnp.uint32(0xEFC60000))
        return y ^ (y >> 18)

    return word


def mt19937_words(seed: int) -> UInt32[np.ndarray, " words"]:
    """Return the first MT_WORDS words of one seed, by NumPy."""
    generator = np.random.RandomState(np.uint32(seed))
    return generator.randint(0, 2**32, MT_WORDS, dtype=np.uint32)


# PCG64 (XSL-RR), seeded by SeedSequence

_POOL = 4
_INIT_A, _MULT_A = 0x43B0D7E5, 0x931E8875
_INIT_B, _MULT_B = 0x8B51F9DD, 0x58F38DED
_MIX_LEFT, _MIX_RIGHT = 0xCA01F9DD, 0x4973F715
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_MASK = 2**128 - 1
# 32-bit halves of 64-bit words among which laws are looked for, from the first on. A
# weight that is drawn later has no law here.
PCG_WORDS = 256


def pcg64(position: int) -> Words:
    """Return the function of seeds that gives the 32-bit half number `position`.

    Half 0 is the high one of the first 64-bit word.

    Needs JAX's 64-bit integers (`jax.enable_x64`).
    """
    draws = position // 2 + 1
    # After k steps the state is a s + c i, with i the increment.
    a, c = 1, 0
    for _ in range(draws):
        a, c = a * _MULTIPLIER & _MASK, (c * _MULTIPLIER + 1) & _MASK

    def word(seeds: UInt32[Array, " seeds"]) -> UInt32[Array, " seeds"]:
        state = _seed_sequence(seeds)
        start, (high, low), one = (state[0], state[1]), state[2:], np.uint64(1)
        # The increment is 2 x + 1 for x of 128 bits.
        increment = (high << one) | (low >> np.uint64(63)), (low << one) | one
        # Seeding: one step from 0 (to the increment), plus the start, one more step.
        moved = _add(increment, start)
        moved = _add(_multiply(moved, _MULTIPLIER), increment)
        high, low = _add(_multiply(moved, a), _multiply(increment, c))
        # Output function: XOR of the halves, rotated by the six highest bits.
        mixed = high ^ low
        rotation = high >> np.uint64(58)
        back = (np.uint64(64) - rotation) & np.uint64(63)
        rotated = (mixed >> rotation) | (mixed << back)
        half = rotated >> np.uint64(32) if position % 2 == 0 else rotated
        return half.astype(jnp.uint32)

    return word


def pcg64_words(seed: int) -> UInt32[np.ndarray, " words"]:
    """Return the first PCG_WORDS halves of one seed, by NumPy; the high ones first."""
    raw = np.random.PCG64(int(seed)).random_raw(PCG_WORDS // 2)
    halves = np.stack([raw >> np.uint64(32), raw & np.uint64(0xFFFFFFFF)], axis=1)
    return halves.ravel().astype(np.uint32)


def _seed_sequence(seeds: UInt32[Array, " seeds"]) -> list[Array]:
    """Compute the four words of `SeedSequence(seed).generate_state(4, uint64)`."""
    constant = _INIT_A

    def hashed(value: Array) -> Array:
        nonlocal constant
        value = value ^ jnp.uint32(constant)
        constant = constant * _MULT_A & 0xFFFFFFFF
        value = value * jnp.uint32(constant)
        return value ^ (value >> 16)

    def mix(x: Array, y: Array) -> Array:
        result = jnp.uint32(_MIX_LEFT) * x - jnp.uint32(_MIX_RIGHT) * y
        return result ^ (result >> 16)

    zero = jnp.zeros_like(seeds)
    pool = [hashed(seeds if i == 0 else zero) for i in range(_POOL)]
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                pool[target] = mix(pool[target], hashed(pool[source]))
    constant = _INIT_B
    halves = []
    for i in range(2 * _POOL):
        value = pool[i % _POOL] ^ jnp.uint32(constant)
        constant = constant * _MULT_B & 0xFFFFFFFF
        value = value * jnp.uint32(constant)
        halves.append((value ^ (value >> 16)).astype(jnp.uint64))
    shift = np.uint64(32)
    return [halves[2 * i] | (halves[2 * i + 1] << shift) for i in range(_POOL)]


def _add(x: tuple[Array, Array], y: tuple[Array, Array]) -> tuple[Array, Array]:
    low = x[1] + y[1]
    return x[0] + y[0] + (low < x[1]).astype(jnp.uint64), low


def _multiply(x: tuple[Array, Array], constant: int) -> tuple[Array, Array]:
    """Multiply x by a constant, both of 128 bits, modulo 2**128."""
    high, low = np.uint64(constant >> 64), np.uint64(constant & (2**64 - 1))
    top, bottom = _wide(x[1], low)
    return top + x[0] * low + x[1] * high, bottom


def _wide(x: Any, y: np.uint64) -> tuple[Array, Array]:
    """Compute all 128 bits of the product of two numbers of 64 bits."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    x_high, x_low, y_high, y_low = x >> half, x & mask, y >> half, y & mask
    lows = x_low * y_low
    middle = x_high * y_low + (lows >> half)
    other = x_low * y_high + (middle & mask)
    high = x_high * y_high + (middle >> half) + (other >> half)
    return high, (other << half) | (lows & mask)
