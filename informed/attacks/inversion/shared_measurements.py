"""Measure training once for all releases that start from the same initial weights.

By these measurements the inversion chooses between its two engines, derivatives and
clouds. Measured on first use: the released weights theta and their Jacobian at each
class's mean image, theta of known images and of a black one, and how nonlinear training
(A) is. A runs on images that the adversary has or constructs; only theta of a release
is used. `training_inversion` makes one object per theta_0.
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
from informed.attacks.inversion.problem import Problem, Published, Start
from informed.attacks.inversion.retraining import Retraining
from shadow.models import ShadowModels
from shadow.threat import Knowledge
from shadow.training import GradientDescent

# Principal components along which labels are ranked and nonlinearity is measured.
_COMPONENTS = 60
# Ratio of second differences to first ones, or relative error of the derivatives, above
# which we try the search by clouds first. It is a few per cent for smooth
# training, 50-100 % for ReLU or chaotic training.
_NONLINEAR = 0.3
# The same limit for the error of derivatives by `response`. MNIST at a fixed set of
# 1,000 has 0.28 to 0.33, and derivatives still succeed; ReLU with Adam has 1.
_MISLEADING = 0.5
# Length of the steps of these differences, in standard deviations of a component.
_RADIUS = 0.1
# Steps per label, and labels, whose differences are measured: 27 training runs.
_MOVES, _LABELS = 4, 3
# If a weight differs from training on a black target by more than this, in spacings of
# float32 numbers, the target's pixel there is lit (nonzero). A black pixel taken for
# lit costs time; a lit pixel taken for black makes the target unreachable.
_TOUCHED = 4.0
# Known images of a label to train on first; more are for targets that need them.
_FEW = 40
# Bound on the coordinates |u|, in standard deviations per component. The second is for
# starts with free columns, because their targets lie far from the mean.
_REACH, _FAR = 2.5, 100.0


class SharedMeasurements:
    """Known images, A, and the measurements cached so far."""

    def __init__(
        self,
        config: InversionConfig,
        knowledge: Knowledge,
        key: Array,
        runs: Retraining | None = None,
    ) -> None:
        """Prepare the cache; nothing is trained yet.

        `key` draws the unknown randomness of A, and further starts; `runs` is A if it
        is compiled already.
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
        self._black = np.zeros((1, 1, *fixed.image_shape))
        self._first_weights = None
        if isinstance(algorithm, GradientDescent) and not self.runs.random:
            self._first_weights = algorithm.victim.first_weights
        dark = ~fixed.images.reshape(len(fixed), -1).any(axis=0)
        if self._first_weights is not None and dark.any():  # the layer may be frozen
            columns, shape = self._first_weights
            lit = self.runs.thetas(1 + self._black, np.zeros((1, 1), np.int64))[0]
            moved = (lit != self._untouched)[columns].reshape(shape)
            dark &= moved.any(axis=1)
        shown = fixed.joined(knowledge.public)
        self.known = KnownImages(
            images=shown.images,
            labels=shown.labels,
            never_lit=np.asarray(dark & (self._first_weights is not None)),
            use_levels=config.levels,
        )
        # Label -> theta and its Jacobian at the class's mean image, if measured.
        self.at_means: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        # Label, and whether models are few -> the models.
        self._shadows: dict[tuple[int, bool], ShadowModels] = {}

    def at(self, release: int) -> "SharedMeasurements":
        """Return the measurements for a release; new ones if its theta_0 differs."""
        runs = self.runs.at(release)
        if runs.release == self.runs.release:
            return self
        return SharedMeasurements(self.config, self.knowledge, self._key, runs)

    def shadows(self, label: int, *, few: bool = False) -> ShadowModels:
        """Return models of known images of a label, or of any label if it has none.

        With `few`, models of `_FEW` of these images, if there are twice as many.
        """
        shown = self.known.of_class(label)[-self.config.neighbours :]
        few &= len(shown) >= 2 * _FEW
        if (label, few) not in self._shadows:
            shown = shown[-_FEW:] if few else shown
            labels = np.full(len(shown), label, np.int32)
            thetas = self.runs.thetas(shown[:, None], labels[:, None])
            weights = thetas.astype(np.float32)
            models = ShadowModels(weights=weights, images=shown, labels=labels)
            self._shadows[label, few] = models
        return self._shadows[label, few]

    def at_mean(self, label: int) -> tuple[np.ndarray, np.ndarray]:
        """Return theta and its Jacobian along leading components, at a class's mean."""
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
    def prefer_clouds(self) -> bool:
        """Whether to try the search by clouds first."""
        if self.config.engine != "auto":
            return self.config.engine == "clouds"
        if self.runs.random:
            return False
        # This prefers clouds also if training diverged and both measures are NaN.
        limit = _MISLEADING if self.runs.by_response else _NONLINEAR
        return not (self.curvature < _NONLINEAR and self.misleading < limit)

    @functools.cached_property
    def curvature(self) -> float:
        """Second differences of theta over first ones, at mean images."""
        quotients = [
            np.linalg.norm(second, axis=1) / np.linalg.norm(first, axis=1)
            for _, first, second in self._differences
        ]
        return float(np.median(quotients))

    @functools.cached_property
    def misleading(self) -> float:
        """Relative error of the derivatives against first differences, at mean images.

        Through many steps of Adam the derivatives of ReLU networks explode, although
        theta itself still changes almost linearly.
        """
        quotients = []
        for label, (moves, first, _) in enumerate(self._differences):
            error = 2 * moves @ self.at_mean(label)[1].T - first
            lengths = np.linalg.norm(first, axis=1)
            quotients.append(np.linalg.norm(error, axis=1) / lengths)
        return float(np.median(quotients))

    @functools.cached_property
    def _differences(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Steps from mean images, with first and second differences of theta."""
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
        """Mask excluding first-layer weights of never-lit pixels."""
        informative = np.ones(self.runs.num_params, bool)
        if self._first_weights is not None:
            columns, shape = self._first_weights
            lit = np.broadcast_to(~self.known.never_lit[:, None], shape)
            informative[columns] = lit.ravel()
        return informative

    @functools.cached_property
    def _untouched(self) -> np.ndarray:
        """Theta trained with a black target; black pixels' weights take its values."""
        return self.runs.thetas(self._black, np.zeros((1, 1), np.int64))[0]

    def black_and_lit(
        self, published: Published
    ) -> tuple[Bool[np.ndarray, " pixels"], Bool[np.ndarray, " pixels"]]:
        """Return pixels certainly black in all unknown points, and those certainly lit.

        A pixel is lit if its released weights differ from those of a black target.
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
        """Return the inversion problem of a release, for the labels of a start."""
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
