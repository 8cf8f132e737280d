"""Seeds recovered by training from each: the last resort, for small families.

From the right theta_0, D_- with any other point for the target ends within one point's
influence of the release; from a wrong one as far away as two models trained from
different initialisations are.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from informed.adversary_runs import adversary_runs
from informed.attacks.seeds.null_space import NOT_FOUND
from shadow import bars
from shadow.threat import Knowledge
from shadow.training.seeds import SeedFamily

# The largest family that is searched so: a matter of time.
MOST_TRAINED = 1 << 17
# Seeds that are trained from before their distances are compared.
_CHUNK = 256
# Seeds trained from at once on one device; a matter of speed and memory.
_WIDTH = 16
# A seed is found if its model lies at most this many times as far from the release as
# the next seed's. Larger values name a seed more often, and more often a wrong one.
_CLOSER = 0.5


def why_not(knowledge: Knowledge, family: SeedFamily) -> str:
    """Say why a family can't be searched so, in a phrase; "" where it can."""
    assert knowledge.algorithm is not None
    if len(family) > MOST_TRAINED:
        return f"at most {MOST_TRAINED:,} are searched by training from each"
    given = knowledge.algorithm.initialise(jax.random.key(0)) is not None
    if given and family.generator != "threefry":
        return (
            f"the theta_0 of a {family.generator} seed can't be drawn inside the"
            " compiled training"
        )
    return ""


def search(
    knowledge: Knowledge,
    family: SeedFamily,
    thetas: Float[np.ndarray, "releases params"],
    key: Array,
    *,
    progress: bool = False,
) -> Int[np.ndarray, " releases"]:
    """Find the seed of each release whose model lies much nearer than all others.

    Args, for which `why_not` is empty: as for `recovery.recover`.
    """
    algorithm, fixed = knowledge.algorithm, knowledge.fixed
    assert algorithm is not None
    assert fixed is not None
    drawn: dict[str, Any] = {"own_keys": family.own_key}
    if algorithm.initialise(key) is not None:
        drawn = {"starts": lambda number: family.traced(number.astype(np.uint32))}
    runs = adversary_runs(knowledge, key, width=_WIDTH, **drawn)
    apart = []
    with bars.bar(
        total=len(family), desc="seeds, training", unit=" seeds", show=progress
    ) as bar:
        for start in range(family.start, family.stop, _CHUNK):
            seeds = np.arange(start, min(start + _CHUNK, family.stop))
            images = np.repeat(fixed.images[:1, None], len(seeds), axis=0)
            labels = np.repeat(fixed.labels[:1, None], len(seeds), axis=0)
            trained = runs(images, labels, seeds)
            apart.append([np.linalg.norm(trained - theta, axis=1) for theta in thetas])
            bar.update(len(seeds))
    distances = np.concatenate(apart, axis=1)
    distances = np.where(np.isfinite(distances), distances, np.inf)
    # The two least of each release; of one seed alone nothing tells how near is near.
    least = np.sort(np.pad(distances, ((0, 0), (0, 1)), constant_values=np.inf), axis=1)
    clear = np.isfinite(least[:, 1]) & (least[:, 0] <= _CLOSER * least[:, 1])
    return np.where(clear, family.start + distances.argmin(axis=1), NOT_FOUND)
