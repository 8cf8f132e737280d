"""Reading the target out of a network near a stationary point; no seed is needed.

THREAT: knows D_- and A; neither the initialisation nor the order of mini-batches.
White-box release.

Where training has converged, the gradient of the whole penalised loss is zero, so that
of the target is minus that of all the rest, which the adversary can compute: Theorem 1
of Balle et al. 2022 for networks. In a dense first layer it *is* the target (closed
form). What isn't converged hides it: in directions of small curvature first. How much,
as a function of curvature, is learned from a few models of the adversary's own, and
weighted by it, with a Gaussian prior on images, the most probable target is found by
Gauss-Newton, for the most likely labels:

    min_z sum_i (v_i . (g + grad loss(z)))^2 / f(lambda_i) + |u(z)|^2

Source: ours. The key draws the adversary's own models.
"""

import dataclasses
import functools

import jax
import numpy as np
from jaxtyping import Array

from informed.adversary_runs import adversary_runs
from informed.attacks import rounding
from informed.attacks.inversion import coordinates, gauss_newton, pixel_levels
from informed.attacks.inversion.coordinates import Space
from informed.attacks.inversion.gauss_newton import Linearised
from informed.attacks.stationary.config import StationaryConfig
from informed.attacks.stationary.gradients import PenalisedGradients
from informed.attacks.stationary.spread import Spread, eigenbasis
from shadow import bars, checks
from shadow.data import Examples
from shadow.threat import Knowledge, Reconstruction, Release
from shadow.training import GradientDescent

# A step that divides the cost by less than this is the last. No step trains anything
# here, so that small gains are worth their price.
_GIVE_UP = 1.01
# Bound on the norm of an answer's coordinates, in standard deviations per component.
# Farther from the mean there is no image of this kind.
_REACH = 2.5
# Own models trained at once on one device; a matter of speed and memory.
_WIDTH = 16
# Root mean square distance from the nearest levels, as a share of their spacing, up to
# which an answer is moved onto them; see `Prior.on_levels`.
_NEAR_LEVELS = 0.15


@dataclasses.dataclass(frozen=True)
class MostProbable:
    """The most probable target with one label.

    Attributes:
      image: (height, width, channels), not cut to [0, 1].
      label: the label that the image was searched with.
      cost: minus twice the log posterior, to within a constant.
      expected_mse: mean posterior variance of the pixels.
    """

    image: np.ndarray
    label: int
    cost: float
    expected_mse: float


@dataclasses.dataclass(frozen=True)
class StationaryAttack:
    """The attack; see the module's docstring.

    Attributes:
      config: how hard to try.
      progress: whether to show a bar.
    """

    config: StationaryConfig = dataclasses.field(default_factory=StationaryConfig)
    progress: bool = False

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """Reconstruct the target of every release; needs fixed and algorithm.

        Uses public images for the prior and the own models' targets, labels, an
        initialisation and an order of mini-batches where they are told.

        Returns: images, not cut to [0, 1]; labels; residuals, the squared norm of the
          whole gradient at the answer, zero at a stationary point; expected_mse.
        Raises: FieldError: A isn't gradient descent on a victim with a dense first
          layer, is private, or the victim is too large.
        """
        knowledge.require(release, "fixed", "algorithm")
        algorithm, fixed = knowledge.algorithm, knowledge.fixed
        assert fixed is not None
        if not isinstance(algorithm, GradientDescent) or algorithm.victim.first is None:
            raise checks.FieldError(
                "algorithm",
                "Expected {} to be gradient descent on a victim with a dense first"
                " layer: the target is read out of its gradient there.",
            )
        if algorithm.training.privacy.on:
            raise checks.FieldError(
                "algorithm",
                "Expected {} without privacy: clipped gradients with noise have no"
                " stationary point.",
            )
        params = algorithm.victim.num_params
        if self.config.models and params > self.config.most_params:
            raise checks.FieldError(
                "algorithm",
                f"Expected {{}} of at most {self.config.most_params} parameters, got"
                f" {params}: its Hessian is computed. Raise most_params, or set"
                " models=0 for the closed form.",
            )
        with jax.enable_x64(True):
            gradients = _gradients(algorithm, fixed)
            prior = Prior.of(fixed, knowledge.public)
            spread = None
            if self.config.models:
                spread = self._learned(release, gradients, knowledge, key)
            parts = [
                self._one(
                    theta,
                    None if knowledge.labels is None else int(knowledge.labels[i]),
                    gradients,
                    prior,
                    spread,
                )
                for i, theta in enumerate(
                    bars.bar(
                        release.weights.astype(np.float64),
                        desc="stationary",
                        unit=" targets",
                        show=self.progress,
                    )
                )
            ]
        return Reconstruction.joined(parts)

    def _learned(
        self,
        release: Release,
        gradients: PenalisedGradients,
        knowledge: Knowledge,
        key: Array,
    ) -> Spread:
        """The spread, learned from own models, with as few digits as the release."""
        shown = knowledge.public if knowledge.public is not None else knowledge.fixed
        assert shown is not None
        assert knowledge.fixed is not None
        order = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        shown = shown.take(order.permutation(len(shown))[: self.config.models])
        # In 32 bits, as the developer trains.
        with jax.enable_x64(False):
            runs = adversary_runs(knowledge, key, width=_WIDTH)
            numbers = np.arange(len(shown))
            thetas = runs(shown.images[:, None], shown.labels[:, None], numbers)
        thetas = thetas.astype(np.float64)
        if (rounded := rounding.deviations(release, 0)) is not None:
            thetas += rounded * order.standard_normal(thetas.shape)
        curvatures, left = [], []
        for theta, image, label in zip(thetas, shown.images, shown.labels, strict=True):
            whole = gradients.known(theta)
            target = gradients.target(
                theta, image[None].astype(np.float64), np.array([label])
            )
            values, vectors = eigenbasis(gradients.hessian(theta))
            curvatures.append(values)
            left.append(vectors.T @ (whole + target[0]))
        return Spread.learned(np.stack(curvatures), np.stack(left))

    def _one(
        self,
        theta: np.ndarray,
        label: int | None,
        gradients: PenalisedGradients,
        prior: "Prior",
        spread: Spread | None,
    ) -> Reconstruction:
        """The answer for one release."""
        # The closed form: minus the gradient of all other points is the target's.
        known = gradients.known(theta)
        x, scores = gradients.closed_form(-known)
        order = np.argsort(-scores)[: self.config.labels_tried]
        tried = order if label is None else np.array([label])
        if spread is None:
            image = x.reshape(prior.around.image_shape)
            best = MostProbable(prior.on_levels(image), int(tried[0]), 0.0, np.inf)
        else:
            # The most probable target, weighted in the eigenbasis of the Hessian.
            values, vectors = eigenbasis(gradients.hessian(theta))
            rotation = vectors.T / np.sqrt(spread(values))[:, None]
            read = np.clip(x, 0, 1).reshape(prior.around.image_shape)
            answers = [
                self._most_probable(
                    theta, known, int(each), gradients, prior, rotation, begin
                )
                for each in tried
                for begin in (None, read)
            ]
            best = min(answers, key=lambda answer: answer.cost)
        left = (
            known + gradients.target(theta, best.image[None], np.array([best.label]))[0]
        )
        return Reconstruction(
            images=best.image[None].astype(np.float32),
            labels=np.array([best.label]),
            residuals=np.array([left @ left]),
            expected_mse=np.array([best.expected_mse]),
        )

    def _most_probable(
        self,
        theta: np.ndarray,
        known: np.ndarray,
        label: int,
        gradients: PenalisedGradients,
        prior: "Prior",
        rotation: np.ndarray,
        begin: np.ndarray | None,
    ) -> MostProbable:
        """The maximum a posteriori for a label, from an image or the label's mean."""
        space = prior.space(label)
        u = np.zeros(len(space.basis)) if begin is None else space.of(begin[None])
        reach = _REACH * np.sqrt(len(u))
        u = u * min(1.0, reach / max(np.linalg.norm(u), 1e-300))

        def residuals(us: np.ndarray) -> np.ndarray:
            images = space.images(us)[:, 0]
            of_target = gradients.target(theta, images, np.full(len(us), label))
            return (known + of_target) @ rotation.T

        def linearise(u: np.ndarray) -> Linearised:
            slopes = gradients.slopes(theta, space.images(u)[0], label)
            return Linearised(
                rotation @ (slopes @ space.basis.T), np.eye(len(space.basis))
            )

        start = gauss_newton.evaluate(residuals, u[None], 1.0)
        here, slopes = gauss_newton.minimise(
            residuals,
            linearise,
            start[0],
            steps=self.config.steps,
            enough=0.0,
            give_up=_GIVE_UP,
            reach=reach,
            prior=1.0,
        )
        image = prior.on_levels(space.images(here.u)[0])
        # A residual that the spread doesn't explain counts as more noise.
        slopes.gram /= max(1.0, here.cost / len(here.residuals))
        variances = space.variances(slopes)
        return MostProbable(image, label, here.cost, float(variances.mean()))


@dataclasses.dataclass(frozen=True, eq=False)
class Prior:
    """A Gaussian of images around the mean of each label, all with one covariance.

    Attributes:
      around: principal components of the images less the means of their labels.
      means: (classes, height, width, channels), mean image of each label, or of all
        images where a label has none.
      levels: number of levels above 0 on which all pixels lie; None: there are none.
    """

    around: coordinates.Coordinates
    means: np.ndarray
    levels: int | None

    @classmethod
    def of(cls, fixed: Examples, public: Examples | None) -> "Prior":
        """The prior that all images tell which the adversary knows."""
        everything = fixed.joined(public)
        images, labels = everything.images, everything.labels
        means = everything.means(np.arange(fixed.num_classes), np.float64)
        return cls(
            coordinates.principal_components(images - means[labels]),
            means,
            pixel_levels.above_zero(images),
        )

    def space(self, label: int) -> Space:
        """Coordinates of the images of a label, around their mean."""
        nothing = np.zeros(self.around.basis.shape[1], bool)
        return Space(self.around, np.array([label]), self.means[label][None], nothing)

    def on_levels(self, image: np.ndarray) -> np.ndarray:
        """The image moved onto levels if it lies near them.

        By chance the distances from the nearest level are 0.29 of one, in the root mean
        square. Where they are half of that, a normal error of the same size reaches
        half a level in one pixel of a thousand.
        """
        if self.levels is None:
            return image
        on_levels = pixel_levels.nearest(image, self.levels)
        apart = (image - on_levels) * self.levels
        near = np.sqrt(np.mean(apart**2)) <= _NEAR_LEVELS
        return on_levels if near else image


@functools.lru_cache(maxsize=1)
def _gradients(algorithm: GradientDescent, fixed: Examples) -> PenalisedGradients:
    """Compiled once for calls with the same A and D_-."""
    return PenalisedGradients(algorithm, fixed)
