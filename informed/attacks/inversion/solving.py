"""The inversion's search by derivatives: from a start to a candidate, in stages.

`training_inversion` calls `solve`. Each stage is a least-squares problem in the leading
components of every unknown point (in all of them, where it needs no matrix):

    |W (A(D_- + z(u)) - theta)|^2 + prior |u|^2

A is training, D_- its known images, theta the released weights, z(u) the images at
coordinates u; W whitens by the noise of theta. The first stage has few components, the
last one all pixels, because A is too nonlinear to start there. If A is random, there
are two stages of as many components as the draws of its randomness resolve; the second
estimates the noise again.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from informed.attacks.inversion import gauss_newton, pixel_levels, weight_noise
from informed.attacks.inversion.certificate import noise_of
from informed.attacks.inversion.derivatives import Differentiated
from informed.attacks.inversion.gauss_newton import Iterate, Linearised, Slopes
from informed.attacks.inversion.problem import NOISE_FACTOR, Candidate, Problem, Start
from informed.attacks.inversion.weight_noise import Independent, Projected

# Gauss-Newton ends when the squared residual is at most this many times its average
# from rounding, because no step helps any more. Not for rounded releases or random A.
_FLOOR_FACTOR = 2.0
# With a float64 Jacobian of more bytes than this, a stage is matrix-free, in a Krylov
# space of this dimension.
LARGEST_JACOBIAN, KRYLOV = 2 << 30, 50
# The cost of a Jacobian by `response`, in steps of four trainings.
_PRICE = 3.0


@dataclasses.dataclass(frozen=True)
class Patience:
    """When a stage of Gauss-Newton stops."""

    give_up: float  # least factor by which the steps with a Jacobian divide the cost
    times: int  # most Jacobians, as a multiple of `InversionConfig.steps`


# For starts at the mean image of a label, since other starts follow; and for all
# others, after which a new start promises less than more steps.
_QUICK, _PATIENT = Patience(1.3, 1), Patience(1.1, 2)
# For the last stage: with several unknown points, many steps of small gain are better
# than another start. With one point, this multiple of `steps`, for all pixels.
_SEVERAL, _LAST_TIMES = Patience(1.02, 4), 2
# For a Krylov space, whose steps are cheaper and gain less; `times` multiplies those of
# the stage.
_MATRIX_FREE = Patience(1.02, 4)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """The least-squares problem of one stage; see the module's docstring."""

    problem: Problem
    noise: Independent | Projected  # noise of theta, which whitens the residuals
    components: int  # number of coordinates of each point that the stage moves
    prior: float = 0.0  # weight of |u|^2
    last: bool = False  # whether it ends on the levels of known images, if it can

    def residuals(self, us: np.ndarray) -> np.ndarray:
        """Return whitened residuals (points, residuals) at several values of u."""
        return self.noise.whiten(self.problem.thetas(us) - self.problem.published.theta)

    def jacobian(self, u: np.ndarray) -> Linearised:
        """Differentiate the whitened residuals along the components of the stage."""
        space = self.problem.space
        directions, moves = space.first(self.components)
        slopes = self.problem.runs.slopes(space.images(u), space.labels, moves)
        return Linearised(self.noise.whiten(slopes.T).T, directions)

    def krylov(self, u: np.ndarray) -> Linearised:
        """Differentiate in a Krylov space of few dimensions, by single products."""
        space, runs, noise = self.problem.space, self.problem.runs, self.noise
        assert isinstance(runs, Differentiated)
        images, labels = space.images(u), space.labels

        def push(v: np.ndarray) -> np.ndarray:
            moved = space.images(u + v) - images
            return noise.whiten(runs.pushes(images, labels, moved))

        def pull(whitened: np.ndarray) -> np.ndarray:
            # Whitening by independent noise is its own transpose.
            pulled = runs.pulls(images, labels, noise.whiten(whitened))
            return (pulled.reshape(len(labels), -1) @ space.basis.T).ravel()

        slope = pull(self.residuals(u[None])[0])
        return gauss_newton.krylov(push, pull, slope, KRYLOV)

    def settled(self, here: Iterate) -> Iterate:
        """Return a point, on the known images' pixel levels if theta agrees."""
        space, count = self.problem.space, self.problem.known.levels
        images = space.images(here.u)
        if count is None or not pixel_levels.suggested(images, count):
            return here
        u = space.of(pixel_levels.nearest(images, count))
        (there,) = gauss_newton.evaluate(self.residuals, u[None], self.prior)
        squared = there.residuals @ there.residuals
        agrees = squared <= NOISE_FACTOR * len(there.residuals)
        return there if agrees else here

    def minimise(
        self,
        u: np.ndarray,
        *,
        steps: int,
        give_up: float,
        enough: float = 0.0,
        slopes: Linearised | None = None,
        **reuse: Any,
    ) -> tuple[np.ndarray, Slopes]:
        """Search from u; arguments as for `gauss_newton.minimise`."""
        runs = self.problem.runs
        if runs.by_response:
            reuse["price"] = _PRICE
        linearise: Callable[[np.ndarray], Linearised] = self.jacobian
        columns = len(self.problem.space.labels) * self.components
        large = columns * runs.num_params * 8 > LARGEST_JACOBIAN
        able = isinstance(runs, Differentiated) and isinstance(self.noise, Independent)
        if large and columns > KRYLOV and able:
            linearise, give_up = self.krylov, _MATRIX_FREE.give_up
            steps *= _MATRIX_FREE.times
        (here,) = gauss_newton.evaluate(self.residuals, u[None], self.prior)
        here, slopes_there = gauss_newton.minimise(
            self.residuals,
            linearise,
            here,
            steps=steps,
            enough=enough,
            give_up=give_up,
            reach=self.problem.reach * np.sqrt(columns),
            prior=self.prior,
            slopes=slopes,
            settle=self.settled if self.last and not self.prior else None,
            **reuse,
        )
        return (self.settled(here) if self.last else here).u, slopes_there


def solve(problem: Problem, start: Start) -> Candidate:
    """Fit theta by Gauss-Newton from a start; return where the last stage ended."""
    if problem.runs.random:
        return _most_probable(problem, start)
    config, published, labels = problem.config, problem.published, problem.space.labels
    noise = noise_of(published, problem.runs.rounding(start.images, labels))
    u = problem.space.of(start.images)
    rounded, several = published.deviations is not None, len(labels) > 1
    enough = 0.0 if rounded else _FLOOR_FACTOR * len(published.theta)
    slow = start.patient or several
    patience = _PATIENT if slow else _QUICK
    # By `response` a Jacobian costs as much as a few steps, for few components as for
    # many. Then one step is enough for a stage before the last, and two such stages.
    # Chosen on MNIST at 1,000, seeds 21, 33 and 41.
    once = problem.runs.by_response and not slow
    size, ranked = problem.space.size, start.jacobian
    most = problem.runs.programs.rank if once else size
    stages = [n for n in config.stages if n < min(most, size)]
    known, slopes, first = None, None, min((*stages, size))
    if ranked is not None and first <= ranked.shape[1]:
        whitened = noise.levelled().whiten(ranked[:, :first].T).T
        known = Linearised(whitened, np.eye(first, size))
    for components in [*stages, size]:
        last = components == size
        if last and several:
            patience = _SEVERAL
        elif last:
            patience = Patience(patience.give_up, _LAST_TIMES)
        # Far from the truth, the unexplained residual is spread over all weights.
        stage = Stage(
            problem=problem,
            noise=noise if last else noise.levelled(),
            components=components,
            prior=1.0 if rounded else 0.0,
            last=last,
        )
        short = {"steps": 1, "most": 1} if once and not last else {}
        u, slopes = stage.minimise(
            u,
            **{"steps": config.steps * patience.times} | short,
            give_up=patience.give_up,
            enough=enough,
            slopes=known if slopes is None else None,
        )
    assert slopes is not None
    return Candidate(u=u, slopes=slopes, noise=noise)


def _most_probable(problem: Problem, start: Start) -> Candidate:
    """Find the most probable target if A has unknown randomness.

    The noise is estimated at the start, and again at the first solution.
    """
    space, runs, labels = problem.space, problem.runs, problem.space.labels
    programs = runs.programs
    components = min(max(1, programs.num_draws // (2 * len(labels))), space.size)
    u, slopes = space.of(start.images), None
    for _ in range(2):
        images = space.images(u)
        directions, moves = space.first(components)
        jacobian = runs.slopes(images, labels, moves)
        # The covariance of theta over draws, in the directions of the Jacobian.
        noise = weight_noise.estimate(
            runs.draws(images, labels),
            jacobian,
            averaged=programs.num_averaged if programs.averaged else programs.num_draws,
        )
        known = Linearised(noise.whiten(jacobian.T).T, directions)
        stage = Stage(problem=problem, noise=noise, components=components, prior=1.0)
        u, slopes = stage.minimise(
            u, steps=problem.config.steps, give_up=_PATIENT.give_up, slopes=known
        )
    assert slopes is not None
    return Candidate(u=u, slopes=slopes)
