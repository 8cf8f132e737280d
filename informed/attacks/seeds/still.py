"""Find weights that training leaves at a multiple of their initial value.

The weights of an input that is zero in all known records D_-, as a border pixel or an
unused word, never get a gradient. Under SGD, momentum and Adam they keep their initial
value to the last bit; weight decay, unless inside Adam, scales it by a common factor.
The adversary trains from a few initialisations, with a copy of a point of D_- for the
target, and keeps the weights that end at the same multiple of their initial value
theta_0 each time, whatever the architecture. A target that is nonzero in one such input
changes the weights of that input only. A few trainings on public images, or else on
D_-, show which inputs are seldom nonzero. `recovery` calls `find`, and compares these
weights with every seed's theta_0.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from informed.adversary_runs import adversary_runs
from shadow.parallel import Runs
from shadow.threat import Knowledge
from shadow.training.seeds import SeedFamily

# Initialisations to train from; each costs a training.
_STARTS = 3
# Public images to train on, to find which weights targets seldom change.
_PUBLIC = 12
# A first cut: largest relative difference of theta / theta_0 between initialisations.
_SAME = 1e-4
# Ratios within this of their median are averaged into the common factor.
_OF_RATIO = 1e-3
# Spacing of float32 numbers, relative to their size.
_ULP = 2.0**-23
# Spacings that rounding may add up to, and multiples of the observed rounding, within
# which a weight still agrees.
_ULPS, _DEVIATIONS = 4, 4


Starts = Float[np.ndarray, "starts params"]


@dataclasses.dataclass(frozen=True, eq=False)
class Still:
    """Weights with theta = factor * theta_0, factor > 0."""

    # Positions in theta, those that public targets change least first.
    elements: Int[np.ndarray, " still"]
    factor: float  # what weight decay leaves
    tolerance: float  # largest difference from factor * theta_0 by rounding
    spread: float  # standard deviation of theta_0 over these elements


def seeded_runs(
    knowledge: Knowledge, family: SeedFamily, seeds: np.ndarray, key: Array
) -> Runs:
    """Prepare trainings from the i-th of some seeds; `key` draws all else."""
    algorithm = knowledge.algorithm
    assert algorithm is not None
    width = len(seeds)
    # A user's training function draws theta_0 itself, from its key.
    if algorithm.initialise(key) is None:
        table = jnp.asarray(seeds.astype(np.uint32))
        own_key = family.own_key
        return adversary_runs(
            knowledge, key, width=width, own_keys=lambda number: own_key(table[number])
        )
    starts = jnp.asarray(np.stack([family.theta(int(seed)) for seed in seeds]))
    return adversary_runs(knowledge, key, width=width, starts=lambda i: starts[i])


def find(knowledge: Knowledge, family: SeedFamily, key: Array) -> Still | None:
    """Find the still weights by training up to 15 models; None: there are none."""
    fixed, public = knowledge.fixed, knowledge.public
    assert fixed is not None
    seed_key, run_key = jax.random.split(key)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(seed_key)))
    seeds = rng.choice(len(family), min(_STARTS, len(family)), replace=False)
    seeds = seeds + family.start
    shown = public if public is not None else fixed
    shown = shown.take(np.arange(min(_PUBLIC, len(shown))))
    images = np.concatenate([np.repeat(fixed.images[:1], len(seeds), 0), shown.images])
    labels = np.concatenate([np.repeat(fixed.labels[:1], len(seeds), 0), shown.labels])
    numbers = np.concatenate([np.arange(len(seeds)), np.zeros(len(shown), np.int64)])
    starts = np.stack([family.theta(int(seed)) for seed in seeds]).astype(np.float64)
    assert knowledge.algorithm is not None
    params = knowledge.algorithm.layout(fixed)[-1].stop
    if starts.shape[1] != params:
        raise ValueError(
            f"seeds.draw gives {starts.shape[1]} weights; theta has {params}."
        )
    runs = seeded_runs(knowledge, family, seeds, run_key)
    thetas = runs(images[:, None], labels[:, None], numbers).astype(np.float64)
    first, others = thetas[: len(seeds)], thetas[len(seeds) :]
    factor = _common_factor(first, starts)
    if factor is None:
        return None
    off = np.abs(first - factor * starts)
    scale = np.abs(starts).max()
    varied = np.ptp(starts, axis=0) > 0
    still = np.flatnonzero(varied & (off.max(axis=0) <= _SAME * scale))
    if not len(still):
        return None
    scale = np.abs(starts[:, still]).max()
    # Exclude weights that are only nearly still, relative to the smallest rounding.
    rounding = max(np.median(off[:, still]), _ULP * scale)
    still = still[off[:, still].max(axis=0) <= 2 * _DEVIATIONS * rounding]
    tolerance = _DEVIATIONS * off[:, still].max() + _ULPS * _ULP * scale
    moved = np.abs(others[:, still] - factor * starts[0, still]) > tolerance
    order = np.argsort(moved.mean(axis=0), kind="stable")
    return Still(
        elements=still[order],
        factor=factor,
        tolerance=float(tolerance),
        spread=float(starts[:, still].std()),
    )


def _common_factor(thetas: Starts, starts: Starts) -> float | None:
    """Find the multiple of theta_0 at which several weights end from any theta_0."""
    scale = np.abs(starts).max()
    if len(starts) < 2:
        # Then only the factor 1 can be recognised.
        same = np.abs(thetas - starts) <= _ULPS * _ULP * scale
        return 1.0 if (same & (starts != 0)).any() else None
    large = (np.abs(starts) > 1e-2 * scale).all(axis=0) & (np.ptp(starts, axis=0) > 0)
    ratios = thetas[:, large] / starts[:, large]
    middle = np.median(ratios, axis=0)
    scatter = np.ptp(ratios, axis=0)
    same = (middle > 0) & (scatter <= _SAME * np.abs(middle))
    if not same.any():
        return None
    factor = np.median(middle[same])
    near = np.abs(middle[same] - factor) <= _OF_RATIO * factor
    return float(np.mean(middle[same][near]))
