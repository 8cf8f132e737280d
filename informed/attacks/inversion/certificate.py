"""What is said of an answer: whether it explains theta, and is certainly exact.

An answer is certified where the noise of A explains what is left of theta, and where
theta leaves no room for a larger error: neither by its slopes, nor where it tells
nothing.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

from informed.attacks.inversion import coordinates, gauss_newton
from informed.attacks.inversion import levels as grids
from informed.attacks.inversion import noise as noises
from informed.attacks.inversion.candidate import Candidate, Published
from informed.attacks.inversion.config import InversionConfig, SolverConfig
from informed.attacks.inversion.coordinates import Space
from informed.attacks.inversion.retraining import Retraining


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """How answers are judged.

    Attributes:
      config: how hard the attack tries, with the error that counts as exact.
      settings: thresholds.
      runs: the adversary's copy of A.
      images: (images, height, width, channels), those that the adversary has.
      levels: number of levels above zero on which their pixels lie; None: they don't,
        or levels are not used.
    """

    config: InversionConfig
    settings: SolverConfig
    runs: Retraining
    images: Float[np.ndarray, "images height width channels"]
    levels: int | None

    def noise(
        self, published: Published, images: np.ndarray, labels: np.ndarray
    ) -> noises.Independent:
        """The rounding of A around images, joined with the noise of publishing."""
        params = len(published.theta)
        floor = np.sqrt(self.rounding(images, labels) / params)
        # Trainings that round their weights may leave nothing to measure.
        size = np.sqrt(np.mean(published.theta**2)) or np.finfo(float).tiny
        deviations = np.full(params, max(floor, np.finfo(float).eps * size))
        if published.deviations is not None:
            deviations = np.hypot(deviations, published.deviations)
        return noises.Independent(deviations)

    def rounding(self, images: np.ndarray, labels: np.ndarray) -> float:
        """Squared rounding noise of A: trained with the images' last digits changed."""
        rng, settings = np.random.default_rng(0), self.settings
        near = np.tile(images, (settings.rounding_runs + 1, *[1] * images.ndim))
        near[1:] *= 1 + settings.last_digits * rng.standard_normal(near[1:].shape)
        values = self.runs.thetas(near, np.tile(labels, (len(near), 1)))
        # The median, because some of the runs jump where the images lie at a kink.
        return float(np.median(np.sum((values[1:] - values[0]) ** 2, axis=1)))

    def rounding_limit(
        self, published: Published, noise: noises.Independent, value: np.ndarray
    ) -> float:
        """The squared residual above which rounding is no explanation.

        In chaos the rounding at a start may be as large as its distance to theta, and
        would explain any image; the truth, with the same last digits, has no rounding.

        Args:
          published: the release.
          noise: the noise around the start.
          value: (params,), what A gives at the start.
        """
        settings = self.settings
        distance = np.sum((value - published.theta) ** 2)
        rounding = self.config.noise_factor * np.sum(noise.deviations**2)
        chaotic = not rounding <= settings.large_rounding**2 * distance
        if published.deviations is not None or not chaotic:
            return np.inf
        return float(settings.small_distance**2 * distance)

    def candidate(
        self,
        published: Published,
        space: Space,
        u: np.ndarray,
        noise: noises.Independent,
        slopes: gauss_newton.Slopes,
        limit: float = np.inf,
    ) -> Candidate:
        """The images at u, with their certificate.

        Args:
          published: the release.
          space: coordinates of the unknown points.
          u: coordinates of the answer.
          noise: the noise around the start, in whose units the slopes are.
          slopes: derivatives around the answer.
          limit: squared residual above which rounding is no explanation.
        """
        config, params, margin = self.config, len(published.theta), self.settings.margin
        images, labels = space.images(u), space.labels
        on_levels = False
        if self.levels is not None:
            near = grids.nearest(images, self.levels)
            on_levels = bool(np.abs(images - near).max() < self.settings.on_level)
            images = near if on_levels else images
        # First condition: the noise, measured again here, explains the residual.
        at_end = self.noise(published, images, labels)
        residual = self.runs.thetas(images[None], labels[None])[0] - published.theta
        cost = np.sum(at_end.whiten(residual) ** 2)
        squared = float(residual @ residual)
        explained = bool(cost <= config.noise_factor * params and squared <= limit)
        told = True
        if explained:
            slopes, told = self._answered(space, images, noise, slopes)
        # Second condition: the curvature leaves no room for a larger error. Slopes are
        # brought to the noise at the end; a residual that isn't explained is noise.
        grown = np.mean(at_end.deviations**2) / np.mean(noise.deviations**2)
        unexplained = 1.0 if explained else max(cost / params, 1.0)
        slopes.gram /= max(grown, 1.0) * unexplained
        variances = space.variances(slopes)
        if explained:
            # A certificate may not rest on the prior where theta tells nothing.
            variances = variances + space.unseen(slopes, self.images)
        else:
            images, variances = given(published, space, slopes, images, variances)
        expected = float(variances.mean())
        rests_on_levels = on_levels and margin * expected > config.exact_mse
        if on_levels:
            assert self.levels is not None
            expected = grids.expected_mse(margin * variances, self.levels)
        surely = bool(explained and told and margin * expected <= config.exact_mse)
        if published.known is not None:
            # Third condition: what is known of the target is there.
            apart = (published.known.values - images)[:, published.known.mask]
            surely = surely and float(np.mean(apart**2)) <= config.exact_mse
            images = published.known.put(images)
        return Candidate(
            images=images.astype(np.float32),
            labels=labels,
            residual=squared,
            explained=explained,
            certified=surely,
            expected_mse=expected,
            if_levels=bool(rests_on_levels and surely),
        )

    def _answered(
        self,
        space: Space,
        images: np.ndarray,
        noise: noises.Independent,
        slopes: gauss_newton.Slopes,
    ) -> tuple[gauss_newton.Slopes, bool]:
        """Slopes on the directions that training answers to, and whether all do.

        Rounding and Broyden's update lend slopes to a direction that theta tells
        nothing about. So the weakest are tried: images that are moved along one, by the
        largest error of a certificate, are trained on.

        Args:
          space: coordinates of the unknown points.
          images: (unknown, height, width, channels), the answer.
          noise: the noise in whose units the slopes are.
          slopes: derivatives around the answer.
        Returns: the slopes, and False where silent directions went on being found.
        """
        settings, error = self.settings, self.config.exact_mse
        slopes = space.moving(slopes)
        # Twice what the rounding of both runs leaves in their difference.
        rounding = self.rounding(images, space.labels)
        level = np.full_like(
            noise.deviations, np.sqrt(rounding / len(noise.deviations))
        )
        silence = 2 * self.config.noise_factor * np.sum(noise.whiten(level) ** 2)
        for _ in range(settings.most_tries):
            directions, along = slopes.weakest(settings.tried_at_once)
            moves = space.moves(directions)
            scales = np.sqrt(error / np.mean(moves**2, axis=(1, 2, 3, 4)))
            tried = images + scales[:, None, None, None, None] * moves
            values = self.runs.thetas(
                np.concatenate([images[None], tried]),
                np.tile(space.labels, (len(tried) + 1, 1)),
            )
            change = noise.whiten(values[1:] - values[0])
            promised = (along * scales).T
            lengths = np.maximum(np.sum(promised**2, axis=1), np.finfo(float).tiny)
            shares = np.sum(change * promised, axis=1) / lengths
            loud = np.sum(change**2, axis=1) > silence
            # Where noise hides nothing, what was measured is better than the slopes.
            slopes.set(directions[loud], (change / scales[:, None])[loud].T)
            silent = ~loud & ~(shares > settings.least_answer)
            if not silent.any():
                return slopes, True
            slopes = slopes.without(directions[silent])
            if not len(slopes.directions):
                return slopes, True
        return slopes, False


def given(
    published: Published,
    space: Space,
    slopes: gauss_newton.Slopes,
    images: np.ndarray,
    variances: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """An answer and its variances, given the known pixels of its target.

    The posterior is normal around the answer, so known pixels move the others along.
    """
    known = published.known
    if known is None:
        return images, variances
    gaps = (known.values - images)[:, known.mask][0]
    moved, left = slopes.conditioned(
        space.basis, known.mask.ravel(), gaps, coordinates.SMALLEST_DEVIATION**2
    )
    moved, left = moved.reshape(images.shape), left.reshape(images.shape)
    return known.put(images + moved), np.where(known.mask[None], 0.0, left)
