"""The kernel reconstructor: ridge regression on functions of theta, a label at a time.

Where shadow models are few a network learns them by heart. For one label, the target is
a smooth function of theta, and kernel ridge regression fits it in closed form:

    z = mean + sum_i w_i k(theta, theta_i),    k = (1 + d / (scale * median d)) ^ -1/2

with d the squared distance of standardised features and i the shadow models of that
label. The same regression on all labels at once, with labels in place of images, tells
which label a release has.

Under noise theta tells little, and a regression that follows it ends farther from the
target than the mean image. How much to believe it, the ridge, is therefore chosen on
validation models, on a part of the others; and where labels can't be told, whether to
average over them instead of believing the likeliest.

On MNIST (fixed set of 1,000) it needs a fifth of the network's shadow models for the
same error, and no optimiser. Other labels' models were of no use to it, nor was a
whitened distance.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float, Float32, Int
from tqdm import tqdm

from shadow import checks, files
from shadow.records import NotMadeError

REVISION = 3  # see `shadow.records`
RIDGES = (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0)
_QUERIES_AT_ONCE = 2048
_TRIED = 1000  # models of a label on which ridges are tried, at most
_JUDGED = 1000  # validation models that judge, at most

Features = Float32[np.ndarray, "models features"]
TargetImages = Float32[np.ndarray, "models height width channels"]
Labels = Int[np.ndarray, " models"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelConfig:
    """The regression. The defaults were chosen on shadow models of MNIST.

    Attributes:
      scale: of distances, in their median.
      ridge: added to the kernel's diagonal, which is 1. None: chosen among `RIDGES` on
        validation models.
      voters: shadow models that tell the label, at most; takes 8 bytes x voters^2.
    """

    scale: float = 4.0
    ridge: float | None = None
    voters: int = 10_000

    def __post_init__(self) -> None:
        checks.positive("scale", self.scale)
        if self.ridge is not None:
            checks.positive("ridge", self.ridge)
        checks.at_least("voters", self.voters, 1)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Regression:
    """One kernel ridge regression, of outputs on features.

    Attributes:
      points: (models, features), minus `centre`.
      centre: (features,).
      median: of squared distances between points.
      outputs: (models, outputs), the dual weights.
      offset: (outputs,), the mean of what is regressed on.
    """

    points: np.ndarray
    centre: np.ndarray
    median: float
    outputs: np.ndarray
    offset: np.ndarray

    @classmethod
    def fit(
        cls,
        features: np.ndarray,
        values: np.ndarray,
        config: KernelConfig,
        ridge: float,
    ) -> "Regression":
        """In float64, but for the products of features."""
        centre, points, distances, median = _centred(features)
        kernel = _kernel(distances, config.scale * median)
        kernel[np.diag_indices(len(kernel))] += ridge
        offset = values.mean(axis=0, dtype=np.float64)
        factor = scipy.linalg.cho_factor(kernel, lower=True, overwrite_a=True)
        weights = scipy.linalg.cho_solve(factor, values - offset)
        return cls(
            points=points,
            centre=centre,
            median=median,
            outputs=weights.astype(np.float32),
            offset=offset.astype(np.float32),
        )

    def __call__(self, features: np.ndarray, config: KernelConfig) -> np.ndarray:
        """(models, outputs)."""
        distances = _squared_distances(features - self.centre, self.points)
        kernel = _kernel(distances, config.scale * self.median)
        return self.offset + kernel @ self.outputs.astype(np.float64)


@dataclasses.dataclass(frozen=True, eq=False)
class KernelRegression:
    """Features in, images out; what a network is to the trainer.

    Attributes:
      config: the kernel.
      image_shape: (height, width, channels).
      of_label: label -> the regression of its images.
      label: the regression of the labels.
      mixed: whether images are averaged over labels, by their probabilities.
    """

    config: KernelConfig
    image_shape: tuple[int, ...]
    of_label: dict[int, Regression]
    label: Regression
    mixed: bool = False

    def labels(self, features: Features) -> Labels:
        """The label of each release's target, as far as theta tells."""
        return self._known[self._votes(features).argmax(axis=1)]

    @property
    def _known(self) -> np.ndarray:
        return np.array(sorted(self.of_label))

    def _votes(self, features: Features) -> np.ndarray:
        parts = [self.label(part, self.config) for part in _parts(features)]
        return np.concatenate(parts)

    def __call__(self, features: Features) -> TargetImages:
        """One image per model, pixels in [0, 1]."""
        return self.labelled(features)[0]

    def labelled(self, features: Features) -> tuple[TargetImages, Labels]:
        """Images, and the labels that theta tells."""
        votes = self._votes(features)
        labels = self._known[votes.argmax(axis=1)]
        images = (
            self._mixture(features, votes)
            if self.mixed
            else self._chosen(features, labels)
        )
        return images.reshape(-1, *self.image_shape), labels

    def _chosen(self, features: Features, labels: Labels) -> np.ndarray:
        """Images of these labels, (models, pixels)."""
        found = np.empty((len(features), int(np.prod(self.image_shape))), np.float32)
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            part = self.of_label[int(label)](features[rows], self.config)
            found[rows] = np.clip(part, 0, 1)
        return found

    def _mixture(self, features: Features, votes: np.ndarray) -> np.ndarray:
        """Images averaged over labels, by their positive votes; (models, pixels)."""
        shares = np.maximum(votes, 1e-9)
        shares /= shares.sum(axis=1, keepdims=True)
        found = np.zeros((len(features), int(np.prod(self.image_shape))), np.float32)
        for share, label in zip(shares.T, self._known, strict=True):
            of_this = np.full(len(features), label)
            found += share[:, None].astype(np.float32) * self._chosen(features, of_this)
        return found


def fit(
    features: Features,
    images: TargetImages,
    labels: Labels,
    config: KernelConfig,
    *,
    validation: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    progress: bool = True,
) -> KernelRegression:
    """Fit the regression of each label, and that of the labels.

    Args:
      features: standardised, of shadow models in random order.
      images, labels: their targets.
      config: the kernel.
      validation: the same of other shadow models, which choose the ridge, where it is
        left open, and whether to average over labels. None: the least ridge, no.
      progress: show a bar.
    """
    flat = images.reshape(len(images), -1)
    known = np.unique(labels)
    votes = (labels[:, None] == known[None]).astype(np.float32)
    voters = slice(0, config.voters)
    of_images = of_votes = RIDGES[0] if config.ridge is None else config.ridge
    if validation is not None:
        unseen = tuple(each[:_JUDGED] for each in validation)
        if config.ridge is None:
            of_images = _ridge_of_images(features, flat, labels, unseen, config)
            theirs = (unseen[2][:, None] == known[None]).astype(np.float32)
            some = slice(0, min(2 * _TRIED, config.voters))
            errors = _errors(features[some], votes[some], unseen[0], theirs, config)
            of_votes = RIDGES[int(np.argmin(errors))]
    of_label = {}
    for label in tqdm(
        known,
        desc="kernel regression",
        unit=" labels",
        disable=None if progress else True,
    ):
        rows = np.flatnonzero(labels == label)
        of_label[int(label)] = Regression.fit(
            features[rows], flat[rows], config, of_images
        )
    fitted = KernelRegression(
        config=config,
        image_shape=tuple(images.shape[1:]),
        of_label=of_label,
        label=Regression.fit(features[voters], votes[voters], config, of_votes),
    )
    if validation is None:
        return fitted
    mixed = dataclasses.replace(fitted, mixed=True)
    chosen, averaged = (
        float(np.sum(np.square(each(unseen[0]) - unseen[1])))
        for each in (fitted, mixed)
    )
    return mixed if averaged < chosen else fitted


def _ridge_of_images(
    features: Features,
    flat: np.ndarray,
    labels: Labels,
    unseen: tuple[np.ndarray, ...],
    config: KernelConfig,
) -> float:
    """The ridge of least error, over all labels, when these are told."""
    errors = np.zeros(len(RIDGES))
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)[:_TRIED]
        own = np.flatnonzero(unseen[2] == label)
        if len(own):
            truth = unseen[1][own].reshape(len(own), -1)
            errors += _errors(
                features[rows], flat[rows], unseen[0][own], truth, config, pixels=True
            )
    return RIDGES[int(np.argmin(errors))]


def _errors(
    features: np.ndarray,
    values: np.ndarray,
    unseen: np.ndarray,
    truth: np.ndarray,
    config: KernelConfig,
    *,
    pixels: bool = False,
) -> Float[np.ndarray, " ridges"]:
    """Squared errors on unseen models with every ridge, from one eigendecomposition.

    Pixels are cut to [0, 1] before they are judged, as they are when they are used: it
    takes off much of what a small ridge lets through.
    """
    centre, points, distances, median = _centred(features)
    scale = config.scale * median
    offset = values.mean(axis=0, dtype=np.float64)
    spectrum, basis = np.linalg.eigh(_kernel(distances, scale))
    across = _kernel(_squared_distances(unseen - centre, points), scale) @ basis
    along = basis.T @ (values - offset)
    errors = []
    for ridge in RIDGES:
        found = offset + (across / (spectrum + ridge)) @ along
        found = np.clip(found, 0, 1) if pixels else found
        errors.append(np.sum(np.square(found - truth)))
    return np.array(errors)


def save(regression: KernelRegression, folder: Path) -> None:
    """Write one .npy file an array; the names of what is whole come last."""
    parts = {str(label): part for label, part in regression.of_label.items()}
    for name, part in (parts | {"label": regression.label}).items():
        for field in dataclasses.fields(part):
            values = np.asarray(getattr(part, field.name))
            files.write_array(folder / f"{name}.{field.name}.npy", values)
    files.write_array(folder / "mixed.npy", np.array(regression.mixed))
    files.write_array(folder / "labels.npy", np.array(sorted(regression.of_label)))


def load(
    folder: Path, config: KernelConfig, image_shape: tuple[int, ...]
) -> KernelRegression:
    """Read what `save` wrote; points are mapped, not read.

    Raises: NotMadeError: nothing whole is there.
    """
    if not (folder / "labels.npy").exists():
        raise NotMadeError(f"There is no kernel regression in {folder}.", by="train")

    def part(name: str) -> Regression:
        return Regression(
            **{
                field.name: _read(folder / f"{name}.{field.name}.npy")
                for field in dataclasses.fields(Regression)
            }
        )

    labels = np.load(folder / "labels.npy", allow_pickle=False)
    return KernelRegression(
        config=config,
        image_shape=tuple(image_shape),
        of_label={int(label): part(str(label)) for label in labels},
        label=part("label"),
        mixed=bool(np.load(folder / "mixed.npy", allow_pickle=False)),
    )


def _centred(
    features: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Centre, points minus it, their squared distances, and the median of these."""
    centre = features.mean(axis=0, dtype=np.float64).astype(np.float32)
    points = features - centre
    distances = _squared_distances(points, points)
    upper = distances[np.triu_indices(len(points), 1)]
    median = float(np.median(upper)) if len(upper) else 0.0
    return centre, points, distances, median or 1.0


def _squared_distances(
    left: Float32[np.ndarray, "queries features"],
    right: Float32[np.ndarray, "points features"],
) -> Float[np.ndarray, "queries points"]:
    """Squared distances; products in float32, sums in float64."""
    distances = (left @ right.T).astype(np.float64)
    distances *= -2
    distances += np.einsum("ij,ij->i", left, left, dtype=np.float64)[:, None]
    distances += np.einsum("ij,ij->i", right, right, dtype=np.float64)[None]
    return np.maximum(distances, 0, out=distances)


def _kernel(distances: np.ndarray, scale: float) -> np.ndarray:
    """Inverse multiquadric, in place."""
    distances /= scale
    distances += 1
    np.sqrt(distances, out=distances)
    return np.reciprocal(distances, out=distances)


def _parts(features: np.ndarray) -> Iterator[np.ndarray]:
    """A few thousand queries at a time."""
    for start in range(0, len(features), _QUERIES_AT_ONCE):
        yield features[start : start + _QUERIES_AT_ONCE]


def _read(file: Path) -> Any:
    """Map an array; a single number is read."""
    values = np.load(file, mmap_mode="r", allow_pickle=False)
    return values if values.ndim else float(values)
