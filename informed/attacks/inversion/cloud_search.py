"""The inversion's search by clouds of random images: from every start, then the best.

`clouds` fits slopes to trainings on the images of a cloud, for training with kinks.
Derivatives give at most a first guess, and the part of the slopes that has no kinks.
Most *starts* (a label, and an image to begin at) don't lead to the released weights
theta, and nobody knows beforehand which do.
`training_inversion` calls `from_near` where derivatives stopped near theta, and
`certificates` for kinks, after derivatives failed, or if the engine is "clouds".
"""

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from informed.attacks.inversion import clouds, pixel_levels
from informed.attacks.inversion.certificate import (
    certify,
    noise_of,
    rounding_limit,
)
from informed.attacks.inversion.cloud_regression import Local
from informed.attacks.inversion.clouds import CloudState
from informed.attacks.inversion.derivatives import Differentiated
from informed.attacks.inversion.gauss_newton import Linearised, Slopes
from informed.attacks.inversion.problem import (
    NOISE_FACTOR,
    Candidate,
    Certificate,
    Problem,
    Published,
    Start,
)
from informed.attacks.inversion.shared_measurements import SharedMeasurements

# Clouds for every start; then clouds for a promising start before starts are compared.
_FIRST, _SECOND = 16, 48
# A start is promising if the error estimated after its first clouds is below this, in
# standard deviations of the unknowns. Unsuccessful starts stay above.
_PROMISING = 1.5
# Number of starts that are searched to the end, the most promising first.
_LONG_SEARCHES = 2
# A search by derivatives came near if it left at most this share of theta's distance.
# The first cloud there has a radius of this many times that share, in deviations.
_NEAR, _WIDTH = 0.2, 1.4


def certificates(
    shared: SharedMeasurements, published: Published, starts: Iterable[Start]
) -> Iterator[Certificate]:
    """Yield certificates: at once for a start that explains theta, then for the best.

    Every start is searched briefly, and the `_LONG_SEARCHES` best others to the end.
    """
    rounds = shared.config.clouds
    searches = []
    for start in starts:
        search = CloudSearch(shared.pose(published, start), start)
        # A short search from every start, and a longer one if it is promising.
        state = search.go_on(search.begun, min(_FIRST, rounds), heats=0)
        if state.error < _PROMISING:
            state = search.go_on(state, min(_SECOND, rounds), heats=0)
        if search.explains(state.value - published.theta):
            yield certify(search.problem, search.candidate(state))
        else:
            searches.append((state.error, search, state))
    # Continue the searches of least error to the end.
    searches.sort(key=lambda entry: entry[0])
    for _, search, state in searches[:_LONG_SEARCHES]:
        state = search.go_on(state, rounds)
        yield certify(search.problem, search.candidate(state))


def from_near(problem: Problem, start: Start, end: Candidate) -> Iterator[Certificate]:
    """Continue by clouds where the search by derivatives ended, if it is near theta.

    Derivatives neglect some of the response of D_-, so they may stop before the target.
    """
    us = problem.space.of(start.images), end.u
    values = [problem.thetas(u[None])[0] for u in us]
    first, last = (np.linalg.norm(v - problem.published.theta) for v in values)
    share = float(last / first)
    if not share <= _NEAR:  # also if training diverged, and it is NaN
        return
    search = CloudSearch(problem, start)
    near = CloudState.start(end.u, values[1], _WIDTH * share)
    state = search.go_on(near, min(_FIRST, problem.config.clouds), heats=0)
    yield certify(problem, search.candidate(state))


class CloudSearch:
    """The search from one start; its first state is `begun`."""

    def __init__(self, problem: Problem, start: Start) -> None:
        """Train at the start and measure the noise of theta there."""
        self.problem = problem
        u = problem.space.of(start.images)
        self.begun = CloudState.start(u, problem.thetas(u[None])[0])
        rounding = problem.runs.rounding(start.images, start.labels)
        self.noise = noise_of(problem.published, rounding)
        # Squared residual above which rounding is no explanation.
        self.limit = rounding_limit(problem.published, self.noise, self.begun.value)
        self.rng = np.random.default_rng(0)

    def go_on(
        self, state: CloudState, rounds: int, heats: int = clouds.HEATS
    ) -> CloudState:
        """Continue by `rounds` clouds; up to `heats` stalls get a larger cloud."""
        space, runs = self.problem.space, self.problem.runs
        few = state.slopes is None and len(state.u) > clouds.POINTS
        if few and isinstance(runs, Differentiated) and self._local(state.u) is None:
            # Clouds of few points find many slopes badly, so begin with a guess.
            images = space.images(state.u)
            slopes = runs.slopes(images, space.labels, space.basis).T
            state = dataclasses.replace(state, slopes=slopes)
        return clouds.minimise(
            self.problem.thetas,
            self.problem.published.theta,
            state,
            rounds=rounds,
            heats=heats,
            rng=self.rng,
            allowed=self._allowed,
            likely=None if self.problem.known.levels is None else self._likely,
            explained=self.explains,
            local=self._local,
        )

    def explains(self, residual: np.ndarray) -> bool:
        """Return whether rounding explains a residual of theta."""
        squared = np.sum(self.noise.whiten(residual) ** 2)
        small = squared <= NOISE_FACTOR * len(residual)
        return bool(small and residual @ residual <= self.limit)

    def candidate(self, state: CloudState) -> Candidate:
        """Return the best point, with the slopes of the last cloud."""
        slopes = self.noise.whiten(self.problem.space.completed(state.jacobian)).T
        return Candidate(
            u=state.u,
            slopes=Slopes(Linearised(slopes, np.eye(len(state.u)))),
            noise=self.noise,
            limit=self.limit,
        )

    def _allowed(self, us: np.ndarray) -> np.ndarray:
        """Return coordinates of the images, clipped to the known images' range."""
        space, known = self.problem.space, self.problem.known
        return space.of(np.clip(space.images(us), *known.range))

    def _likely(self, us: np.ndarray) -> np.ndarray:
        """Return coordinates of the images, rounded to the nearest pixel levels."""
        space, levels = self.problem.space, self.problem.known.levels
        assert levels is not None
        return space.of(pixel_levels.nearest(space.images(us), levels))

    def _local(self, u: np.ndarray) -> Local | None:
        """Return the part of the slopes that one training gives; None: no part."""
        space = self.problem.space
        return self.problem.runs.local(space.images(u), space.labels, space.basis)
