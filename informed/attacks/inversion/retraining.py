"""The training algorithm A as the adversary runs it, as a function of unknown points.

Randomness of A that the adversary doesn't know is drawn `draws` times, and the weights
theta are the mean over the draws. Noise of private training is omitted instead, which
gives the same mean to first order. More draws measure how theta scatters. Subclasses
add derivatives of the whole training run: `derivatives` and `finite_differences`. The
inversion trains through them, and `membership_attacks` through `Retraining` itself.
"""

import copy
import functools
import hashlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from informed.adversary_runs import adversary_draws
from informed.attacks.inversion.cloud_regression import Local
from shadow import devices
from shadow.parallel import Runs
from shadow.threat import Knowledge, require_told
from shadow.training.algorithm import Draw
from shadow.width import models_per_batch

# With more batches of runs than this, compiling a program for larger ones pays.
_MANY = 10
# Number of cached theta, and their memory in bytes. This saves one in six trainings of
# MNIST at 1,000, as stages begin where others ended.
_KEPT, _KEPT_BYTES = 16, 64 << 20
# Relative standard deviation of the changes of pixels that measure A's rounding: a few
# spacings of float32 numbers, and far below an error that matters. Trainings with such
# changes: with one more they fill two batches.
_LAST_DIGITS, _ROUNDING_RUNS = 1e-6, 7
# Leading directions of the data along which `span_derivatives` are taken, by default.
RANK = 100
Unknowns = Float[np.ndarray, "unknown height width channels"]
Labels = Int[np.ndarray, " unknown"]
Basis = Float[np.ndarray, "m pixels"]
Leading = Float[np.ndarray, "leading pixels"]
Thetas = Float[np.ndarray, "points params"]


class Programs:
    """A, compiled as the adversary runs it, for all releases."""

    def __init__(
        self,
        knowledge: Knowledge,
        *,
        width: int,
        draws: int,
        key: Array,
        noise_draws: int = 0,
        rank: int = RANK,
    ) -> None:
        """Check the adversary's knowledge; nothing is compiled yet.

        Args:
          width: number of points trained at once.
          draws: draws of the unknown randomness, over which theta is averaged.
          noise_draws: trainings that measure how theta scatters, if above `draws`.
          rank: leading directions of the data in derivatives in span.
        Raises: ValueError: fixed or algorithm is None.
        """
        require_told(knowledge, "fixed", "algorithm")
        assert knowledge.fixed is not None
        assert knowledge.algorithm is not None
        self.knowledge, self.width, self.rank = knowledge, width, rank
        self.algorithm, self.fixed = knowledge.algorithm, knowledge.fixed
        self.images, self._quiet = self.fixed.images, self.algorithm.quiet()
        self.num_params = self.algorithm.layout(self.fixed)[-1].stop
        able = self.algorithm.capabilities
        start = knowledge.initialisation
        needed = {"initialisation": start, "key": knowledge.training_key}
        drawn = any(needed[name] is None for name in able.random)
        # Whether A has unknown randomness, so that theta is a mean; whether theta
        # varies between runs with the same known inputs.
        self.averaged = drawn or not able.deterministic
        self.random = self.averaged or able.noisy
        # In float64 where JAX has it enabled, for an A that computes in it.
        self.dtype = jnp.result_type(float) if able.batched else np.float32
        if start is not None:
            start = np.atleast_2d(start).astype(self.dtype)
        self.initialisations = start  # (1 or releases, params); None: unknown
        self.num_draws = max(draws, noise_draws) if self.random else 1
        self.num_averaged = draws if self.averaged else 1
        self._keys = jax.random.split(key, self.num_draws)

    @functools.cached_property
    def draw(self) -> Callable[[Any], Draw]:
        """The randomness of a run, by its number, independent between releases."""
        keys, draws, starts = self._keys, self.num_draws, None
        if self.initialisations is not None:
            rows, several = self.initialisations, len(self.initialisations) > 1
            table: Any = jnp.asarray(rows) if several else rows

            def starts(number: Any) -> Any:
                return table[number // draws if several else 0]

        return adversary_draws(
            self.knowledge,
            lambda number: keys[number % draws],
            starts=starts,
            dtype=self.dtype,
        )

    def _runs(self, algorithm: Any, *, many: bool) -> Runs:
        """Compile a program for few points at once, or for many."""
        width, data = self.width, (self.images, self.fixed.labels)
        if many:
            width = models_per_batch(self.algorithm, self.fixed)
        elif algorithm.capabilities.batched:
            width = -(-width // jax.local_device_count())
        runs = Runs(algorithm, data, self.draw, width=width, dtype=self.dtype)
        # The first run may be of a record with a new class, so its size may differ.
        runs.size = self.num_params
        return runs

    @functools.cached_property
    def quiet(self) -> Runs:
        """Runs without the noise of private training."""
        return self._runs(self._quiet, many=False)

    @functools.cached_property
    def many(self) -> Runs:
        """Runs without noise for many points at once, as fast as the factory's."""
        return self._runs(self._quiet, many=True)

    @functools.cached_property
    def noisy(self) -> Runs:
        """Runs with the noise of private training."""
        many = self.num_draws > _MANY * self.width
        return self._runs(self.algorithm, many=many)


class Retraining:
    """A as the adversary runs it on one release; its subclasses add derivatives."""

    # Whether slopes along one unknown point are approximate; see `response`.
    by_response = False

    def __init__(self, programs: Programs, release: int = 0) -> None:
        self.programs, self.release = programs, release
        self.runs = 0  # number of trainings so far
        self.random, self.num_params = programs.random, programs.num_params
        starts = programs.initialisations
        self.initialisation = None if starts is None else starts[release]
        first = release * programs.num_draws
        # Numbers of the draws that theta is the mean over.
        self.draw_numbers = first + np.arange(programs.num_averaged)
        self._kept: dict[Any, np.ndarray] = {}
        self._roundings: dict[bytes, float] = {}

    def at(self, release: int) -> "Retraining":
        """Return the same programs, at theta_0 of another release."""
        starts = self.programs.initialisations
        if starts is None or len(starts) == 1:
            return self
        return type(self)(self.programs, release)

    def knowing(self, images: np.ndarray) -> "Retraining":
        """Return the same A, not compiled again, with other images in D_-."""
        programs = copy.copy(self.programs)
        programs.images = images
        for name in ("quiet", "many", "noisy"):
            programs.__dict__.pop(name, None)
        return Retraining(programs, self.release)

    def thetas(
        self,
        images: Float[np.ndarray, "points unknown height width channels"],
        labels: Int[np.ndarray, "points unknown"],
    ) -> Thetas:
        """Return theta, float64, of each of several values of the unknown points.

        Recent points come from a cache if A is deterministic.
        """
        programs, numbers = self.programs, self.draw_numbers
        asked: list[Any] = []
        small = 8 * self.num_params * _KEPT <= _KEPT_BYTES
        if len(images) <= _KEPT and not programs.averaged and small:
            # If a run's last bits depend on its place in a batch, the key has that too.
            alike = devices.columns_alike()
            asked = [
                (0 if alike else place, np.asarray(image, programs.dtype).tobytes(), *y)
                for place, (image, y) in enumerate(zip(images, labels, strict=True))
            ]
            if all(point in self._kept for point in asked):
                return np.stack([self._kept[point] for point in asked])
        count = len(numbers)
        self.runs += count * len(images)
        batched = programs.algorithm.capabilities.batched
        many = batched and count * len(images) > _MANY * programs.width
        thetas = (programs.many if many else programs.quiet)(
            np.repeat(images, count, axis=0),
            np.repeat(labels, count, axis=0),
            np.tile(numbers, len(images)),
        ).astype(np.float64)
        if count > 1:
            return thetas.reshape(len(images), count, -1).mean(axis=1)
        latest = {p: theta.copy() for p, theta in zip(asked, thetas, strict=False)}
        earlier = [item for item in self._kept.items() if item[0] not in latest]
        self._kept = dict([*earlier, *latest.items()][-_KEPT:])
        return thetas

    def rounding(self, images: Unknowns, labels: Labels) -> float:
        """Return A's squared rounding, by training with images' last digits changed.

        Measured once for each start, which many releases share.
        """
        place = hashlib.sha256(images.tobytes() + labels.tobytes()).digest()
        if place not in self._roundings:
            rng = np.random.default_rng(0)
            near = np.tile(images, (_ROUNDING_RUNS + 1, *[1] * images.ndim))
            near[1:] *= 1 + _LAST_DIGITS * rng.standard_normal(near[1:].shape)
            thetas = self.thetas(near, np.tile(labels, (len(near), 1)))
            squared = np.sum((thetas[1:] - thetas[0]) ** 2, axis=1)
            # The median, because some runs jump if the images lie at a kink.
            self._roundings[place] = float(np.median(squared))
        return self._roundings[place]

    def draws(self, images: Unknowns, labels: Labels) -> Thetas:
        """Return theta under each draw of the unknown randomness, noise included."""
        count = self.programs.num_draws
        self.runs += count
        return self.programs.noisy(
            np.tile(images, (count, 1, 1, 1, 1)),
            np.tile(labels, (count, 1)),
            self.release * count + np.arange(count),
        ).astype(np.float64)

    def slopes(self, images: Unknowns, labels: Labels, basis: Basis) -> np.ndarray:
        """Differentiate theta along `basis`: (params, unknown * m), point by point."""
        raise NotImplementedError

    def local(self, images: Unknowns, labels: Labels, basis: Basis) -> Local | None:
        """Return the part of `slopes` that kinks don't affect; None: there is none."""
        return None
