"""Inversion of one release from one start: stages, weighting, certificate.

What the releases of one call share is kept in `Solver`: the compiled training runs, the
coordinates, and the derivatives at the mean image of each class. See `inversion`.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from informed.attacks.inversion import coordinates, gauss_newton, levels
from informed.attacks.inversion import noise as noises
from informed.attacks.inversion.cloud_search import CloudSearch
from informed.attacks.inversion.config import InversionConfig
from informed.attacks.inversion.coordinates import Space
from informed.attacks.inversion.derivatives import Differentiated
from informed.attacks.inversion.gauss_newton import Linearised
from informed.attacks.inversion.ranking import Ranking
from informed.attacks.inversion.repeats import Repeated
from informed.attacks.inversion.retraining import Retraining
from informed.attacks.inversion.starts import Start, Starts
from informed.threat import Knowledge
from shadow.release import Release

_LAST_DIGITS = 1e-6
_ROUNDING_RUNS = 2 * gauss_newton.AT_ONCE - 1  # together with z itself: two batches
_FLOOR_FACTOR = 2.0  # this near to the rounding noise no step helps any more
_QUICK, _PATIENT = (1.3, 1), (1.1, 2)  # (give_up, times `steps`)
_REACH = 2.5  # deviations; farther from the mean there is no image of this kind
_ON_LEVEL = 1e-9  # what passing through coordinates leaves of being there
_LAST_STAGE = 2  # times `steps`
_SEVERAL = (1.02, 4)  # (give_up, times `steps`) of the last stage, several points
_MARGIN = 4.0  # errors scatter around what is expected, and noise is seldom independent
_TOUCHED = 1e-6  # a weight that training moved by more has seen its pixel lit
_LIT = 0.1  # where a pixel that is certainly lit starts, at least
_LARGE_JACOBIAN = 2 << 30  # bytes; beyond, the last stages are matrix-free;
_MATRIX_FREE_STEPS = 4  # times as many of these steps,
_SMALL_GAIN = 1.02  # which may gain less each
_LARGE_ROUNDING = 0.03  # of the distance to theta;
_SMALL_DISTANCE = 1e-3  # of it
_BY_CHANCE = 1e-9  # that pixels come so near to levels, where they are moved onto them
_SHORT = (16, 48)  # clouds of every start, and of one whose error is then below
_PROMISING = 1.5  # standard deviations;
_LONG = 2  # starts that are searched to the end after all
_MOST_UNKNOWNS = 1000  # of clouds where derivatives have failed


@dataclasses.dataclass(frozen=True)
class Published:
    """One release: theta, and the deviations of its published numbers."""

    theta: np.ndarray
    deviations: np.ndarray | None

    @classmethod
    def of(cls, release: Release, i: int) -> "Published":
        """The i-th of the releases."""
        deviations = None if release.deviations is None else release.deviations[i]
        return cls(release.weights[i].astype(np.float64), deviations)


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A reconstruction of the unknown points of one release, and what speaks for it.

    Attributes:
      images, labels: (unknown, ...).
      residual: squared, of theta.
      explained: whether the noise explains the residual.
      certified: whether it is taken for exact.
      expected_mse: from the curvature.
      if_levels: whether it is exact if the truth's pixels are levels of public images,
        and theta doesn't say that they are.
    """

    images: np.ndarray
    labels: np.ndarray
    residual: float
    explained: bool
    certified: bool
    expected_mse: float
    if_levels: bool = False


class Solver:
    """Everything that the releases of one call share, or those of one theta_0."""

    def __init__(
        self,
        config: InversionConfig,
        knowledge: Knowledge,
        key: Array,
        runs: Retraining | None = None,
    ) -> None:
        """With the programs of another solver of the same knowledge, if there are."""
        draw_key, start_key = jax.random.split(key)
        self.config = config
        self.runs = runs or retraining_of(
            knowledge, config, width=gauss_newton.AT_ONCE, key=draw_key
        )
        assert knowledge.fixed is not None
        images, labels = knowledge.fixed.images, knowledge.fixed.labels
        if knowledge.public is not None:
            images = np.concatenate([images, knowledge.public.images])
            labels = np.concatenate([labels, knowledge.public.labels])
        self.coordinates = coordinates.principal_components(images)
        self.starts = Starts(
            config, self.runs, self.coordinates, images, labels, start_key
        )
        self._levels = levels.above_zero(images) if config.levels else None
        self._range = float(images.min()), float(images.max())
        self._dark = self.runs.never_lit()
        self.ranking = Ranking(config, self.runs, self.coordinates, self.starts)

    # Noise

    def noise(
        self, published: Published, images: np.ndarray, labels: np.ndarray
    ) -> noises.Independent:
        """Rounding of A around images, and what is told of publishing."""
        params = len(published.theta)
        floor = np.sqrt(self.rounding(images, labels) / params)
        deviations = np.full(params, max(floor, np.finfo(float).tiny))
        if published.deviations is not None:
            deviations = np.hypot(deviations, published.deviations)
        return noises.Independent(deviations)

    def rounding(self, images: np.ndarray, labels: np.ndarray) -> float:
        """Squared rounding noise of A: trained with the images' last digits changed."""
        rng = np.random.default_rng(0)
        near = np.tile(images, (_ROUNDING_RUNS + 1, *[1] * images.ndim))
        near[1:] *= 1 + _LAST_DIGITS * rng.standard_normal(near[1:].shape)
        values = self.runs.thetas(near, np.tile(labels, (len(near), 1)))
        # The median: at a kink some of the runs jump.
        return float(np.median(np.sum((values[1:] - values[0]) ** 2, axis=1)))

    # The solution

    def attempts(self, published: Published, labels: np.ndarray) -> Iterator[Candidate]:
        """Candidates from one start after the other, the most promising first.

        Args:
          published: the release.
          labels: (candidates, unknown), worth trying.
        """
        theta = published.theta
        if self.runs.random:
            for start in self.starts.of(theta, labels):
                yield self._most_probable(published, start)
            return
        few = labels.shape[1] == 1 and len(self.coordinates) <= _MOST_UNKNOWNS
        by_clouds = self.ranking.bent
        if not by_clouds:
            for start in self.starts.of(theta, labels):
                yield self._by_derivatives(published, start)
        if self.config.engine == "derivatives":
            return
        if by_clouds or few:
            starts = self.starts.near(theta, labels)
            several = starts if by_clouds else itertools.islice(starts, 1)
            yield from self._by_clouds(published, several)

    def _black_or_lit(self, published: Published) -> tuple[np.ndarray, np.ndarray]:
        """Pixels certainly black in all unknown points, and lit; (pixels,) bool."""
        if published.deviations is not None or not self._dark.any():
            return np.zeros_like(self._dark), np.zeros_like(self._dark)
        touched = np.abs(self._untouched - published.theta) > _TOUCHED
        lit = self._dark & self.runs.pixels_of(touched)
        return self._dark & ~lit, lit

    @functools.cached_property
    def _untouched(self) -> np.ndarray:
        """Theta after a black target; what never-lit pixels' weights become unlit."""
        blank = np.zeros((1, 1, *self.coordinates.image_shape))
        return self.runs.thetas(blank, np.zeros((1, 1), np.int64))[0]

    def _begun(
        self, published: Published, start: Start
    ) -> tuple[Space, np.ndarray, noises.Independent, bool]:
        """Coordinates, u of the start, noise there, and whether dark pixels are lit."""
        black, lit = self._black_or_lit(published)
        flat = start.images.reshape(len(start.labels), -1).astype(np.float64)
        begin = np.where(lit[None], np.maximum(flat, _LIT), flat)
        images = begin.reshape(start.images.shape)
        space = self._space(start.labels, black)
        noise = self.noise(published, images, start.labels)
        return space, space.of(images), noise, bool(lit.any())

    def _by_derivatives(self, published: Published, start: Start) -> Candidate:
        """Gauss-Newton, stage after stage."""
        labels = start.labels
        space, u, noise, lit = self._begun(published, start)
        exact = published.deviations is None
        enough = _FLOOR_FACTOR * len(published.theta) if exact else 0.0
        known = None if lit else self._known(noise, start)
        # With several points at once another start is worse than more steps.
        several = len(labels) > 1
        give_up, times = _PATIENT if start.patient or several else _QUICK
        slopes: gauss_newton.Slopes | None = None
        size = len(self.coordinates)
        for components in [m for m in self.config.stages if m < size] + [size]:
            # Far from the truth, what is not yet explained hides in all weights alike.
            last = components == size
            weighting = noise if last else noise.levelled()
            if last:
                give_up, times = _SEVERAL if several else (give_up, _LAST_STAGE)
            u, slopes = self._minimise(
                published,
                space,
                weighting,
                u,
                components,
                steps=self.config.steps * times,
                enough=enough,
                give_up=give_up,
                reach=_REACH * np.sqrt(len(labels) * components),
                prior=0.0 if exact else 1.0,
                slopes=known if slopes is None else None,
                last=last,
            )
        assert slopes is not None
        return self._candidate(published, space, u, noise, slopes)

    def _by_clouds(
        self, published: Published, starts: Iterable[Start]
    ) -> Iterator[Candidate]:
        """Clouds of runs: some from every start, then many from the best of them."""
        config = self.config.clouds
        searches = []
        for start in starts:
            search = self._cloud_search(published, start)
            for rounds in _SHORT:
                if search.found.error < _PROMISING or rounds == _SHORT[0]:
                    rounds = min(rounds, config.rounds)
                    search.go_on(dataclasses.replace(config, rounds=rounds, heats=0))
            if search.explained:
                yield self._of_clouds(published, search)
            else:
                searches.append(search)
        searches.sort(key=lambda search: search.found.error)
        for search in searches[:_LONG]:
            search.go_on(config)
            if len(search.found.u) <= _MOST_UNKNOWNS:
                search.end_on_levels()
            yield self._of_clouds(published, search)

    def _cloud_search(self, published: Published, start: Start) -> CloudSearch:
        space, u, noise, _ = self._begun(published, start)
        darkest, brightest = self._range
        return CloudSearch(
            self.runs,
            published.theta,
            space,
            u,
            noise,
            limit=functools.partial(self._limit, published, noise),
            noise_factor=self.config.noise_factor,
            levels=self._levels,
            darkest=darkest,
            brightest=brightest,
        )

    def _of_clouds(self, published: Published, search: CloudSearch) -> Candidate:
        found, space, noise = search.found, search.space, search.noise
        slopes = noise.whiten(space.completed(found.whole)).T
        return self._candidate(
            published,
            space,
            found.u,
            noise,
            gauss_newton.Slopes(Linearised(slopes, np.eye(len(found.u)))),
            limit=search.limit,
        )

    def _limit(
        self, published: Published, noise: noises.Independent, value: np.ndarray
    ) -> float:
        """Of the squared residual, above which rounding is no explanation.

        In chaos the rounding at a start may be as large as its distance to theta, and
        would explain any image; the truth, with the same last digits, has no rounding.
        """
        distance = np.sum((value - published.theta) ** 2)
        rounding = self.config.noise_factor * np.sum(noise.deviations**2)
        chaotic = not rounding <= _LARGE_ROUNDING**2 * distance
        if published.deviations is not None or not chaotic:
            return np.inf
        return float(_SMALL_DISTANCE**2 * distance)

    def _most_probable(self, published: Published, start: Start) -> Candidate:
        """The maximum a posteriori in as many components as the draws can tell apart.

        The noise is estimated at the start, and again at the first answer.
        """
        labels, runs = start.labels, self.runs
        space = self._space(labels, np.zeros_like(self._dark))
        components = max(1, runs.num_draws // (2 * len(labels)))
        components = min(components, len(self.coordinates))
        u = space.of(start.images)
        slopes: gauss_newton.Slopes | None = None
        for _ in range(2):
            images = space.images(u)
            basis = space.basis[:components]
            jacobian = runs.slopes(images, labels, basis)
            noise = noises.estimate(
                runs.draws(images, labels),
                jacobian,
                averaged=runs.num_averaged if runs.averaged else runs.num_draws,
            )
            kept = space.kept(components)
            u, slopes = self._minimise(
                published,
                space,
                noise,
                u,
                components,
                steps=self.config.steps,
                enough=0.0,
                give_up=_PATIENT[0],
                reach=_REACH * np.sqrt(len(labels) * components),
                prior=1.0,
                slopes=Linearised(noise.whiten(jacobian.T).T, kept),
            )
        assert slopes is not None
        images, variances = space.images(u), space.variances(slopes)
        if_levels, count = False, self._levels
        if (
            count is not None
            and levels.suggested(images, count)
            and levels.agree(images, _MARGIN * variances, count)
        ):
            if_levels = self._surely_on_levels(images, variances, labels)
            images = levels.nearest(images, count)
        residual = self.runs.thetas(images[None], labels[None])[0] - published.theta
        return Candidate(
            images=images.astype(np.float32),
            labels=labels,
            residual=float(residual @ residual),
            explained=True,  # no start can be told to be better than another
            # Theta scatters too much to tell a pixel on a level from one beside it.
            certified=False,
            expected_mse=float(variances.mean()),
            if_levels=if_levels,
        )

    def _surely_on_levels(
        self, images: np.ndarray, variances: np.ndarray, labels: np.ndarray
    ) -> bool:
        """Whether an answer is exact, should the pixels of the truth be levels."""
        assert self._levels is not None
        free = self.starts.deviations(labels) > 1 / self._levels
        sure = levels.chance(images, self._levels, free) < np.log(_BY_CHANCE)
        expected = levels.expected_mse(_MARGIN * variances, self._levels)
        return bool(sure and _MARGIN * expected <= self.config.exact_mse)

    def _minimise(
        self,
        published: Published,
        space: Space,
        noise: noises.Independent | noises.Projected,
        u: np.ndarray,
        components: int,
        prior: float,
        last: bool = False,
        **settings: Any,
    ) -> tuple[np.ndarray, gauss_newton.Slopes]:
        """One stage; the last one ends on the levels of public images, if it can."""
        labels = space.labels

        def residuals(us: np.ndarray) -> np.ndarray:
            found = self.runs.thetas(space.images(us), np.tile(labels, (len(us), 1)))
            return noise.whiten(found - published.theta)

        def dense(u: np.ndarray) -> Linearised:
            basis = space.basis[:components]
            slopes = self.runs.slopes(space.images(u), labels, basis)
            return Linearised(noise.whiten(slopes.T).T, space.kept(components))

        def pull(u: np.ndarray, whitened: np.ndarray) -> np.ndarray:
            # Whitening by independent noise is its own transpose.
            pulled = self.runs.pulls(space.images(u), labels, noise.whiten(whitened))
            return (pulled.reshape(len(labels), -1) @ space.basis.T).ravel()

        def krylov(u: np.ndarray) -> Linearised:
            images = space.images(u)
            return gauss_newton.krylov(
                push=lambda v: noise.whiten(
                    self.runs.pushes(images, labels, space.images(u + v) - images)
                ),
                pull=functools.partial(pull, u),
                slope=pull(u, residuals(u[None])[0]),
                dimensions=self.config.krylov,
            )

        columns = len(labels) * components
        large = columns * self.runs.num_params * 8 > _LARGE_JACOBIAN
        matrix_free = large and columns > self.config.krylov and self.runs.matrix_free
        if matrix_free:
            settings["steps"] *= _MATRIX_FREE_STEPS
            settings["give_up"] = _SMALL_GAIN
        settle = functools.partial(self._settled, space, residuals, prior)
        if last and not prior:
            settings["settle"] = settle
        start = gauss_newton.evaluate(residuals, u[None], prior)[0]
        here, slopes = gauss_newton.minimise(
            residuals,
            krylov if matrix_free else dense,
            start,
            prior=prior,
            **settings,
        )
        return settle(here).u if last else here.u, slopes

    def _settled(
        self,
        space: Space,
        residuals: Callable[[np.ndarray], np.ndarray],
        prior: float,
        point: gauss_newton.Point,
    ) -> gauss_newton.Point:
        """A point moved onto the levels of public images, if theta agrees."""
        images = space.images(point.u)
        if self._levels is None or not levels.suggested(images, self._levels):
            return point
        u = space.of(levels.nearest(images, self._levels))
        there = gauss_newton.evaluate(residuals, u[None], prior)[0]
        squared = there.residuals @ there.residuals
        agrees = squared <= self.config.noise_factor * len(there.residuals)
        return there if agrees else point

    def _space(self, labels: np.ndarray, black: np.ndarray) -> Space:
        """Coordinates of these points, around the mean images of their labels."""
        means = np.stack([self.starts.mean_image(int(label)) for label in labels])
        return Space(self.coordinates, labels, means, black)

    def _known(self, noise: noises.Independent, start: Start) -> Linearised | None:
        """The first stage's derivatives, where the ranking of labels left them."""
        components = min((*self.config.stages, len(self.coordinates)))
        label = int(start.labels[0])
        if (
            len(start.labels) > 1
            or label not in self.ranking.at_means
            or components > self.config.label_components
            or not np.array_equal(start.images[0], self.starts.mean_image(label))
        ):
            return None
        jacobian = self.ranking.at_means[label][1][:, :components]
        return Linearised(
            noise.levelled().whiten(jacobian.T).T,
            np.eye(components, len(self.coordinates)),
        )

    def _candidate(
        self,
        published: Published,
        space: Space,
        u: np.ndarray,
        noise: noises.Independent,
        slopes: gauss_newton.Slopes,
        limit: float = np.inf,
    ) -> Candidate:
        """The result, with its certificate; see `_limit`."""
        config, params = self.config, len(published.theta)
        images, labels = space.images(u), space.labels
        on_levels = False
        if self._levels is not None:
            near = levels.nearest(images, self._levels)
            on_levels = bool(np.abs(images - near).max() < _ON_LEVEL)
            images = near if on_levels else images
        at_end = self.noise(published, images, labels)
        residual = self.runs.thetas(images[None], labels[None])[0] - published.theta
        cost = np.sum(at_end.whiten(residual) ** 2)
        squared = float(residual @ residual)
        explained = bool(cost <= config.noise_factor * params and squared <= limit)
        # The slopes are in units of the noise at the start.
        grown = np.mean(at_end.deviations**2) / np.mean(noise.deviations**2)
        unexplained = 1.0 if explained else max(cost / params, 1.0)
        slopes.gram /= max(grown, 1.0) * unexplained
        variances = space.variances(slopes)
        expected = float(variances.mean())
        rests_on_levels = on_levels and _MARGIN * expected > config.exact_mse
        if on_levels:
            assert self._levels is not None
            expected = levels.expected_mse(_MARGIN * variances, self._levels)
        surely = bool(explained and _MARGIN * expected <= config.exact_mse)
        return Candidate(
            images=images.astype(np.float32),
            labels=labels,
            residual=squared,
            explained=explained,
            certified=surely,
            expected_mse=expected,
            if_levels=bool(rests_on_levels and surely),
        )


def retraining_of(
    knowledge: Knowledge, config: InversionConfig, *, width: int, key: Array
) -> Retraining:
    """The adversary's copy of A, with the derivatives that A allows."""
    settings: dict[str, Any] = {
        "width": width,
        "draws": config.draws,
        "noise_draws": config.noise_draws,
        "key": key,
    }
    algorithm = knowledge.algorithm
    if algorithm is None or algorithm.capabilities.differentiable:
        return Differentiated(
            knowledge, tangents=config.tangents, rank=config.rank, **settings
        )
    return Repeated(knowledge, **settings)
