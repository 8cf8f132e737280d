"""Inversion of one release from one start: stages and weighting.

What the releases of one call share is kept in `Solver`: the compiled training runs, the
coordinates, and the derivatives at the mean image of each class. See `attack` for the
method, `config.SolverConfig` for its thresholds.
"""

import copy
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from informed.attacks.inversion import certificate, coordinates, gauss_newton, levels
from informed.attacks.inversion import noise as noises
from informed.attacks.inversion.candidate import Candidate, Published
from informed.attacks.inversion.cloud_search import CloudSearch
from informed.attacks.inversion.config import InversionConfig, Patience, SolverConfig
from informed.attacks.inversion.coordinates import Space
from informed.attacks.inversion.derivatives import Differentiated
from informed.attacks.inversion.gauss_newton import Iterate, Linearised
from informed.attacks.inversion.least_squares import LeastSquares
from informed.attacks.inversion.ranking import LabelRanking
from informed.attacks.inversion.repeats import Repeated
from informed.attacks.inversion.retraining import Retraining
from informed.attacks.inversion.starts import Start, Starts
from shadow.threat import Knowledge

# `SolverConfig.reach` of the attempt with free columns.
_FAR = 100.0


class Solver:
    """Everything that the releases of one call share, or those of one theta_0.

    Attributes:
      runs: the adversary's copy of A.
      coordinates: principal components of the known images.
      starts: the images that searches begin at.
      ranking: labels worth trying, and how far A bends.
      certificate: what is said of an answer, and the noise that it is judged by.
    """

    def __init__(
        self,
        config: InversionConfig,
        knowledge: Knowledge,
        key: Array,
        runs: Retraining | None = None,
        settings: SolverConfig | None = None,
    ) -> None:
        """Prepare what releases share; nothing is trained yet.

        Args:
          config: how hard to try.
          knowledge: what the adversary is told; needs fixed and algorithm.
          key: draws the randomness of A that isn't told, and further starts.
          runs: the compiled programs of another solver of the same knowledge; None: A
            is compiled anew.
          settings: thresholds of the search; None: the defaults.
        """
        draw_key, start_key = jax.random.split(key)
        self.config, self.settings = config, settings or SolverConfig()
        self.runs = runs or retraining_of(
            knowledge, config, width=gauss_newton.AT_ONCE, key=draw_key
        )
        assert knowledge.fixed is not None
        everything = knowledge.fixed.joined(knowledge.public)
        images, labels = everything.images, everything.labels
        self.coordinates = coordinates.principal_components(images)
        self.starts = Starts(
            config, self.runs, self.coordinates, images, labels, start_key
        )
        self._levels = levels.above_zero(images) if config.levels else None
        self.certificate = certificate.Certificate(
            config=config,
            settings=self.settings,
            runs=self.runs,
            images=images,
            levels=self._levels,
        )
        self._range = float(images.min()), float(images.max())
        self._dark = self.runs.never_lit()
        self.ranking = LabelRanking(config, self.runs, self.coordinates, self.starts)

    # The search

    def attempts(self, published: Published, labels: np.ndarray) -> Iterator[Candidate]:
        """Candidates from one start after the other, the most promising first.

        Args:
          published: the release.
          labels: (candidates, unknown), the labels worth trying.
        """
        theta = published.theta
        if self.runs.random:
            for start in self.starts.of(theta, labels):
                yield self._most_probable(published, start)
            return
        most = self.settings.most_unknowns
        few = labels.shape[1] == 1 and len(self.coordinates) <= most
        by_clouds = self.ranking.bent
        if not by_clouds:
            # One attempt with free columns: for the likeliest label before the patient
            # ones, for the other labels after these. Where the release is rounded, a
            # wide prior explains too much, and it comes last.
            free = self._with_free_columns(published, labels)
            early = 1 if published.deviations is None else 0
            for number, start in enumerate(self.starts.of(theta, labels)):
                yield self._by_derivatives(published, start)
                if not number:
                    yield from free(labels[:early])
            yield from free(labels[early:])
        if self.config.engine == "derivatives":
            return
        if by_clouds or few:
            starts = self.starts.near(theta, labels)
            several = starts if by_clouds else itertools.islice(starts, 1)
            yield from self._by_clouds(published, several)

    def _with_free_columns(
        self, published: Published, labels: np.ndarray
    ) -> Callable[[np.ndarray], Iterator[Candidate]]:
        """Labels -> candidates in coordinates where little is held to its range.

        For targets with a value that no known record has. None of them where every
        column varies, or is certainly black in the target.
        """
        black, _ = self._black_or_lit(published)
        able = labels.shape[1] == 1 and np.any(self._constant & ~black)

        def candidates(rows: np.ndarray) -> Iterator[Candidate]:
            for row in rows if able else ():
                image = self.starts.mean_image(int(row[0]))
                start = Start(row, image[None], patient=True)
                yield self._free._by_derivatives(published, start)

        return candidates

    @functools.cached_property
    def _constant(self) -> np.ndarray:
        """Columns that are the same in all known images, (pixels,) bool."""
        return coordinates.constant(self.certificate.images)

    @functools.cached_property
    def _free(self) -> "Solver":
        other = copy.copy(self)
        other.coordinates = coordinates.principal_components(
            self.certificate.images, coordinates.FREE_DEVIATION
        )
        # What nobody else has lies far from the mean, however few columns there are.
        other.settings = dataclasses.replace(self.settings, reach=_FAR)
        # Its derivatives at mean images are of other coordinates: it has none.
        other.ranking = LabelRanking(
            self.config, self.runs, other.coordinates, self.starts
        )
        return other

    def _by_derivatives(self, published: Published, start: Start) -> Candidate:
        """Gauss-Newton, stage after stage of more components."""
        labels, settings = start.labels, self.settings
        space, u, noise, lit = self._begun(published, start)
        exact = published.deviations is None
        enough = settings.floor_factor * len(published.theta) if exact else 0.0
        known = None if lit else self._known(noise, start)
        several = len(labels) > 1
        slow = start.patient or several
        patience = settings.patient if slow else settings.quick
        # By response a Jacobian costs as much for few components as for many, and the
        # next stage makes one anyway. MNIST at 1,000, eight targets of seed 0: one of
        # 18 second ones within a stage divided the cost by more than 1.1. Confirmed on
        # seed 5.
        once = self.runs.by_response and not slow
        slopes: gauss_newton.Slopes | None = None
        size = len(self.coordinates)
        # Stages of components: few first, since A bends too much for a start in all.
        for components in [m for m in self.config.stages if m < size] + [size]:
            last = components == size
            # Far from the truth, what is not yet explained hides in all weights alike.
            weighting = noise if last else noise.levelled()
            if last and several:
                patience = settings.several
            elif last:
                patience = Patience(patience.give_up, settings.last_stage_times)
            u, slopes = self._minimise(
                published,
                space,
                weighting,
                u,
                components,
                steps=1 if once and not last else self.config.steps * patience.times,
                enough=enough,
                give_up=patience.give_up,
                reach=settings.reach * np.sqrt(len(labels) * components),
                prior=0.0 if exact else 1.0,
                slopes=known if slopes is None else None,
                last=last,
            )
        assert slopes is not None
        return self.certificate.candidate(published, space, u, noise, slopes)

    def _by_clouds(
        self, published: Published, starts: Iterable[Start]
    ) -> Iterator[Candidate]:
        """Clouds of runs: some from every start, then many from the best of them."""
        config, settings = self.config.clouds, self.settings
        first, second = settings.short_clouds
        searches = []
        for start in starts:
            # A short search from every start, and a longer one if it is promising.
            search = self._cloud_search(published, start)
            search.go_on(config.shortened(first))
            if search.state.error < settings.promising:
                search.go_on(config.shortened(second))
            if search.explained:
                yield self._of_clouds(published, search)
            else:
                searches.append(search)
        # The searches of least error are gone on with, to the end.
        searches.sort(key=lambda search: search.state.error)
        for search in searches[: settings.long_searches]:
            search.go_on(config)
            yield self._of_clouds(published, search)

    def _most_probable(self, published: Published, start: Start) -> Candidate:
        """The maximum a posteriori, where A draws randomness that isn't told.

        It lies in as many components as the draws can tell apart. The noise is
        estimated at the start, and again at the first answer.
        """
        labels, runs, settings = start.labels, self.runs, self.settings
        space = self._space(labels, np.zeros_like(self._dark))
        components = max(1, runs.num_draws // (2 * len(labels)))
        components = min(components, len(self.coordinates))
        u = space.of(start.images)
        slopes: gauss_newton.Slopes | None = None
        for _ in range(2):
            images = space.images(u)
            jacobian = runs.slopes(images, labels, space.basis[:components])
            # The covariance of theta over draws, in the directions of the Jacobian.
            noise = noises.estimate(
                runs.draws(images, labels),
                jacobian,
                averaged=runs.num_averaged if runs.averaged else runs.num_draws,
            )
            u, slopes = self._minimise(
                published,
                space,
                noise,
                u,
                components,
                steps=self.config.steps,
                enough=0.0,
                give_up=settings.patient.give_up,
                reach=settings.reach * np.sqrt(len(labels) * components),
                prior=1.0,
                slopes=Linearised(noise.whiten(jacobian.T).T, space.kept(components)),
            )
        assert slopes is not None
        images, variances = space.images(u), space.variances(slopes)
        images, variances = certificate.given(
            published, space, slopes, images, variances
        )
        if_levels, count = False, self._levels
        if (
            count is not None
            and levels.suggested(images, count)
            and levels.agree(images, settings.margin * variances, count)
        ):
            if_levels = self._surely_on_levels(images, variances, labels)
            images = levels.nearest(images, count)
        residual = self.runs.thetas(images[None], labels[None])[0] - published.theta
        return Candidate(
            images=images.astype(np.float32),
            labels=labels,
            residual=float(residual @ residual),
            # No start is known to be better than another.
            explained=True,
            # Theta scatters too much to tell a pixel on a level from one beside it.
            certified=False,
            expected_mse=float(variances.mean()),
            if_levels=if_levels,
        )

    # A start

    def _begun(
        self, published: Published, start: Start
    ) -> tuple[Space, np.ndarray, noises.Independent, bool]:
        """Coordinates, u of the start, noise there, and whether dark pixels are lit."""
        black, lit = self._black_or_lit(published)
        flat = start.images.reshape(len(start.labels), -1).astype(np.float64)
        begin = np.where(lit[None], np.maximum(flat, self.settings.lit), flat)
        images = begin.reshape(start.images.shape)
        space = self._space(start.labels, black)
        noise = self.certificate.noise(published, images, start.labels)
        return space, space.of(images), noise, bool(lit.any())

    def _black_or_lit(self, published: Published) -> tuple[np.ndarray, np.ndarray]:
        """Pixels certainly black in all unknown points, and lit; (pixels,) bool."""
        if published.deviations is not None or not self._dark.any():
            return np.zeros_like(self._dark), np.zeros_like(self._dark)
        moved = np.abs(self._untouched - published.theta)
        digits = np.spacing(np.abs(self._untouched).astype(np.float32))
        lit = self._dark & self.runs.pixels_of(moved > self.settings.touched * digits)
        return self._dark & ~lit, lit

    @functools.cached_property
    def _untouched(self) -> np.ndarray:
        """Theta after a black target: where the weights of unlit pixels end."""
        blank = np.zeros((1, 1, *self.coordinates.image_shape))
        return self.runs.thetas(blank, np.zeros((1, 1), np.int64))[0]

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

    # Steps

    def _minimise(
        self,
        published: Published,
        space: Space,
        noise: noises.Independent | noises.Projected,
        u: np.ndarray,
        components: int,
        prior: float,
        last: bool = False,
        **limits: Any,
    ) -> tuple[np.ndarray, gauss_newton.Slopes]:
        """One stage; the last one ends on the levels of public images, if it can.

        Args:
          published: the release.
          space: coordinates of the unknown points.
          noise: model of the noise, by which residuals are weighted.
          u: coordinates of the start.
          components: number of coordinates of each point that the stage moves.
          prior: weight of |u|^2.
          last: whether this is the last stage.
          limits: steps, enough, give_up, reach and slopes of `gauss_newton.minimise`.
        """
        problem = LeastSquares(
            runs=self.runs,
            theta=published.theta,
            space=space,
            noise=noise,
            components=components,
            prior=prior,
        )
        linearise: Callable[[np.ndarray], Linearised] = problem.jacobian
        # Matrix-free, where the Jacobian itself would be too large.
        size = problem.columns * self.runs.num_params * 8
        large = size > self.settings.largest_jacobian_bytes
        krylov = self.config.krylov
        if large and problem.columns > krylov and self.runs.matrix_free:
            linearise = functools.partial(problem.krylov, dimensions=krylov)
            limits["steps"] *= self.settings.matrix_free.times
            limits["give_up"] = self.settings.matrix_free.give_up
        settle = functools.partial(self._settled, problem)
        if last and not prior:
            limits["settle"] = settle
        here, slopes = gauss_newton.minimise(
            problem.residuals, linearise, problem.at(u), prior=prior, **limits
        )
        return settle(here).u if last else here.u, slopes

    def _settled(self, problem: LeastSquares, here: Iterate) -> Iterate:
        """A point moved onto the levels of public images, if theta agrees."""
        images = problem.space.images(here.u)
        if self._levels is None or not levels.suggested(images, self._levels):
            return here
        there = problem.at(problem.space.of(levels.nearest(images, self._levels)))
        squared = there.residuals @ there.residuals
        agrees = squared <= self.config.noise_factor * len(there.residuals)
        return there if agrees else here

    def _cloud_search(self, published: Published, start: Start) -> CloudSearch:
        """The search by clouds from one start, which has trained there alone."""
        space, u, noise, _ = self._begun(published, start)
        darkest, brightest = self._range
        return CloudSearch(
            self.runs,
            published.theta,
            space,
            u,
            noise,
            limit=functools.partial(self.certificate.rounding_limit, published, noise),
            noise_factor=self.config.noise_factor,
            levels=self._levels,
            darkest=darkest,
            brightest=brightest,
        )

    # The certificate

    def _of_clouds(self, published: Published, search: CloudSearch) -> Candidate:
        """The result of a search by clouds, with the slopes of its last cloud."""
        space, noise = search.space, search.noise
        slopes = noise.whiten(space.completed(search.state.whole)).T
        u = search.state.u
        return self.certificate.candidate(
            published,
            space,
            u,
            noise,
            gauss_newton.Slopes(Linearised(slopes, np.eye(len(u)))),
            limit=search.limit,
        )

    def _surely_on_levels(
        self, images: np.ndarray, variances: np.ndarray, labels: np.ndarray
    ) -> bool:
        """Whether an answer is exact, should the pixels of the truth be levels."""
        assert self._levels is not None
        margin = self.settings.margin
        free = self.starts.deviations(labels) > 1 / self._levels
        chance = levels.chance(images, self._levels, free)
        expected = levels.expected_mse(margin * variances, self._levels)
        sure = chance < np.log(self.settings.chance)
        return bool(sure and margin * expected <= self.config.exact_mse)


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
