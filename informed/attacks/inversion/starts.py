"""Where the inversion of training begins, from public images and theta.

The mean image of a class comes first, from which most targets are reached; then the
images that a small shadow attack on public images reads out of theta.
"""

import dataclasses
from collections.abc import Iterator

import jax
import numpy as np
from jaxtyping import Array

from informed.attacks.inversion.config import InversionConfig
from informed.attacks.inversion.coordinates import Coordinates
from informed.attacks.inversion.retraining import Retraining
from reconn import features
from reconn.ridge import Regression
from shadow.models import ShadowModels
from shadow.views import EVERYTHING

# Scale of distances in the kernel regression: smooth, for outliers.
_SCALE = 16.0
# Ridge of that regression: few models of a label are noisy.
_RIDGE = 1e-2
# Bound on standardised weights, in standard deviations.
_CLIP = 10.0
# Deviations by which several points of one label are moved apart at the start.
_APART = 0.1


@dataclasses.dataclass(frozen=True)
class Start:
    """Where to begin.

    Attributes:
      labels: (unknown,), labels of the unknown points.
      images: (unknown, height, width, channels), images to begin at.
      patient: whether small gains are worth their steps, because a new start promises
        less.
    """

    labels: np.ndarray
    images: np.ndarray
    patient: bool


class LabelShadows:
    """A few shadow models of one label, and the starts that they suggest."""

    def __init__(self, models: ShadowModels) -> None:
        """Fit a kernel regression from weights to images."""
        self._models = models
        if len(models) > 1:
            self._standardiser = features.fit(
                models, EVERYTHING, num_models=len(models), clip=_CLIP
            )
            self._fitted = Regression.fit(
                self._standardiser(models.weights),
                models.images.reshape(len(models), -1),
                scale=_SCALE,
                ridge=_RIDGE,
            )

    def guess(self, theta: np.ndarray) -> np.ndarray:
        """The image that a kernel regression reads out of theta."""
        if len(self._models) == 1:
            return self._models.images[0].astype(np.float64)
        seen = self._standardiser(theta[None].astype(np.float32))
        image = np.clip(self._fitted(seen), 0, 1)
        return image.reshape(self._models.image_shape)

    def nearest(self, theta: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances and images of the models whose theta is nearest."""
        apart = self._models.weights - theta.astype(np.float32)[None]
        distances = np.einsum("ij,ij->i", apart, apart)
        rows = np.argsort(distances)[:count]
        return distances[rows], self._models.images[rows].astype(np.float64)


class Starts:
    """Starts for every release of one call."""

    def __init__(
        self,
        config: InversionConfig,
        runs: Retraining,
        coordinates: Coordinates,
        images: np.ndarray,
        labels: np.ndarray,
        key: Array,
    ) -> None:
        """Train nothing yet.

        Args:
          config: how hard to try.
          runs: the adversary's copy of A.
          coordinates: principal components of the known images.
          images: (known, height, width, channels), D_- and public images.
          labels: (known,), their labels.
          key: draws the starts of several unknown points.
        """
        self._config, self._runs, self._coordinates = config, runs, coordinates
        self._images, self._labels, self._key = images, labels, key
        self._dark = runs.never_lit()
        self._shadows_of: dict[int, LabelShadows] = {}

    def mean_image(self, label: int) -> np.ndarray:
        """Mean of the known images of a class, or of all where it has none.

        Pixels that are black in all of D_- are black.
        """
        mean = self._images[self._members(label)].mean(axis=0)
        return np.where(self._dark.reshape(mean.shape), 0, mean)

    def deviations(self, labels: np.ndarray) -> np.ndarray:
        """Standard deviation of every pixel over known images of each label."""
        images = [self._images[self._members(int(label))] for label in labels]
        return np.stack([each.std(axis=0, dtype=np.float64) for each in images])

    def of(self, theta: np.ndarray, labels: np.ndarray) -> Iterator[Start]:
        """The mean image; then what is read out of theta by regression.

        Args:
          theta: the released weights.
          labels: (candidates, unknown), the labels worth trying.
        """
        means = [[self.mean_image(int(label)) for label in row] for row in labels]
        yield self._start(labels[0], means[0], 0)
        if labels.shape[1] == 1:
            for label, image in self._regressed(theta, labels[:, 0]):
                yield Start(np.array([label]), image[None], patient=True)
            return
        for number in range(1, 1 + self._config.starts):
            for row in labels:
                images = [self._member(int(label), number) for label in row]
                yield self._start(row, images, number)

    def near(self, theta: np.ndarray, labels: np.ndarray) -> Iterator[Start]:
        """Images that are read out of theta, label by label; no mean images.

        Args: as for `of`, the labels in the order of how likely they are.
        """
        if labels.shape[1] > 1:
            yield from self.of(theta, labels)
            return
        for row in labels:
            image = self._shadows(int(row[0])).guess(theta)
            yield Start(row, image[None], patient=True)
        few = max(self._config.starts - len(labels), 0)
        for label, image in self._public(theta, labels[:, 0])[:few]:
            yield Start(np.array([label]), image[None], patient=True)

    def nearest(self, theta: np.ndarray, label: int) -> float:
        """Squared distance from theta to the nearest shadow model of a class."""
        return float(self._shadows(label).nearest(theta, 1)[0][0])

    def _start(self, labels: np.ndarray, images: list, number: int) -> Start:
        """A start; patience is for those after the first."""
        stacked = np.stack(images)
        if len(labels) > 1:
            stacked = self._apart(stacked, number)
        return Start(labels, stacked, patient=number > 0)

    def _members(self, label: int) -> np.ndarray:
        """Rows of the known images of a class, or of all where it has none."""
        members = np.flatnonzero(self._labels == label)
        return members if len(members) else np.arange(len(self._labels))

    def _member(self, label: int, number: int) -> np.ndarray:
        """A random image of a class, or of any where it has none."""
        return self._images[self._rng(number).choice(self._members(label))]

    def _regressed(
        self, theta: np.ndarray, labels: np.ndarray
    ) -> list[tuple[int, np.ndarray]]:
        """The image that a regression reads out of theta for each label, best first.

        A small shadow attack: some public images of each label are trained on, once for
        all releases. Outliers, whom no mean image resembles, are found from here.
        """
        shadows = [self._shadows(int(label)) for label in labels]
        guesses = np.stack([shadow.guess(theta) for shadow in shadows])
        thetas = self._runs.thetas(guesses[:, None], labels[:, None])
        best = np.argsort(np.sum((thetas - theta[None]) ** 2, axis=1))
        found = [(int(labels[i]), guesses[i]) for i in best]
        # Where labels are few, public images fill up the starts.
        found += self._public(theta, labels)
        return found[: self._config.starts]

    def _public(
        self, theta: np.ndarray, labels: np.ndarray
    ) -> list[tuple[int, np.ndarray]]:
        """The public images that come nearest, and the labels they are tried with."""
        nearest = []
        for label in labels.tolist():
            near, images = self._shadows(label).nearest(theta, self._config.starts)
            nearest += [(d, label, z) for d, z in zip(near, images, strict=True)]
        nearest.sort(key=lambda each: each[0])
        return [(label, image) for _, label, image in nearest]

    def _shadows(self, label: int) -> LabelShadows:
        """Shadow models of images of a label, or of any where it has none."""
        if label not in self._shadows_of:
            shown = self._images[self._members(label)[-self._config.neighbours :]]
            labels = np.full(len(shown), label, np.int32)
            thetas = self._runs.thetas(shown[:, None], labels[:, None])
            self._shadows_of[label] = LabelShadows(
                ShadowModels(
                    weights=thetas.astype(np.float32), images=shown, labels=labels
                )
            )
        return self._shadows_of[label]

    def _apart(self, images: np.ndarray, number: int) -> np.ndarray:
        """Move points of one label apart, or they would stay together."""
        u = self._coordinates.of(images)
        few = u[:, : min(self._config.stages, default=u.shape[1])]
        few += _APART * self._rng(number).standard_normal(few.shape)
        return self._coordinates.images(u)

    def _rng(self, number: int) -> np.random.Generator:
        key = jax.random.fold_in(self._key, number)
        return np.random.default_rng(np.asarray(jax.random.key_data(key)))
