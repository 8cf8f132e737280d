"""Search all seeds for initial weights theta_0 that agree with a few of a release.

One program draws one to four weights of many seeds and compares them with the weights
of up to 32 releases at once, on all devices. The search is a generator, so its caller
(`recovery`) can stop at a hit.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from informed.attacks.seeds import threefry
from shadow import bars
from shadow.parallel import BY_ROW, EVERYWHERE, sharded
from shadow.training.seeds import SeedFamily

# Seeds at once on one device, enough to make the start of a program negligible.
_CHUNK = 1 << 20
# Bytes per device for complete initialisations, when single elements can't be drawn.
_WHOLE_BYTES = 1 << 27
# Releases that one program compares with; more releases take several programs.
_AT_ONCE = 32
# Seeds on which single elements are compared with the complete theta_0.
_CHECKED = 3
# Largest difference of the two by rounding, relative to the largest weight.
_LAST_DIGITS = 1e-6


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Screen:
    """A compiled program that draws a few elements of theta_0 for many seeds."""

    # Seeds (n,) -> one array of weights (n,) per element; traced.
    draw: Callable[[Array], tuple[Array, ...]]
    # Elements that are drawn for every seed, the others only for seeds with these.
    first: int = 1
    chunk: int = _CHUNK  # seeds at once on one device

    @functools.cached_property
    def compiled(self) -> Callable[[np.ndarray], tuple[Array, ...]]:
        """The function `draw`, compiled for one device."""
        return jax.jit(self.draw)

    @functools.cached_property
    def program(self) -> Callable[..., Array]:
        """(first seeds (devices,), bounds) -> which seeds hit some release, (n,)."""

        def hits(start: Array, low: Array, high: Array) -> Array:
            seeds = start[0] + jnp.arange(self.chunk, dtype=jnp.uint32)
            values = self.draw(seeds)[: self.first]
            hit = jnp.zeros(self.chunk, bool)
            for release in range(_AT_ONCE):
                inside = jnp.ones(self.chunk, bool)
                for i, value in enumerate(values):
                    inside &= (value >= low[i, release]) & (value <= high[i, release])
                hit |= inside
            return hit

        return sharded(hits, (BY_ROW, EVERYWHERE, EVERYWHERE), BY_ROW)


def screen(family: SeedFamily, elements: Sequence[int], first: int = 1) -> Screen:
    """Choose the fastest way to draw some elements, by their positions in theta_0."""
    wanted = tuple(int(element) for element in elements)
    if (draw := _alone(family, wanted)) is not None:
        return Screen(draw=draw, first=first)

    # Draws all of theta_0 for every seed: slow, but always correct.
    def draw_whole(seeds: Array) -> tuple[Array, ...]:
        thetas = jax.vmap(family.traced)(seeds)
        return tuple(thetas[:, number] for number in wanted)

    size = len(family.theta(family.start))
    chunk = max(1, min(_CHUNK, _WHOLE_BYTES // (4 * size)))
    return Screen(draw=draw_whole, first=first, chunk=chunk)


def _alone(
    family: SeedFamily, elements: tuple[int, ...]
) -> Callable[[Array], tuple[Array, ...]] | None:
    """Draw single elements by Threefry; None: theta_0 can't be drawn that way."""
    if not getattr(jax.config, "jax_threefry_partitionable", False):
        return None
    drawn = [threefry.element(family.draw, number) for number in elements]

    def draw(seeds: Array) -> tuple[Array, ...]:
        return tuple(element(seeds) for element in drawn)

    seeds = np.linspace(family.start, family.stop - 1, _CHECKED).astype(np.uint32)
    values = np.stack([np.asarray(value) for value in jax.jit(draw)(seeds)])
    thetas = np.stack([family.theta(int(seed))[list(elements)] for seed in seeds])
    close = np.abs(values - thetas.T) <= _LAST_DIGITS * np.abs(thetas).max()
    return draw if close.all() else None


def sweep(
    screen: Screen,
    lowest: np.ndarray,
    highest: np.ndarray,
    start: int,
    stop: int,
    *,
    progress: bool = False,
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield seeds from start to stop - 1 whose elements lie between bounds.

    Args:
      lowest, highest: (releases, elements), bounds of the elements of each theta_0.
    Yields: (the first seed that is not yet searched, pairs (release, seed)).
    """
    low, high = lowest.T.astype(np.float32), highest.T.astype(np.float32)
    program = screen.program
    groups = [
        range(first, min(first + _AT_ONCE, len(lowest)))
        for first in range(0, len(lowest), _AT_ONCE)
    ]
    # Pad each group to the number of releases that a program takes.
    padded = [np.minimum(np.arange(_AT_ONCE) + g.start, g.stop - 1) for g in groups]
    devices = jax.local_device_count()
    step = screen.chunk * devices
    offsets = np.arange(devices, dtype=np.uint32) * np.uint32(screen.chunk)

    def begun(at: int) -> list[Any]:
        """Start a piece: masks of hits that are being computed."""
        first = offsets + np.uint32(at)
        return [program(first, low[:, some], high[:, some]) for some in padded]

    about: dict[str, Any] = {"unit": " seeds", "unit_scale": True, "smoothing": 0.05}
    with bars.bar(total=stop - start, desc="seeds", show=progress, **about) as bar:
        ahead = begun(start) if start < stop else []
        for at in range(start, stop, step):
            masks, end = ahead, min(at + step, stop)
            # The next piece is computed while this one's hits are checked.
            ahead = begun(at + step) if at + step < stop else []
            hits: list[tuple[int, int]] = []
            for group, mask in zip(groups, masks, strict=True):
                seeds = at + np.flatnonzero(np.asarray(mask).ravel())
                hits += _whose(screen, low, high, group, seeds[seeds < end])
            bar.update(end - at)
            yield end, hits


def _whose(
    screen: Screen,
    low: np.ndarray,
    high: np.ndarray,
    group: range,
    seeds: Int[np.ndarray, " n"],
) -> list[tuple[int, int]]:
    """Pair releases with those seeds that agree in all elements."""
    if not len(seeds):
        return []
    filled = np.resize(seeds, max(256, 1 << (len(seeds) - 1).bit_length()))
    values = screen.compiled(filled.astype(np.uint32))
    drawn = np.stack([np.asarray(value) for value in values])[:, : len(seeds)]
    pairs = []
    for release in group:
        inside = (drawn >= low[:, release, None]) & (drawn <= high[:, release, None])
        pairs += [(release, int(seed)) for seed in seeds[inside.all(axis=0)]]
    return pairs
