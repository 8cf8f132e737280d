"""The width of training: how many models are trained at once on a device.

On a CPU the activations of a batch of models should stay in a core's cache. An
accelerator should be busy without running out of memory. Programs are compiled here
from shapes alone, and never run. `factory` and `informed.attacks.inversion.retraining`
call `models_per_batch`.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from shadow import devices, parallel
from shadow.data import Examples
from shadow.training import GradientDescent
from shadow.training.algorithm import Algorithm, Draw
from shadow.victims import Victim

MOST = 512  # models of gradient descent at once on an accelerator
# If A isn't batched: least number of models handed to processes at once. For a user's
# function of JAX: models at once, where they fit.
_UNKNOWN = 16
# Share of an accelerator's free memory; the rest is for results, for what XLA's account
# leaves out, and for fragmentation.
_SHARE = 0.8
# Bytes of a program that keeps an accelerator busy: a pass over them takes an H100 a
# millisecond, against 2.5 us to start a kernel.
_ENOUGH = 4 << 30
# Images from which products of a batch gain more by size than they lose by the cache.
_MANY = 500
_LARGE = ("dot_general", "conv_general_dilated", "concatenate")


def models_per_batch(algorithm: Algorithm, fixed: Examples) -> int:
    """Return how many models to train at once on one device.

    For gradient descent on a CPU the activations of the batch may take twice a core's
    second-level cache: with mini-batches of 512 in different orders, one at a time is
    two to three times as fast as 32. With full batches of many images they may take
    four times the cache: 32 models at a fixed set of 1,000 are 14 % faster than 16.
    """
    if not algorithm.capabilities.batched:
        return max(_UNKNOWN, parallel.processes(algorithm))
    if devices.cache_bound():
        return _for_a_cache(algorithm, len(fixed))
    return width_for(
        devices.free_bytes(),
        lambda width: program_bytes(algorithm, fixed, width),
        most=MOST if isinstance(algorithm, GradientDescent) else _UNKNOWN,
    )


def width_for(
    free_bytes: int, bytes_of_width: Callable[[int], int], *, most: int = MOST
) -> int:
    """Return the largest useful power of two that fits an accelerator's memory.

    Args:
      free_bytes: memory of one device that may be taken.
      bytes_of_width: number of models -> bytes of the program that trains them. One and
        two are extrapolated linearly; the result is checked, as with few models XLA may
        lay arrays out differently.
      most: the result's upper bound.
    Returns: at least 1, also where one model seems not to fit; only training it shows
      that for certain.
    """
    one, two = bytes_of_width(1), bytes_of_width(2)
    room = min(_SHARE * free_bytes, _ENOUGH)
    fitting = max(1, min(most, int((room - one) // max(two - one, 1)) + 1))
    width = 1 << (fitting.bit_length() - 1)
    while width > 2 and bytes_of_width(width) > room:
        width //= 2
    return width


def program_bytes(algorithm: Algorithm, fixed: Examples, width: int) -> int:
    """Return the memory of so many models on one device, by XLA's account."""
    lowered = parallel.lower(
        parallel.program(algorithm, draw_of(algorithm)),
        (len(fixed), *fixed.image_shape),
        width=width * jax.local_device_count(),
    )
    # On a GPU without timing kernels, which would take longer.
    untimed = parallel.UNTIMED if jax.default_backend() == "gpu" else None
    return parallel.bytes_of(lowered.compile(compiler_options=untimed))


def draw_of(algorithm: Algorithm) -> Callable[[Any], Draw]:
    """Return randomness of the right shapes, for programs that aren't run."""
    start = jax.eval_shape(algorithm.initialise, jax.random.key(0))
    public = algorithm.capabilities.public
    shared = start is not None and "initialisation" in public

    def draw(number: Any) -> Draw:
        key = jax.random.key(number)
        return Draw(
            start=jnp.zeros(start.shape) if shared else algorithm.initialise(key),
            key=algorithm.own_key(jax.random.key(0) if "key" in public else key),
            noise_key=key,
        )

    return draw


def _for_a_cache(algorithm: Algorithm, num_fixed: int) -> int:
    if not isinstance(algorithm, GradientDescent):
        return _UNKNOWN
    images = min(algorithm.batch_size or num_fixed, num_fixed)
    groups = algorithm.victim.form(algorithm.form)
    if groups is not None:
        images = min(images, groups.size)
    units = _activation_units(algorithm.victim)
    if algorithm.batch_size and "key" not in algorithm.capabilities.public:
        # Each model takes its own mini-batches out of the fixed set.
        units += math.prod(algorithm.victim.image_shape)
    of_one = 4 * images * units
    full = not algorithm.batch_size and not algorithm.privacy.on
    caches = 4 if full and images >= _MANY else 2
    fitting = max(1, min(64, caches * devices.cache_bytes() // max(of_one, 1)))
    return 1 << (fitting.bit_length() - 1)


def _activation_units(victim: Victim) -> int:
    """Count the outputs of all large operations of the victim for one image."""
    images = jax.ShapeDtypeStruct((1, *victim.image_shape), jnp.float32)
    params = jax.eval_shape(victim.init, jax.random.key(0))
    jaxpr = jax.make_jaxpr(victim.apply)(params, images)
    return sum(
        math.prod(equation.outvars[0].aval.shape)
        for equation in jaxpr.jaxpr.eqns
        if equation.primitive.name in _LARGE
    )
