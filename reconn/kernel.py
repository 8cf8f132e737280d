"""The kernel reconstructor: ridge regression on functions of theta, a label at a time.

Where shadow models are few a network learns them by heart. For one label, the target is
a smooth function of theta, and kernel ridge regression fits it in closed form:

    z = mean + sum_i w_i k(theta, theta_i),    k = (1 + d / (scale * median d)) ^ -1/2

with d the squared distance of standardised features and i the shadow models of that
label. The same regression on all labels at once, with labels in place of images, tells
which label a release has.

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

_QUERIES_AT_ONCE = 2048

Features = Float32[np.ndarray, "models features"]
Images = Float32[np.ndarray, "models height width channels"]
Labels = Int[np.ndarray, " models"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelConfig:
    """The regression. The defaults were chosen on shadow models of MNIST.

    Attributes:
      scale: of distances, in their median.
      ridge: added to the kernel's diagonal, which is 1.
      voters: shadow models that tell the label, at most; takes 8 bytes x voters^2.
    """

    scale: float = 4.0
    ridge: float = 1e-3
    voters: int = 10_000

    def __post_init__(self) -> None:
        for field in ("scale", "ridge"):
            if not getattr(self, field) > 0:
                raise ValueError(
                    f"Expected reconn.kernel.{field} > 0, got {getattr(self, field)!r}."
                )
        checks.at_least("reconn.kernel.voters", self.voters, 1)


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
        cls, features: np.ndarray, values: np.ndarray, config: KernelConfig
    ) -> "Regression":
        """In float64, but for the products of features."""
        centre = features.mean(axis=0, dtype=np.float64).astype(np.float32)
        points = features - centre
        distances = _squared_distances(points, points)
        upper = distances[np.triu_indices(len(points), 1)]
        median = float(np.median(upper)) if len(upper) else 1.0
        kernel = _kernel(distances, config.scale * (median or 1.0))
        kernel[np.diag_indices(len(kernel))] += config.ridge
        offset = values.mean(axis=0, dtype=np.float64)
        factor = scipy.linalg.cho_factor(kernel, lower=True, overwrite_a=True)
        weights = scipy.linalg.cho_solve(factor, values - offset)
        return cls(
            points=points,
            centre=centre,
            median=median or 1.0,
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
    """

    config: KernelConfig
    image_shape: tuple[int, ...]
    of_label: dict[int, Regression]
    label: Regression

    def labels(self, features: Features) -> Labels:
        """The label of each release's target, as far as theta tells."""
        known = np.array(sorted(self.of_label))
        parts = [self.label(part, self.config) for part in _parts(features)]
        return known[np.concatenate(parts).argmax(axis=1)]

    def __call__(self, features: Features) -> Images:
        """One image a model, pixels in [0, 1]."""
        return self.labelled(features)[0]

    def labelled(self, features: Features) -> tuple[Images, Labels]:
        """Images, and the labels that theta tells."""
        labels = self.labels(features)
        found = np.empty((len(features), int(np.prod(self.image_shape))), np.float32)
        for label in np.unique(labels):
            rows = np.flatnonzero(labels == label)
            part = self.of_label[int(label)](features[rows], self.config)
            found[rows] = np.clip(part, 0, 1)
        return found.reshape(-1, *self.image_shape), labels


def fit(
    features: Features,
    images: Images,
    labels: Labels,
    config: KernelConfig,
    *,
    progress: bool = True,
) -> KernelRegression:
    """Fit the regression of each label, and that of the labels.

    Args:
      features: standardised, of shadow models in random order.
      images, labels: their targets.
      config: the kernel.
      progress: show a bar.
    """
    flat = images.reshape(len(images), -1)
    known = np.unique(labels)
    of_label = {}
    for label in tqdm(
        known,
        desc="kernel regression",
        unit=" labels",
        disable=None if progress else True,
    ):
        rows = np.flatnonzero(labels == label)
        of_label[int(label)] = Regression.fit(features[rows], flat[rows], config)
    voters = slice(0, config.voters)
    votes = (labels[voters, None] == known[None]).astype(np.float32)
    return KernelRegression(
        config=config,
        image_shape=tuple(images.shape[1:]),
        of_label=of_label,
        label=Regression.fit(features[voters], votes, config),
    )


def save(regression: KernelRegression, folder: Path) -> None:
    """Write one .npy file an array; the names of what is whole come last."""
    parts = {str(label): part for label, part in regression.of_label.items()}
    for name, part in (parts | {"label": regression.label}).items():
        for field in dataclasses.fields(part):
            values = np.asarray(getattr(part, field.name))
            files.write_array(folder / f"{name}.{field.name}.npy", values)
    files.write_array(folder / "labels.npy", np.array(sorted(regression.of_label)))


def load(
    folder: Path, config: KernelConfig, image_shape: tuple[int, ...]
) -> KernelRegression:
    """Read what `save` wrote; points are mapped, not read.

    Raises: FileNotFoundError: nothing whole is there.
    """
    if not (folder / "labels.npy").exists():
        raise FileNotFoundError(
            f"No kernel regression in {folder}. Train one with `informed train`."
        )

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
    )


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
