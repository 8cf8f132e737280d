"""Seeds recovered in directions in which D_- has no extent.

Gradient descent moves a dense first layer W by sums of x delta^T over the training
points. Seen along directions Q that are orthogonal to all of D_-, only the target's
terms are left, and they share its x:

    Q^T W_T - c Q^T W_0 = (Q^T z) (sum of its delta)^T,

a matrix of rank one, for the right seed alone (c is what weight decay leaves). There
are such directions where D_- has fewer points than pixels, or pixels that are linear
functions of others. A seed costs all of its W_0, so families are smaller here.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from shadow import bars
from shadow.threat import Knowledge
from shadow.training import GradientDescent
from shadow.training.seeds import SeedFamily

# Stands for the seed of a release that no seed explains.
NOT_FOUND = -1
# Random directions of the null space that are compared. More of them tell seeds apart
# better, and cost more per seed.
_DIRECTIONS = 8
# Singular values of D_- below this share of the largest count as zero.
_NULL = 1e-6
# Largest share of the squared norm of the initial weights that rounding may leave
# beyond rank one.
_ROUNDING = 1e-8
# Least (directions - 1) (units - 1): smaller matrices have rank one by chance.
_LEAST_FREEDOM = 4
# Seeds that are drawn and compared at once; a matter of memory.
_CHUNK = 1 << 12


@dataclasses.dataclass(frozen=True, eq=False)
class NullSpace:
    """The test of a seed by the rank of what moved.

    Attributes:
      directions: (pixels, k), orthonormal directions that are orthogonal to D_-.
      columns: slice of theta that holds the first layer's weights.
      shape: (pixels, units), shape of these weights.
      factor: c, the multiple of its initial value at which a weight without gradients
        ends.
    """

    directions: Float[np.ndarray, "pixels k"]
    columns: slice
    shape: tuple[int, ...]
    factor: float

    def search(
        self,
        family: SeedFamily,
        thetas: Float[np.ndarray, "releases params"],
        *,
        progress: bool = False,
    ) -> Int[np.ndarray, " releases"]:
        """Find the seed of each release that leaves rank one; else NOT_FOUND."""
        released = np.stack([self._along(theta) for theta in thetas])
        starts = self._starts(family)
        best = np.full(len(thetas), NOT_FOUND)
        least = np.full(len(thetas), _ROUNDING)
        with bars.bar(
            total=len(family),
            desc="seeds, null space",
            unit=" seeds",
            unit_scale=True,
            show=progress,
        ) as bar:
            for start in range(family.start, family.stop, _CHUNK):
                seeds = np.arange(start, min(start + _CHUNK, family.stop))
                beyond = beyond_rank_one(released, starts(seeds))
                values = beyond.min(axis=1)
                best = np.where(values < least, seeds[beyond.argmin(axis=1)], best)
                least = np.minimum(values, least)
                bar.update(len(seeds))
                if (best != NOT_FOUND).all():
                    break
        return best

    def _along(self, theta: np.ndarray) -> Float[np.ndarray, "k units"]:
        """Return the first layer's weights along the directions, Q^T W."""
        weights = np.asarray(theta[self.columns], np.float64).reshape(self.shape)
        return np.asarray(self.directions.T @ weights)

    def _starts(self, family: SeedFamily) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function of (seeds,) that gives c Q^T W_0, (seeds, k, units)."""
        if family.generator != "threefry":
            return lambda seeds: (
                self.factor
                * np.stack([self._along(family.theta(int(seed))) for seed in seeds])
            )
        directions = jnp.asarray(self.directions, jnp.float32)

        @jax.jit
        def along(seeds: Array) -> Array:
            def one(seed: Array) -> Array:
                weights = family.traced(seed)[self.columns].reshape(self.shape)
                return jnp.matmul(directions.T, weights, precision="highest")

            return jax.lax.map(one, seeds, batch_size=64)

        def starts(seeds: np.ndarray) -> np.ndarray:
            filled = np.resize(seeds, _CHUNK).astype(np.uint32)
            return self.factor * np.asarray(along(filled), np.float64)[: len(seeds)]

        return starts


def beyond_rank_one(
    released: Float[np.ndarray, "releases k units"],
    starts: Float[np.ndarray, "seeds k units"],
) -> Float[np.ndarray, "releases seeds"]:
    """Measure how far each `released` - `starts` is from a matrix of rank one.

    Returns: the sum of all squared singular values but the largest, over the squared
      norm of `starts`.
    """
    beyond = []
    sizes = np.sum(starts**2, axis=(1, 2))
    for weights in released:
        moved = weights - starts
        spectrum = np.linalg.eigvalsh(moved @ moved.swapaxes(1, 2))
        beyond.append(np.maximum(spectrum[:, :-1], 0).sum(axis=1) / sizes)
    return np.stack(beyond)


def of(knowledge: Knowledge) -> NullSpace | None:
    """Prepare the test for SGD with a dense first layer; None: it doesn't apply."""
    algorithm, fixed = knowledge.algorithm, knowledge.fixed
    assert fixed is not None
    if not isinstance(algorithm, GradientDescent):
        return None
    first = algorithm.victim.first_weights
    if first is None or algorithm.privacy.on or not algorithm.linear:
        return None
    flat = fixed.images.reshape(len(fixed), -1).astype(np.float64)
    spectrum, vectors = np.linalg.eigh(flat.T @ flat)
    null = vectors[:, spectrum <= _NULL**2 * spectrum[-1]]
    count = min(_DIRECTIONS, null.shape[1])
    if (count - 1) * (first.shape[1] - 1) < _LEAST_FREEDOM:
        return None
    mixed = np.random.default_rng(0).standard_normal((null.shape[1], count))
    return NullSpace(
        directions=null @ np.linalg.qr(mixed)[0],
        columns=first.columns,
        shape=first.shape,
        factor=decayed(algorithm, len(fixed) + 1),
    )


def decayed(algorithm: GradientDescent, num_examples: int) -> float:
    """Return the share of a weight without gradients that weight decay leaves."""
    size = min(algorithm.batch_size or num_examples, num_examples)
    steps = algorithm.epochs * -(-num_examples // size)
    optimise = algorithm.optimise

    def step(_: Array, state: tuple[Array, Any]) -> tuple[Array, Any]:
        weight, memory = state
        change, memory = optimise.update(jnp.zeros_like(weight), memory, weight)
        return optax.apply_updates(weight, change), memory

    with jax.enable_x64(True):
        weight = jnp.ones(1, jnp.float64)
        state = weight, optimise.init(weight)
        return float(jax.lax.fori_loop(0, steps, step, state)[0][0])
