"""The attack on networks near a stationary point of their loss; it needs no seed.

Runs play it as `stationary`. THREAT: knows the known records D_- and the training
algorithm A; needs neither the initialisation nor the order of mini-batches. White-box
release.

If training has converged, the target's gradient is minus that of all other records,
which the adversary can compute: Theorem 1 of Balle et al. 2022 for networks. In a dense
first layer this gradient gives the target in closed form. Incomplete convergence
perturbs it, most in directions of small curvature. A few models of the adversary's own
show how much (f below). With these weights and a Gaussian prior on images (u),
Gauss-Newton finds the most probable target for the most likely labels:

    min_z sum_i (v_i . (g + grad loss(z)))^2 / f(lambda_i) + |u(z)|^2

g is the gradient of D_-, v_i and lambda_i are the eigenvectors and eigenvalues of the
Hessian. Source: ours. The key draws the adversary's own models.
"""

import dataclasses
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from informed.adversary_runs import adversary_runs
from informed.attacks import quantisation
from informed.attacks.attack_row import Material
from informed.attacks.inversion import coordinates, gauss_newton, pixel_levels
from informed.attacks.inversion.coordinates import Space
from informed.attacks.inversion.gauss_newton import Linearised
from informed.attacks.stationary.gradients import PenalisedGradients, Spread
from shadow import bars, checks
from shadow.data import Examples
from shadow.threat import Knowledge, Reconstruction, Release
from shadow.training import GradientDescent

# Stop after a step that divides the cost by less: steps train nothing here.
_GIVE_UP = 1.01
# Bound on a target's coordinates, in standard deviations per component.
_REACH = 2.5
# Own models trained at once on one device; affects speed and memory only.
_WIDTH = 16
# Largest root mean square distance from the nearest levels, as a share of their
# spacing, for rounding an image to them; see `Prior.on_levels`.
_NEAR_LEVELS = 0.15


@dataclasses.dataclass(frozen=True, kw_only=True)
class StationaryConfig:
    """Settings of the attack on stationary points.

    Attributes:
      models: number of the adversary's own models, which show how much gradient
        training leaves.
      labels_tried: number of labels to solve for, the most likely first.
      steps: largest number of Gauss-Newton steps per label.
      most_params: largest number of parameters for which to compute the victim's
        Hessian, which takes 16 bytes x params^2.
    """

    models: int = 16
    labels_tried: int = 3
    steps: int = 20
    most_params: int = 12000

    def __post_init__(self) -> None:
        for field in ("models", "labels_tried", "steps", "most_params"):
            checks.at_least(field, getattr(self, field), 1)


class MostProbable(NamedTuple):
    """The most probable target for one label."""

    image: np.ndarray  # (height, width, channels)
    label: int
    cost: float  # minus twice the log posterior
    expected_mse: float  # mean posterior variance of a pixel


def make(config: StationaryConfig, material: Material) -> "StationaryAttack":
    """Build the attack for the registry."""
    return StationaryAttack(config=config, progress=material.progress)


@dataclasses.dataclass(frozen=True)
class StationaryAttack:
    """The attack on stationary points; see the module's docstring."""

    config: StationaryConfig = dataclasses.field(default_factory=StationaryConfig)
    progress: bool = False

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """Reconstruct the target of every release; needs fixed and algorithm.

        Uses public images for the prior and the own models' targets; also labels, the
        initialisation and the order of mini-batches if they are known.

        Returns: images, not clipped to [0, 1]; labels; residuals, the squared norm of
          the whole gradient at the image, zero at a stationary point; expected_mse.
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
        if algorithm.privacy.on:
            raise checks.FieldError(
                "algorithm",
                "Expected {} without privacy: clipped gradients with noise have no"
                " stationary point.",
            )
        algorithm.require_plain_penalty()
        params = algorithm.victim.num_params
        if params > self.config.most_params:
            raise checks.FieldError(
                "algorithm",
                f"Expected {{}} of at most {self.config.most_params} parameters, got"
                f" {params}: its Hessian is computed. Raise most_params.",
            )
        with jax.enable_x64(True):
            gradients = PenalisedGradients(algorithm, fixed)
            prior = Prior.of(fixed, knowledge.public)
            spread = self._learned(release, gradients, knowledge, key)
            thetas = bars.bar(
                release.weights.astype(np.float64),
                desc="stationary",
                unit=" targets",
                show=self.progress,
            )
            parts = []
            for i, theta in enumerate(thetas):
                label = None if knowledge.labels is None else int(knowledge.labels[i])
                parts.append(self._attack(theta, label, gradients, prior, spread))
        return Reconstruction.joined(parts)

    def _learned(
        self,
        release: Release,
        gradients: PenalisedGradients,
        knowledge: Knowledge,
        key: Array,
    ) -> Spread:
        """Learn the spread from own models, rounded like the release."""
        shown = knowledge.public if knowledge.public is not None else knowledge.fixed
        assert shown is not None
        order = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        shown = shown.take(order.permutation(len(shown))[: self.config.models])
        # In float32, as the developer trains.
        with jax.enable_x64(False):
            runs = adversary_runs(knowledge, key, width=_WIDTH)
            numbers = np.arange(len(shown))
            thetas = runs(shown.images[:, None], shown.labels[:, None], numbers)
        thetas = thetas.astype(np.float64)
        if (noise := quantisation.deviations(release, 0)) is not None:
            thetas += noise * order.standard_normal(thetas.shape)
        curvatures, unconverged = [], []
        for theta, image, label in zip(thetas, shown.images, shown.labels, strict=True):
            gradient = gradients.known(theta)
            images, labels = image[None].astype(np.float64), np.array([label])
            gradient = gradient + gradients.target(theta, images, labels)[0]
            values, vectors = np.linalg.eigh(gradients.hessian(theta))
            curvatures.append(values)
            unconverged.append(vectors.T @ gradient)
        return Spread.learned(np.stack(curvatures), np.stack(unconverged))

    def _attack(
        self,
        theta: np.ndarray,
        label: int | None,
        gradients: PenalisedGradients,
        prior: "Prior",
        spread: Spread,
    ) -> Reconstruction:
        """Reconstruct the target of one release."""
        # The closed form: minus the gradient of all other points is the target's.
        known = gradients.known(theta)
        x, scores = gradients.closed_form(-known)
        image = x.reshape(prior.around.image_shape)
        labels = np.argsort(-scores)[: self.config.labels_tried]
        labels = labels if label is None else np.array([label])
        # The most probable target, weighted in the eigenbasis of the Hessian.
        values, vectors = np.linalg.eigh(gradients.hessian(theta))
        rotation = vectors.T / np.sqrt(spread(values))[:, None]
        targets = [
            self._most_probable(
                theta, known, int(tried), gradients, prior, rotation, begin
            )
            for tried in labels
            for begin in (None, np.clip(image, 0, 1))
        ]
        best = min(targets, key=lambda target: target.cost)
        of_target = gradients.target(theta, best.image[None], np.array([best.label]))
        residual = known + of_target[0]
        return Reconstruction(
            images=best.image[None].astype(np.float32),
            labels=np.array([best.label]),
            residuals=np.array([residual @ residual]),
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
        """Find the most probable target for a label, from an image or the mean."""
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
        # A residual beyond what the spread explains counts as more noise.
        slopes.gram /= max(1.0, here.cost / len(here.residuals))
        variances = space.variances(slopes)
        return MostProbable(image, label, here.cost, float(variances.mean()))


@dataclasses.dataclass(frozen=True, eq=False)
class Prior:
    """A Gaussian of images around the mean of each label, all with one covariance."""

    # Principal components of the images minus the means of their labels.
    around: coordinates.Coordinates
    # Mean image of each label; that of all images for labels without one.
    means: Float[np.ndarray, "classes height width channels"]
    levels: int | None  # above 0, of all pixels; None: pixels aren't discrete

    @classmethod
    def of(cls, fixed: Examples, public: Examples | None) -> "Prior":
        """Fit the prior to all images that the adversary knows."""
        everything = fixed.joined(public)
        images, labels = everything.images, everything.labels
        means = everything.means(np.arange(fixed.num_classes), np.float64)
        return cls(
            coordinates.principal_components(images - means[labels]),
            means,
            pixel_levels.above_zero(images),
        )

    def space(self, label: int) -> Space:
        """Return coordinates of the images of a label, around their mean."""
        nothing = np.zeros(self.around.basis.shape[1], bool)
        return Space(self.around, np.array([label]), self.means[label][None], nothing)

    def on_levels(self, image: np.ndarray) -> np.ndarray:
        """Round the image to the pixel levels if it lies near them.

        By chance the root mean square distance is 0.29 of the spacing.
        """
        if self.levels is None:
            return image
        on_levels = pixel_levels.nearest(image, self.levels)
        apart = (image - on_levels) * self.levels
        near = np.sqrt(np.mean(apart**2)) <= _NEAR_LEVELS
        return on_levels if near else image
