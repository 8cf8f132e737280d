"""Measurements before a search: which labels are worth one, and how far A bends.

The latter decides whether derivatives or clouds of runs come first.
"""

import functools

import numpy as np

from informed.attacks.inversion import gauss_newton
from informed.attacks.inversion.config import InversionConfig
from informed.attacks.inversion.coordinates import Coordinates
from informed.attacks.inversion.retraining import Retraining
from informed.attacks.inversion.starts import Starts

# Damping of the linearised least squares that rank labels, relative to the residual.
_DAMPING = 1e-5
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


class LabelRanking:
    """Measurements that the releases of one call share.

    Attributes:
      at_means: label -> theta and its Jacobian in the first components, at the mean
        image of the label; holds the labels that have been asked for.
    """

    def __init__(
        self,
        config: InversionConfig,
        runs: Retraining,
        coordinates: Coordinates,
        starts: Starts,
    ) -> None:
        """Measure nothing yet."""
        self._config, self._runs = config, runs
        self._coordinates, self._starts = coordinates, starts
        self._dark = runs.never_lit()
        self.at_means: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def labels(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Labels worth trying, best first.

        They are ordered by the residual of the map linearised at the mean image of each
        class; where the map bends, by the nearest theta of a public image of the class.

        Returns: labels; residual of the second label over that of the first, >= 1.
        """
        costs = np.array(self._distances(theta) if self.bent else self._linear(theta))
        order = np.argsort(costs)
        least = costs[order[0]]
        # A copy of a class's only known record leaves nothing: that label alone.
        unlike = np.where(costs == 0, 1.0, np.inf)
        quotients = (costs / least if least > 0 else unlike)[order]
        margin = float(quotients[1]) if len(order) > 1 else np.inf
        # Clouds soon tell which labels lead nowhere, so they get all.
        if self.bent:
            return order, margin
        worth = quotients <= self._config.label_factor
        return order[worth][: self._config.labels_tried], margin

    def _distances(self, theta: np.ndarray) -> list[float]:
        """Squared distances from theta to the nearest shadow model of each class."""
        classes = range(self._runs.num_classes)
        return [self._starts.nearest(theta, label) for label in classes]

    def _linear(self, theta: np.ndarray) -> list[float]:
        """Residuals of the map linearised at the mean image of each class."""
        informative = ~self._runs.weights_of(self._dark)
        costs = []
        for label in range(self._runs.num_classes):
            value, jacobian = self._at_mean(label)
            residual = (value - theta)[informative]
            matrix = jacobian[informative].T
            # The cost that a damped Gauss-Newton step would leave.
            spectrum, rotation = np.linalg.eigh(matrix @ matrix.T)
            along = rotation.T @ (matrix @ residual)
            whole = residual @ residual
            if not whole:
                costs.append(0.0)
                continue
            damped = np.maximum(spectrum, 0) + _DAMPING * whole
            # Rounding may leave less than nothing; training that diverged stays NaN.
            costs.append(float(np.maximum(whole - np.sum(along**2 / damped), 0.0)))
        return costs

    def _at_mean(self, label: int) -> tuple[np.ndarray, np.ndarray]:
        """Theta and its Jacobian in the first components at a class's mean image."""
        if label not in self.at_means:
            image = self._starts.mean_image(label)[None]
            labels = np.array([label])
            value = self._runs.thetas(image[None], labels[None])[0]
            basis = self._coordinates.without(self._dark).basis
            basis = basis[: self._config.label_components]
            jacobian = gauss_newton.without_overflow(
                self._runs.slopes(image, labels, basis)
            )
            self.at_means[label] = value, jacobian
        return self.at_means[label]

    @property
    def bent(self) -> bool:
        """Whether clouds come first, since derivatives would lead nowhere."""
        if self._config.engine != "auto":
            return self._config.engine == "clouds"
        if self._runs.random:
            return False
        # Clouds as well where training diverged and both are NaN.
        most = _MISLED if self._runs.by_response else _BENT
        return not (self.bending < _BENT and self.misleading < most)

    @functools.cached_property
    def bending(self) -> float:
        """How far theta is from changing linearly with the target.

        Second differences of whole trainings over first ones, at mean images: a few per
        cent for smooth training, most of a whole for ReLU and for chaos.
        """
        quotients = [
            np.linalg.norm(second, axis=1) / np.linalg.norm(first, axis=1)
            for _, first, second in self._differences
        ]
        return float(np.median(quotients))

    @functools.cached_property
    def misleading(self) -> float:
        """How far first differences are from those that derivatives predict.

        Through many steps of Adam derivatives of kinked networks grow beyond all
        bounds, where theta itself still changes almost linearly.
        """
        quotients = []
        for label, (moves, first, _) in enumerate(self._differences):
            said = 2 * moves @ self._at_mean(label)[1].T
            apart = np.linalg.norm(said - first, axis=1)
            quotients.append(apart / np.linalg.norm(first, axis=1))
        return float(np.median(quotients))

    @functools.cached_property
    def _differences(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Moves from mean images, and first and second differences of theta."""
        rng = np.random.default_rng(0)
        basis = self._coordinates.without(self._dark).basis
        basis = basis[: self._config.label_components]
        moves = _RADIUS * rng.standard_normal((_MOVES, len(basis)))
        steps = np.concatenate([np.zeros_like(moves[:1]), moves, -moves])
        found = []
        for label in range(min(_LABELS, self._runs.num_classes)):
            mean = self._starts.mean_image(label)
            images = mean + (steps @ basis).reshape(-1, *mean.shape)
            labels = np.full((len(images), 1), label)
            thetas = self._runs.thetas(images[:, None], labels)
            up, down = np.split(thetas[1:], 2)
            found.append((moves, up - down, up + down - 2 * thetas[0]))
        return found
