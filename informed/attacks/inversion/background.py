"""What the releases of one theta_0 share: known images, and trainings on some of them.

Everything here is measured when it is first asked for, and kept: theta and Jacobians at
mean images, theta of public images, how far training bends.
"""

import functools

import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from informed.attacks.inversion import gauss_newton
from informed.attacks.inversion.coordinates import Space
from informed.attacks.inversion.derivatives import retraining_of
from informed.attacks.inversion.inversion_config import InversionConfig
from informed.attacks.inversion.known_images import KnownImages
from informed.attacks.inversion.label_shadows import LabelShadows
from informed.attacks.inversion.problem import Problem, Published, Start
from informed.attacks.inversion.retraining import Retraining
from shadow.models import ShadowModels
from shadow.threat import Knowledge
from shadow.training import GradientDescent

# Components of the linearised map by which labels are ranked and bending is measured.
_COMPONENTS = 60
# Share of second differences in first ones, or of the error of derivatives, from which
# clouds come first: smooth training has a few per cent, ReLU and chaos most of a whole.
_BENT = 0.3
# The same of the error of derivatives by `response`: MNIST at a fixed set of 1,000 has
# 0.28 to 0.33, and they lead to the target all the same; ReLU with Adam has 1.
_MISLED = 0.5
# Length of the moves of these differences, in standard deviations of a component.
_RADIUS = 0.1
# Moves per label, and labels, whose differences are measured: 27 trainings.
_MOVES, _LABELS = 4, 3
# Change of a weight, against training on a black target, that shows that the target
# lights its pixel, in spacings of float32 numbers there. With small learning rates all
# changes are small. A pixel that is taken for lit and isn't costs time; one that is
# taken for black and isn't can't be reached.
_TOUCHED = 4.0
# Bound on |u|, in standard deviations per component, and the same where columns that
# never vary may move: what nobody else has lies far from the mean.
_REACH, _FAR = 2.5, 100.0


class Background:
    """Known images, A, and what was measured of it so far.

    Attributes:
      config: how hard to try.
      knowledge: what the adversary is told.
      runs: A as the adversary runs it.
      known: D_- and public images.
      num_classes: number of labels to choose from.
      start_key: draws further starts.
      at_means: theta and its Jacobian at the mean images of those labels that were
        asked for.
    """

    def __init__(
        self,
        config: InversionConfig,
        knowledge: Knowledge,
        key: Array,
        runs: Retraining | None = None,
    ) -> None:
        """Prepare what releases share; nothing is trained yet.

        Args:
          config: how hard to try.
          knowledge: needs fixed and algorithm.
          key: draws the randomness of A that isn't told, and further starts.
          runs: A as it runs on one release; None: it is compiled anew.
        """
        self.config, self.knowledge, self._key = config, knowledge, key
        draw_key, self.start_key = jax.random.split(key)
        draws = {"draws": config.draws, "noise_draws": config.noise_draws}
        self.runs = runs or retraining_of(
            knowledge, width=gauss_newton.AT_ONCE, key=draw_key, **draws
        )
        fixed, algorithm = knowledge.fixed, knowledge.algorithm
        assert fixed is not None
        self.num_classes = fixed.num_classes
        self._first_weights = None
        if isinstance(algorithm, GradientDescent) and not self.runs.random:
            self._first_weights = algorithm.victim.first_weights
        dark = ~fixed.images.reshape(len(fixed), -1).any(axis=0)
        shown = fixed.joined(knowledge.public)
        self.known = KnownImages(
            images=shown.images,
            labels=shown.labels,
            never_lit=np.asarray(dark & (self._first_weights is not None)),
            use_levels=config.levels,
        )
        self.at_means: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._shadows: dict[int, LabelShadows] = {}

    def at(self, release: int) -> "Background":
        """Begin at theta_0 of another release, with the same programs."""
        runs = self.runs.at(release)
        if runs.release == self.runs.release:
            return self
        return Background(self.config, self.knowledge, self._key, runs)

    def shadows(self, label: int) -> LabelShadows:
        """Train on images of a label, or of any where it has none."""
        if label not in self._shadows:
            shown = self.known.of_class(label)[-self.config.neighbours :]
            labels = np.full(len(shown), label, np.int32)
            thetas = self.runs.thetas(shown[:, None], labels[:, None])
            weights = thetas.astype(np.float32)
            models = ShadowModels(weights=weights, images=shown, labels=labels)
            self._shadows[label] = LabelShadows(models)
        return self._shadows[label]

    def at_mean(self, label: int) -> tuple[np.ndarray, np.ndarray]:
        """Return theta, and its Jacobian in a few components, at a class's mean."""
        if label not in self.at_means:
            image, labels = self.known.mean(label)[None], np.array([label])
            value = self.runs.thetas(image[None], labels[None])[0]
            slopes = self.runs.slopes(image, labels, self._leading)
            self.at_means[label] = value, gauss_newton.without_overflow(slopes)
        return self.at_means[label]

    @property
    def _leading(self) -> Float[np.ndarray, "components pixels"]:
        return self.known.coordinates.without(self.known.never_lit).basis[:_COMPONENTS]

    @property
    def bent(self) -> bool:
        """Whether clouds come first, since derivatives would lead nowhere."""
        if self.config.engine != "auto":
            return self.config.engine == "clouds"
        if self.runs.random:
            return False
        # Clouds as well where training diverged and both are NaN.
        most = _MISLED if self.runs.by_response else _BENT
        return not (self.curvature < _BENT and self.misleading < most)

    @functools.cached_property
    def curvature(self) -> float:
        """Second differences of whole trainings over first ones, at mean images.

        A few per cent for smooth training, most of a whole for ReLU and for chaos.
        """
        quotients = [
            np.linalg.norm(second, axis=1) / np.linalg.norm(first, axis=1)
            for _, first, second in self._differences
        ]
        return float(np.median(quotients))

    @functools.cached_property
    def misleading(self) -> float:
        """Error of derivatives over first differences, at mean images.

        Through many steps of Adam derivatives of kinked networks grow beyond all
        bounds, where theta itself still changes almost linearly.
        """
        quotients = []
        for label, (moves, first, _) in enumerate(self._differences):
            apart = 2 * moves @ self.at_mean(label)[1].T - first
            lengths = np.linalg.norm(first, axis=1)
            quotients.append(np.linalg.norm(apart, axis=1) / lengths)
        return float(np.median(quotients))

    @functools.cached_property
    def _differences(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Moves from mean images, with first and second differences of theta."""
        rng = np.random.default_rng(0)
        basis = self._leading
        moves = _RADIUS * rng.standard_normal((_MOVES, len(basis)))
        steps = np.concatenate([np.zeros_like(moves[:1]), moves, -moves])
        differences = []
        for label in range(min(_LABELS, self.num_classes)):
            mean = self.known.mean(label)
            images = mean + (steps @ basis).reshape(-1, *mean.shape)
            labels = np.full((len(images), 1), label)
            thetas = self.runs.thetas(images[:, None], labels)
            up, down = np.split(thetas[1:], 2)
            differences.append((moves, up - down, up + down - 2 * thetas[0]))
        return differences

    @functools.cached_property
    def informative(self) -> Bool[np.ndarray, " params"]:
        """Weights but those that never lit pixels have for themselves."""
        informative = np.ones(self.runs.num_params, bool)
        if self._first_weights is not None:
            columns, shape = self._first_weights
            lit = np.broadcast_to(~self.known.never_lit[:, None], shape)
            informative[columns] = lit.ravel()
        return informative

    @functools.cached_property
    def _untouched(self) -> np.ndarray:
        """Theta after a black target: where the weights of unlit pixels end."""
        blank = np.zeros((1, 1, *self.known.coordinates.image_shape))
        return self.runs.thetas(blank, np.zeros((1, 1), np.int64))[0]

    def black_and_lit(
        self, published: Published
    ) -> tuple[Bool[np.ndarray, " pixels"], Bool[np.ndarray, " pixels"]]:
        """Return pixels certainly black in all unknown points, and certainly lit.

        A weight that ends elsewhere than after training on a black target has a pixel
        that the target lights.
        """
        dark = self.known.never_lit
        if published.deviations is not None or not dark.any():
            return np.zeros_like(dark), np.zeros_like(dark)
        assert self._first_weights is not None
        columns, shape = self._first_weights
        moved = np.abs(self._untouched - published.theta)
        digits = np.spacing(np.abs(self._untouched).astype(np.float32))
        touched = (moved > _TOUCHED * digits)[columns].reshape(shape)
        lit = dark & touched.any(axis=1)
        return dark & ~lit, lit

    def pose(self, published: Published, start: Start) -> Problem:
        """State the problem of a release, for the labels of a start."""
        known = self.known
        of_one = known.free_coordinates if start.free else known.coordinates
        black, _ = self.black_and_lit(published)
        means = np.stack([known.mean(int(label)) for label in start.labels])
        return Problem(
            published=published,
            runs=self.runs,
            space=Space(of_one, start.labels, means, black),
            reach=_FAR if start.free else _REACH,
            known=known,
            config=self.config,
        )
