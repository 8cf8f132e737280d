"""Measure distances between images (MSE, MAE, LPIPS), and rates of success.

`comparison`, `judging`, `evaluation`, `protection`, `noise_game` and users call it. It
compares arrays and touches no file; LPIPS loads a network (`reconn.perceptual`).
`nearest_neighbours` finds the oracle, the nearest image that the adversary has, and
percentiles of all these distances, as in Figure 3 of Balle et al. 2022 (Section V-B).
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Float, Float32, Int

from dp import rates
from reconn import perceptual
from shadow import copies
from shadow.precision import highest

Images = Float32[np.ndarray, "targets height width channels"]
Pool = Float32[np.ndarray, "pool height width channels"]
Guesses = Float32[np.ndarray, "..."]  # of the targets' shape, or else a ValueError
Errors = Float[np.ndarray, " targets"]
PERCENTILES = (1, 10, 50)
# MSE per pixel of a near copy: an error of a thousandth of the range, as in `EXACT` of
# `judging`. An adversary with a nearer copy needs no attack. Rounding changes less.
NEAR = 1e-6
_AT_ONCE = 200  # images in a call of LPIPS
# Number of targets whose distances to the pool are in memory together; number of bins
# of the histogram, equally wide up to the largest distance of the first such block.
_BLOCK, _BINS = 64, 100


def mse(targets: Images, guesses: Guesses) -> Errors:
    """Return the mean squared error per pixel of each guess."""
    return np.mean(np.square(_differences(targets, guesses)), axis=(1, 2, 3))


def mae(targets: Images, guesses: Guesses) -> Errors:
    """Return the mean absolute error per pixel of each guess."""
    return np.mean(np.abs(_differences(targets, guesses)), axis=(1, 2, 3))


def lpips(targets: Images, guesses: Guesses) -> Errors:
    """Return the perceptual distance of each guess; see `reconn.perceptual`.

    Raises: ImportError: the extra "lpips" isn't installed. ValueError: other shapes.
    """
    if np.shape(targets) != np.shape(guesses):
        raise ValueError(
            f"Expected guesses of shape {np.shape(targets)}, got {np.shape(guesses)}."
        )
    parts = [
        np.asarray(_distance()(targets[i : i + _AT_ONCE], guesses[i : i + _AT_ONCE]))
        for i in range(0, len(targets), _AT_ONCE)
    ]
    return np.concatenate(parts).astype(np.float64)


@functools.cache
def _distance() -> Callable[..., Array]:
    """Return the perceptual distance, loaded and compiled once."""
    return jax.jit(highest(perceptual.load().__call__))


def refuse_leaks(targets: Images, known: Pool) -> None:
    """Refuse targets with an exact copy among the images that an attack trained on.

    Raises: ValueError: some have; says how many, and which.
    """
    leaked = np.flatnonzero(copies.among(targets, known))
    if len(leaked):
        raise ValueError(
            f"{len(leaked)} of {len(targets)} test targets are among the fixed set and"
            f" the shadow targets, such as target {leaked[0]}: no metric of this attack"
            " would mean anything. Make the shadow models again from disjoint parts."
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Neighbours:
    """Distances (MSE per pixel) between targets and the points of a pool.

    Attributes:
      index, mse: (targets,), position in the pool, and distance, of the nearest point.
      percentiles: (targets, 3), the 1st, 10th and 50th percentile of the distances.
      histogram: (bins,), share of the pool in each bin, averaged over targets.
      edges: (bins + 1,), borders of the bins.
    """

    index: Int[np.ndarray, " targets"]
    mse: Float[np.ndarray, " targets"]
    percentiles: Float[np.ndarray, "targets percentiles"]
    histogram: Float[np.ndarray, " bins"]
    edges: Float[np.ndarray, " edges"]

    @property
    def copies(self) -> dict[str, np.ndarray]:
        """Whether the nearest point equals a target in every number, or is `NEAR`."""
        exact = self.mse == 0
        return {"exact": exact, "near": (self.mse < NEAR) & ~exact}


def nearest_neighbours(targets: Images, pool: Pool) -> Neighbours:
    """Return each target's nearest neighbour in the pool, and the data of Figure 3.

    The pool is what the adversary has. Distances are in memory for `_BLOCK` targets.
    """
    flat_targets = targets.reshape(len(targets), -1)
    flat_pool = pool.reshape(len(pool), -1)
    pool_norms = np.einsum("ij,ij->i", flat_pool, flat_pool)
    index = np.empty(len(targets), np.int64)
    percentiles = np.empty((len(targets), len(PERCENTILES)))
    counts = np.zeros(_BINS)
    edges = np.empty(0)
    for start in range(0, len(targets), _BLOCK):
        rows = slice(start, start + _BLOCK)
        part = flat_targets[rows]
        sizes = np.einsum("ij,ij->i", part, part)[:, None] + pool_norms[None]
        distances = np.maximum(sizes - 2 * part @ flat_pool.T, 0)
        index[rows] = _nearest(part, flat_pool, distances, sizes)
        distances /= part.shape[1]
        if start == 0:
            edges = np.linspace(0, max(float(distances.max()), 1e-12), _BINS + 1)
        percentiles[rows] = np.percentile(distances, PERCENTILES, axis=1).T
        counts += np.histogram(np.minimum(distances, edges[-1]), edges)[0]
    return Neighbours(
        index=index,
        mse=mse(targets, pool[index]),  # recomputed without cancellation
        percentiles=percentiles,
        histogram=counts / (len(targets) * len(pool)),
        edges=edges,
    )


def _nearest(
    targets: np.ndarray, pool: np.ndarray, squares: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """Return each target's nearest record; distances made equal by rounding are redone.

    Squared distances (targets, pool) are differences of large numbers, the sizes.
    """
    rounding = np.finfo(squares.dtype).eps * targets.shape[1] * sizes
    least = (squares + rounding).min(axis=1, keepdims=True)
    index = np.empty(len(targets), np.int64)
    for i, near in enumerate(squares - rounding <= least):
        rows = np.flatnonzero(near)
        apart = targets[i].astype(np.float64) - pool[rows]
        index[i] = rows[np.einsum("ij,ij->i", apart, apart).argmin()]
    return index


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rate:
    """A share of trials, with its confidence interval from `low` to `high`."""

    successes: int
    trials: int
    rate: float
    low: float
    high: float


def success_rate(succeeded: np.ndarray, *, confidence: float = 0.95) -> Rate:
    """Return the share of successes with the Clopper-Pearson interval.

    Args:
      succeeded: (trials,) bool; a failed or NaN attack is False, never left out.
      confidence: confidence of the two-sided interval, in (0, 1).
    Raises: ValueError: no trials.
    """
    trials, right = len(succeeded), int(np.sum(succeeded))
    if trials == 0:
        raise ValueError("Expected at least one trial for a success rate.")
    low, high = rates.clopper_pearson(right, trials, confidence)
    return Rate(successes=right, trials=trials, rate=right / trials, low=low, high=high)


def _differences(targets: np.ndarray, guesses: np.ndarray) -> np.ndarray:
    """Return targets minus guesses in float64; ValueError if shapes differ."""
    if targets.shape != guesses.shape:
        raise ValueError(
            f"Expected guesses of the targets' shape {targets.shape}, got"
            f" {guesses.shape}."
        )
    return targets.astype(np.float64) - guesses
