"""Where the inversion of training begins, from public images and theta.

The mean image of a class first, which most targets are reached from; then what a small
shadow attack on public images reads out of theta. See `inversion`.
"""

import dataclasses
from collections.abc import Iterator

import jax
import numpy as np
from jaxtyping import Array

from informed.attacks.inversion.config import InversionConfig
from informed.attacks.inversion.coordinates import Coordinates
from informed.attacks.inversion.label_shadows import LabelShadows
from informed.attacks.inversion.retraining import Retraining
from shadow.models import ShadowModels


@dataclasses.dataclass(frozen=True)
class Start:
    """Where to begin: labels (unknown,), images (unknown, ...), and how patiently."""

    labels: np.ndarray
    images: np.ndarray
    patient: bool


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
        """With the public images (public, ...) and their labels (public,)."""
        self._config, self._runs, self._coordinates = config, runs, coordinates
        self._images, self._labels, self._key = images, labels, key
        self._dark = runs.never_lit()
        self._shadows_of: dict[int, LabelShadows] = {}

    def mean_image(self, label: int) -> np.ndarray:
        """Mean of the public images of a class, or of all where it has none.

        Black where all of D_- is.
        """
        images, labels = self._images, self._labels
        members = images[labels == label]
        mean = (members if len(members) else images).mean(axis=0)
        return np.where(self._dark.reshape(mean.shape), 0, mean)

    def deviations(self, labels: np.ndarray) -> np.ndarray:
        """Of every pixel over public images of each label; (labels, ...)."""
        found = []
        for label in labels:
            members = self._images[self._labels == label]
            members = members if len(members) else self._images
            found.append(members.std(axis=0, dtype=np.float64))
        return np.stack(found)

    def of(self, theta: np.ndarray, labels: np.ndarray) -> Iterator[Start]:
        """The mean image; then what is read out of theta by regression.

        Args:
          theta: the released weights.
          labels: (candidates, unknown).
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
        """What is read out of theta, label by label; no mean images.

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
        """A start; the first one is hurried."""
        stacked = np.stack(images)
        if len(labels) > 1:
            stacked = self._apart(stacked, number)
        return Start(labels, stacked, patient=number > 0)

    def _member(self, label: int, number: int) -> np.ndarray:
        """A public image of a class, or of any where it has none."""
        images, labels = self._images, self._labels
        members = np.flatnonzero(labels == label)
        members = members if len(members) else np.arange(len(images))
        return images[self._rng(number).choice(members)]

    def _regressed(
        self, theta: np.ndarray, labels: np.ndarray
    ) -> list[tuple[int, np.ndarray]]:
        """What theta suggests to a kernel regression for each label, best first.

        A small shadow attack: some public images of each label are trained on, once for
        all releases. Outliers, whom no mean image resembles, are found from here.
        """
        shadows = [self._shadows(int(label)) for label in labels]
        guesses = np.stack([shadow.guess(theta) for shadow in shadows])
        thetas = self._runs.thetas(guesses[:, None], labels[:, None])
        best = np.argsort(np.sum((thetas - theta[None]) ** 2, axis=1))
        found = [(int(labels[i]), guesses[i]) for i in best]
        found += self._public(theta, labels)  # where labels are few
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
        """Of public images of a label, or of any where it has none."""
        if label not in self._shadows_of:
            images, of = self._images, self._labels
            members = np.flatnonzero(of == label)
            members = members if len(members) else np.arange(len(of))
            shown = images[members[-self._config.neighbours :]]
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
        few += 0.1 * self._rng(number).standard_normal(few.shape)
        return self._coordinates.images(u)

    def _rng(self, number: int) -> np.random.Generator:
        key = jax.random.fold_in(self._key, number)
        return np.random.default_rng(np.asarray(jax.random.key_data(key)))
