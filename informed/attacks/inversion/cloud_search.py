"""The search of one start by clouds of trainings; it can be left and gone on with.

Which start leads to theta isn't known beforehand: that of the wrong label seldom does.
So every start is searched a little, and the most promising ones to the end (`solver`).
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from informed.attacks.inversion import clouds, levels
from informed.attacks.inversion.clouds import CloudConfig, CloudState
from informed.attacks.inversion.coordinates import Space
from informed.attacks.inversion.noise import Independent
from informed.attacks.inversion.regression import Local
from informed.attacks.inversion.retraining import Retraining


class CloudSearch:
    """One start's search; see the module's docstring.

    Attributes:
      space: coordinates of the unknown points.
      noise: model of the noise of theta around the start.
      limit: squared residual above which rounding is no explanation.
      state: the nearest point so far, and the next cloud.
    """

    def __init__(
        self,
        runs: Retraining,
        theta: np.ndarray,
        space: Space,
        u: np.ndarray,
        noise: Independent,
        *,
        limit: Callable[[np.ndarray], float],
        noise_factor: float,
        levels: int | None,
        darkest: float,
        brightest: float,
    ) -> None:
        """Train at the start, and nothing more yet.

        Args:
          runs: the adversary's copy of A.
          theta: (params,), the released weights.
          space: coordinates of the unknown points.
          u: (unknowns,), coordinates of the start.
          noise: model of the noise of theta around the start.
          limit: (params,), theta at the start -> squared residual above which rounding
            is no explanation.
          noise_factor: see `InversionConfig`.
          levels: number of levels above 0 of the public images; None: they lie on none.
          darkest: smallest pixel value of the public images.
          brightest: largest pixel value of the public images.
        """
        self.space, self.noise = space, noise
        self._runs, self._theta, self._levels = runs, theta, levels
        self._noise_factor = noise_factor
        self._range = darkest, brightest
        self._rng = np.random.default_rng(0)
        self.state = CloudState.start(u, self._thetas(u[None])[0])
        self.limit = limit(self.state.value)

    def go_on(self, config: CloudConfig) -> None:
        """Go on from where the search was left."""
        begun = self.state
        if begun.slopes is None and len(begun.u) > config.points:
            begun = dataclasses.replace(begun, slopes=self._derivatives(begun.u))
        self.state = clouds.minimise(
            self._thetas,
            self._theta,
            begun,
            config=config,
            rng=self._rng,
            allowed=self._allowed,
            likely=None if self._levels is None else self._likely,
            explained=self._explains,
            local=self._local,
        )

    @property
    def explained(self) -> bool:
        """Whether rounding explains what is left."""
        return self._explains(self.state.value - self._theta)

    def _thetas(self, us: np.ndarray) -> np.ndarray:
        """Theta after training with each of several u."""
        labels = np.tile(self.space.labels, (len(us), 1))
        return self._runs.thetas(self.space.images(us), labels)

    def _allowed(self, us: np.ndarray) -> np.ndarray:
        """Coordinates of the images cut to the range of public images."""
        return self.space.of_each(np.clip(self.space.images(us), *self._range))

    def _likely(self, us: np.ndarray) -> np.ndarray:
        """Coordinates of the images moved to the nearest levels."""
        assert self._levels is not None
        return self.space.of_each(levels.nearest(self.space.images(us), self._levels))

    def _explains(self, residual: np.ndarray) -> bool:
        """Whether rounding explains a residual of theta."""
        squared = np.sum(self.noise.whiten(residual) ** 2)
        small = squared <= self._noise_factor * len(residual)
        return bool(small and residual @ residual <= self.limit)

    def _local(self, u: np.ndarray) -> Local | None:
        """The part of the slopes that one training tells; None: nothing is known."""
        return self._runs.local(
            self.space.images(u), self.space.labels, self.space.basis
        )

    def _derivatives(self, u: np.ndarray) -> np.ndarray | None:
        """A first guess of the slopes, where clouds have fewer points than those."""
        if not self._runs.matrix_free or self._local(u) is not None:
            return None
        images = self.space.images(u)
        return self._runs.slopes(images, self.space.labels, self.space.basis).T
