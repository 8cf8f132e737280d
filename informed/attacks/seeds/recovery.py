"""Recover the seed of each release's initial weights theta_0, by exhaustive search.

THREAT: knows the known records D_-, the training algorithm A, and the family of
theta_0's seed (which library, which code), not the seed. White-box release.
`training_inversion` calls `with_seeds` where theta_0 is unknown; users call `recover`.

Weights that training only scales (`still`, by a few trainings) are compared with the
theta_0 of every seed. A few weights per seed suffice, so all 32 bits can be searched.

A seed is reported if chance can't explain the agreement. That certifies no
reconstruction: the inversion goes on from this theta_0 and certifies its own result.
Source: ours.
"""

import dataclasses
import functools
import itertools
import math
import warnings
from collections.abc import Iterator

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from informed.attacks import quantisation
from informed.attacks.seeds import seed_search, still
from informed.attacks.seeds.seed_search import Screen
from informed.attacks.seeds.still import Still
from shadow import checks
from shadow.threat import Knowledge, Release
from shadow.training.seeds import SeedFamily

# Returned for a release that no seed explains.
NOT_FOUND = -1
# Pairs of seeds compared to estimate how often two theta_0 agree by chance.
_PAIRS = 32
# A seed is reported if any wrong one agrees as well with at most this probability.
_CHANCE = 1e-9
# Most passes over all seeds, each comparing other weights if there are enough: a target
# with a nonzero pixel changes the weights of one pass, seldom those of all.
_PASSES = 3
# Wrong seeds per release and pass that may match the first elements.
_CANDIDATES = 1e5
# Elements that a pass compares before all still weights are compared.
_ELEMENTS = 4


def recover(
    release: Release, knowledge: Knowledge, *, key: Array, progress: bool = False
) -> Int[np.ndarray, " releases"]:
    """Recover the seed of every release; `NOT_FOUND` if no seed explains it.

    Needs fixed, algorithm and seeds; uses public and training_key.

    Raises: FieldError: needed knowledge is None, not all weights are released, or A
      isn't run by JAX. ValueError: `seeds.draw` makes another number of weights.
    Warns: RuntimeWarning: no seed was searched.
    """
    by_still = still_search(release, knowledge, key=key)
    if by_still is not None:
        return by_still.search(progress=progress)
    assert knowledge.seeds is not None
    warnings.warn(
        f"None of the {len(knowledge.seeds):,} seeds was searched: training leaves too"
        " few weights as they were.",
        RuntimeWarning,
        stacklevel=2,
    )
    return np.full(len(release), NOT_FOUND)


def with_seeds(
    release: Release, knowledge: Knowledge, *, key: Array, progress: bool = False
) -> list[Knowledge]:
    """Recover the seed of every release, and add theta_0 or the key to the knowledge.

    Returns: the knowledge about every release; unchanged if there is no family of
      seeds, theta_0 or the training key is known, or no seed is recovered.
    """
    family, same = knowledge.seeds, [knowledge] * len(release)
    if family is None:
        return same
    assert knowledge.algorithm is not None
    # A user's training function draws theta_0 itself, from its key.
    by_key = knowledge.algorithm.initialise(jax.random.key(0)) is None
    decided = knowledge.training_key if by_key else knowledge.initialisation
    if decided is not None:
        return same
    recovered = recover(release, knowledge, key=key, progress=progress)
    missing = recovered == NOT_FOUND
    if missing.all():
        return same
    seeds = [max(int(seed), 0) for seed in recovered]
    if by_key:
        known = [
            dataclasses.replace(knowledge, training_key=family.own_key(seed))
            for seed in seeds
        ]
    else:
        starts = np.stack([family.theta(seed) for seed in seeds])
        known = [dataclasses.replace(knowledge, initialisation=starts)] * len(release)
    return [knowledge if no else k for no, k in zip(missing, known, strict=True)]


@dataclasses.dataclass(frozen=True, eq=False)
class StillSearch:
    """The search for the seeds of some releases by their still weights."""

    still: Still
    family: SeedFamily
    # theta / factor at these weights: theta_0 if the target's inputs there are zero.
    values: Float[np.ndarray, "releases still"]
    # Largest difference from theta_0 that rounding in training and publishing makes.
    tolerances: Float[np.ndarray, "releases still"]
    passes: list[np.ndarray]  # what each pass compares: positions in `still.elements`
    screens: list[Screen]  # the programs that draw these weights, one per pass

    def sweeps(
        self, wanted: np.ndarray, number: int, start: int, *, progress: bool = False
    ) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Sweep pass `number` over the seeds from `start` on, for some releases."""
        picked = np.ix_(wanted, self.passes[number])
        values, margins = self.values[picked], self.tolerances[picked]
        return seed_search.sweep(
            self.screens[number],
            values - margins,
            values + margins,
            start,
            self.family.stop,
            progress=progress,
        )

    def agreement(self, release: int, seed: int) -> float:
        """Return the share of still weights that agree; 0: chance may explain it."""
        start = self.family.theta(seed)[self.still.elements]
        agree = np.abs(start - self.values[release]) <= self.tolerances[release]
        hit = max(_hit(self.still, self.tolerances[release]), self._alike)
        chance = _log_chance(len(self.family), len(agree), int(agree.sum()), hit)
        return float(agree.mean()) if chance <= np.log(_CHANCE) else 0.0

    @functools.cached_property
    def _alike(self) -> float:
        """Share of still weights on which two other seeds agree."""
        seeds = np.linspace(self.family.start, self.family.stop - 1, _PAIRS + 1)
        starts = [
            self.family.theta(int(seed))[self.still.elements]
            for seed in np.unique(seeds.astype(np.int64))
        ]
        room = self.tolerances.max(axis=0)
        pairs = itertools.pairwise(starts)
        shares = [float((np.abs(a - b) <= room).mean()) for a, b in pairs]
        return float(np.mean(shares)) if shares else 0.0

    def search(self, *, progress: bool = False) -> Int[np.ndarray, " releases"]:
        """Run the passes one after another until every release has its seed."""
        count = len(self.values)
        seeds, agreement = np.full(count, NOT_FOUND), np.zeros(count)
        for number in range(len(self.passes)):
            wanted = np.flatnonzero(seeds == NOT_FOUND)
            if not len(wanted):
                break
            first = self.family.start
            for _, hits in self.sweeps(wanted, number, first, progress=progress):
                for row, seed in hits:
                    share = self.agreement(int(wanted[row]), seed)
                    if share > agreement[wanted[row]]:
                        seeds[wanted[row]], agreement[wanted[row]] = seed, share
                if (seeds[wanted] != NOT_FOUND).all():
                    break
        return seeds


def still_search(
    release: Release, knowledge: Knowledge, *, key: Array
) -> StillSearch | None:
    """Prepare the search by still weights; None: they can't identify a seed.

    Args, Raises: as for `recover`.
    """
    knowledge.require(release, "fixed", "algorithm", "seeds")
    family = knowledge.seeds
    assert family is not None
    assert knowledge.algorithm is not None
    if not knowledge.algorithm.capabilities.batched:
        raise checks.FieldError(
            "seeds",
            "Expected {} of an A that JAX runs: those of other libraries' generators"
            " aren't searched. Leave them out.",
        )
    still_key, _ = jax.random.split(key)
    stays = still.find(knowledge, family, still_key)
    if stays is None:
        return None
    elements = stays.elements
    thetas = release.weights.astype(np.float64)
    deviations = np.zeros_like(thetas)
    for i in range(len(thetas)):
        noise = quantisation.deviations(release, i)
        deviations[i] = 0.0 if noise is None else noise
    tolerances = (stays.tolerance + 4 * deviations[:, elements]) / stays.factor
    # If all weights agree, may that be chance?
    hit, size = _hit(stays, tolerances), len(elements)
    if _log_chance(len(family), size, size, hit) > np.log(_CHANCE):
        return None
    # The fewest elements that leave at most `_CANDIDATES` wrong seeds.
    count = min(_ELEMENTS, size)
    enough = (n for n in range(1, count) if len(family) * hit**n <= _CANDIDATES)
    first = next(enough, count)
    apart = max(1, (size - count) // _PASSES)
    starts = [i * apart for i in range(_PASSES) if i * apart + count <= size]
    passes = [np.arange(start, start + count) for start in starts]
    return StillSearch(
        still=stays,
        family=family,
        values=thetas[:, elements] / stays.factor,
        tolerances=tolerances,
        passes=passes,
        screens=[
            seed_search.screen(family, elements[some].tolist(), first)
            for some in passes
        ],
    )


def _hit(stays: Still, tolerances: np.ndarray) -> float:
    """Return the probability that a weight of a wrong seed agrees: density x width."""
    return float(min(1.0, 2 * tolerances.max() / max(stays.spread, 1e-300)))


def _log_chance(seeds: int, weights: int, agreeing: int, hit: float) -> float:
    """Bound the log probability that any wrong seed agrees, by the union bound."""
    if not agreeing or hit >= 1:
        return np.inf
    ways = math.lgamma(weights + 1)
    ways -= math.lgamma(agreeing + 1) + math.lgamma(weights - agreeing + 1)
    return math.log(seeds) + ways + agreeing * math.log(hit)
