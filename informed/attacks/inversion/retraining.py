"""A as the adversary runs it: unknown points in, theta and its derivatives out.

Randomness of A that the adversary isn't told is drawn by themselves, `draws` times, and
theta is the mean over the draws. The noise of private training is left out instead: its
effect is the same on average, to first order. More draws measure how theta scatters.

Derivatives are those of the whole training run; who gives them depends on what A can
do: `derivatives` where it is a function of JAX, `repeats` where it can only be run.
"""

import copy
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from informed.adversary_runs import adversary_draws, adversary_runs
from informed.attacks.inversion.regression import Local
from shadow import devices
from shadow.parallel import Runs
from shadow.threat import Knowledge, require_told
from shadow.training import GradientDescent
from shadow.training.algorithm import Draw
from shadow.victims import FirstWeights
from shadow.width import models_per_batch

# Batches of runs beyond which a program for larger ones is worth compiling.
_MANY = 10
# Points whose theta is kept: stages begin where others ended, and the certificate asks
# for what was asked before. One in six trainings of MNIST at 1,000 is spared. And the
# memory that they may take, in bytes.
_KEPT, _KEPT_BYTES = 16, 64 << 20
Unknowns = Float[np.ndarray, "unknown height width channels"]
Labels = Int[np.ndarray, " unknown"]


class Retraining:
    """The adversary's copy of A, which can be run; its subclasses add derivatives.

    Attributes:
      algorithm: A, as it is told.
      fixed: the fixed set D_-.
      num_params: length of theta.
      num_classes: number of labels to choose from.
      averaged: whether some randomness of A isn't told, so that theta is a mean.
      random: whether theta scatters while nothing that the adversary knows changes.
      num_averaged: number of draws that theta is the mean of.
      runs: number of trainings so far.
      dtype: precision of A's images and weights.
      starts: (1, params) or (releases, params), theta_0; None: it isn't told.
      release: number of the release whose theta_0 the runs begin at.
      matrix_free: whether there are `pushes` and `pulls`.
    """

    matrix_free = False

    def __init__(
        self,
        knowledge: Knowledge,
        *,
        width: int,
        draws: int,
        key: Array,
        noise_draws: int = 0,
    ) -> None:
        """Compile nothing yet; check what is known.

        Args:
          knowledge: needs fixed and algorithm.
          width: number of points trained at once.
          draws: draws of the randomness that isn't told, whose mean theta is.
          key: makes these draws.
          noise_draws: trainings that tell how theta scatters; the larger of this and
            `draws` counts.
        Raises: ValueError: a fact that it needs is None.
        """
        require_told(knowledge, "fixed", "algorithm")
        assert knowledge.fixed is not None
        assert knowledge.algorithm is not None
        self.algorithm, self.fixed = knowledge.algorithm, knowledge.fixed
        self.num_params = self.algorithm.layout(self.fixed)[-1].stop
        self.num_classes = self.fixed.num_classes
        can = self.algorithm.capabilities
        told = {
            "initialisation": knowledge.initialisation,
            "key": knowledge.training_key,
        }
        untold = [name for name in can.random if told[name] is None]
        self.averaged = bool(untold) or not can.deterministic
        self.random = self.averaged or can.noisy
        # In float64 where JAX has it enabled, for an A that computes in it.
        self.dtype = jnp.result_type(float) if can.batched else np.float32
        start = knowledge.initialisation
        # One theta_0 for all releases, or a row for each.
        self.starts = None if start is None else np.atleast_2d(start).astype(self.dtype)
        self.release = 0
        self._knowledge = knowledge
        self._width = width
        self._crowd = models_per_batch(self.algorithm, self.fixed)
        total = max(draws, noise_draws) if self.random else 1
        self._draw_keys = jax.random.split(key, total)
        self.num_averaged = draws if self.averaged else 1
        self.runs = 0
        self._kept: dict[Any, np.ndarray] = {}

    def at(self, release: int) -> "Retraining":
        """The same programs from theta_0 of another release."""
        if self.starts is None or len(self.starts) == 1:
            return self
        self._make_programs()
        other = copy.copy(self)
        other.release, other.runs, other._kept = release, 0, {}
        return other

    def _make_programs(self) -> None:
        """Make the programs that copies for other releases share."""
        _ = self._quiet, self._noisy

    @property
    def by_response(self) -> bool:
        """Whether slopes along one unknown point are approximate; see `response`."""
        return False

    @property
    def start(self) -> Float[np.ndarray, " params"] | None:
        """Theta_0, where it is known."""
        return None if self.starts is None else self.starts[self.release]

    @functools.cached_property
    def draw(self) -> Callable[[Any], Draw]:
        """The randomness of a run, by its number as `draw_numbers` counts them."""
        return adversary_draws(self._knowledge, self._key_of, **self._randomness)

    @property
    def _randomness(self) -> dict[str, Any]:
        """Where each release has a theta_0, each has draws of its own."""
        if self.starts is None:
            return {"dtype": self.dtype}
        draws, several = len(self._draw_keys), len(self.starts) > 1
        rows = jnp.asarray(self.starts) if several else self.starts

        def start(number: Any) -> Any:
            return rows[number // draws if several else 0]

        return {"starts": start, "dtype": self.dtype}

    def _key_of(self, number: Any) -> Array:
        return self._draw_keys[number % len(self._draw_keys)]

    @property
    def draw_numbers(self) -> np.ndarray:
        """Numbers of the runs that theta is the mean of; each release has its own."""
        count = len(self._draw_keys)
        return self.release * count + np.arange(self.num_averaged)

    @property
    def num_draws(self) -> int:
        """Number of draws of the randomness that isn't told, all in all."""
        return len(self._draw_keys)

    # Programs

    def _runner(self, algorithm: Any, width: int | None = None) -> Runs:
        if width is None:
            width = self._width
            if algorithm.capabilities.batched:
                width = -(-width // jax.local_device_count())
        runs = adversary_runs(
            self._knowledge,
            self._key_of,
            width=width,
            algorithm=algorithm,
            **self._randomness,
        )
        # Not that of the first run, which may be of a record with a class of its own.
        runs.size = self.num_params
        return runs

    @functools.cached_property
    def _quiet(self) -> Runs:
        return self._runner(self.algorithm.quiet())

    @functools.cached_property
    def _many(self) -> Runs:
        """The program for many points at once, as fast as the factory's."""
        return self._runner(self.algorithm.quiet(), self._crowd)

    @functools.cached_property
    def _noisy(self) -> Runs:
        many = len(self._draw_keys) > _MANY * self._width
        return self._runner(self.algorithm, self._crowd if many else None)

    def thetas(
        self,
        images: Float[np.ndarray, "points unknown height width channels"],
        labels: Int[np.ndarray, "points unknown"],
    ) -> Float[np.ndarray, "points params"]:
        """Train with each of several values of the unknown points; float64.

        Points that were all asked for lately aren't trained on again, where A gives the
        same weights again.
        """
        large = 8 * self.num_params * _KEPT > _KEPT_BYTES
        if len(images) > _KEPT or self.averaged or large:
            return self._trained(images, labels)
        # Where a run's last bits depend on its place in a batch, that counts as well.
        alike = devices.columns_alike()
        asked = [
            (0 if alike else place, np.asarray(image, self.dtype).tobytes(), *label)
            for place, (image, label) in enumerate(zip(images, labels, strict=True))
        ]
        if all(each in self._kept for each in asked):
            return np.stack([self._kept[each] for each in asked])
        found = self._trained(images, labels)
        latest = {each: theta.copy() for each, theta in zip(asked, found, strict=True)}
        before = [each for each in self._kept.items() if each[0] not in latest]
        self._kept = dict([*before, *latest.items()][-_KEPT:])
        return found

    def _trained(self, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """See `thetas`."""
        numbers = self.draw_numbers
        count = len(numbers)
        self.runs += count * len(images)
        batched = self.algorithm.capabilities.batched
        many = batched and count * len(images) > _MANY * self._width
        found = (self._many if many else self._quiet)(
            np.repeat(images, count, axis=0),
            np.repeat(labels, count, axis=0),
            np.tile(numbers, len(images)),
        ).astype(np.float64)
        if count == 1:
            return found
        return found.reshape(len(images), count, -1).mean(axis=1)

    def draws(
        self, images: Unknowns, labels: Labels
    ) -> Float[np.ndarray, "draws params"]:
        """Theta under each draw of the randomness that isn't told, noise included."""
        count = len(self._draw_keys)
        self.runs += count
        return self._noisy(
            np.tile(images, (count, 1, 1, 1, 1)),
            np.tile(labels, (count, 1)),
            self.release * count + np.arange(count),
        ).astype(np.float64)

    def slopes(
        self, images: Unknowns, labels: Labels, basis: Float[np.ndarray, "m pixels"]
    ) -> Float[np.ndarray, "params columns"]:
        """Derivatives of theta as the unknown points move along `basis`.

        Returns: (params, unknown * m), the columns of the first point first.
        """
        raise NotImplementedError

    def local(
        self, images: Unknowns, labels: Labels, basis: Float[np.ndarray, "m pixels"]
    ) -> Local | None:
        """The part of `slopes` that holds whatever the kinks; None: there is none."""
        del images, labels, basis
        return None

    def pulls(
        self, images: Unknowns, labels: Labels, slope: Float[np.ndarray, " params"]
    ) -> Unknowns:
        """The transposed Jacobian times `slope`: a gradient with respect to images."""
        raise NotImplementedError

    def pushes(
        self, images: Unknowns, labels: Labels, tangent: Unknowns
    ) -> Float[np.ndarray, " params"]:
        """The Jacobian times one direction."""
        raise NotImplementedError

    # The first layer, where it is dense and known

    @functools.cached_property
    def _first(self) -> FirstWeights | None:
        if not isinstance(self.algorithm, GradientDescent):
            return None
        return self.algorithm.victim.first_weights

    def never_lit(self) -> Bool[np.ndarray, " pixels"]:
        """Pixels that are zero in all of D_- and have weights of their own."""
        dark = ~self.fixed.images.reshape(len(self.fixed), -1).any(axis=0)
        return np.asarray(dark & (self._first is not None and not self.random))

    def weights_of(
        self, pixels: Bool[np.ndarray, " pixels"]
    ) -> Bool[np.ndarray, " params"]:
        """Weights of the first layer that some pixels have for themselves."""
        marked = np.zeros(self.num_params, bool)
        if pixels.any():
            assert self._first is not None
            columns, shape = self._first
            marked[columns] = np.broadcast_to(pixels[:, None], shape).ravel()
        return marked

    def pixels_of(
        self, weights: Bool[np.ndarray, " params"]
    ) -> Bool[np.ndarray, " pixels"]:
        """Pixels with at least one of these weights in the first layer."""
        assert self._first is not None
        columns, shape = self._first
        return np.asarray(weights[columns].reshape(shape).any(axis=1))
