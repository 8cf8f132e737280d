"""Standardised features of released weights, the input of every learned reconstructor.

`fit` measures mean and variance on shadow models, `read` standardises these models, and
a `Reconstructor` standardises releases by the same statistics. Features that don't vary
beyond float32 rounding (weights of always-black pixels: 14 % on MNIST) carry nothing
about the target and are dropped. `trainer` and
`informed.attacks.inversion.starting_images` call `fit`, `trainer` calls `read`, and
`refined` calls `room`.
"""

import dataclasses
import math
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int32

from shadow import checks, devices
from shadow.models import ShadowModels
from shadow.store import Store
from shadow.views import View

Features = Float32[np.ndarray, "models features"]
_DIVERGED = 1e3  # median lengths of theta; trainings that converged stay below


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Standardiser:
    """Per-coordinate affine map of features, fitted on shadow models.

    Attributes:
      mean, scale: (raw,) float32; scale is the standard deviation, 0 where dropped.
      clip: features are cut to [-clip, clip]; a pixel that hardly any shadow target
        lights has a tiny standard deviation, and would dominate a release uncut.
    """

    mean: np.ndarray
    scale: np.ndarray
    clip: float

    @property
    def num_features(self) -> int:
        """The number of features that are kept."""
        return int(np.count_nonzero(self.scale))

    def seeing(self, other: "Standardiser") -> "Standardiser":
        """Return these statistics for the features that another standardiser keeps.

        For a network that was trained on those; another fixed set leaves other pixels
        black. A feature that doesn't vary here is divided by its deviation there.

        Raises: FieldError: the other one has another number of weights.
        """
        if other.scale.shape != self.scale.shape:
            raise checks.FieldError(
                "start",
                f"Expected {{}} to see {self.scale.size} features or weights, as these"
                f" shadow models have, got one of {other.scale.size}.",
            )
        scale = np.where(self.scale > 0, self.scale, other.scale)
        return dataclasses.replace(self, scale=np.where(other.scale > 0, scale, 0))

    def __call__(self, raw: Float32[np.ndarray, "models raw"]) -> Features:
        """Return standardised features, without those that are dropped.

        Raises: ValueError: features of another number than was fitted, or not finite.
        """
        if raw.shape[1:] != self.mean.shape:
            raise ValueError(
                f"Expected {self.mean.size} features or weights, as of the shadow"
                f" models, got {raw.shape[1:]}."
            )
        bad = np.flatnonzero(~np.isfinite(raw).all(axis=1))
        if len(bad):
            raise ValueError(
                f"Expected finite weights, found NaN or infinity in {len(bad)} of"
                f" {len(raw)} models, such as number {bad[0]} of these."
            )
        kept = self.scale > 0
        features = raw[:, kept] - self.mean[kept]
        features /= self.scale[kept]
        return np.clip(features, -self.clip, self.clip, out=features)


def fit(
    models: ShadowModels | Store,
    view: View,
    *,
    num_models: int,
    clip: float,
    standardise: bool = True,
) -> Standardiser:
    """Fit mean and standard deviation of every feature, in one pass and float64.

    Args:
      num_models: the number of shadow models that are used, from the first on.
      clip: the largest feature, in standard deviations; see `Standardiser`.
      standardise: if False, only drop constant features, and cut nothing off.
    Raises: ValueError: no models, features that are not finite, a model that diverged
      and would dominate the statistics, or no feature that varies.
    """
    count = 0
    mean = squares = largest = np.zeros(())
    sizes: list[np.ndarray] = []
    for block in models.blocks():
        weights = block.weights[: num_models - count]
        if not len(weights):
            break
        raw = view(weights).astype(np.float64)
        if not np.isfinite(raw).all():
            raise ValueError(
                "Expected finite weights of shadow models, found NaN or infinity among"
                f" models {count} to {count + len(raw) - 1}."
            )
        sizes.append(np.linalg.norm(raw, axis=1))
        # Chan et al. 1983: merge the moments of two samples without cancellation.
        size, centre = len(raw), raw.mean(axis=0)
        delta, total = centre - mean, count + size
        squares = squares + ((raw - centre) ** 2).sum(axis=0)
        squares = squares + delta**2 * (count * size / total)
        mean = mean + delta * (size / total)
        largest = np.maximum(largest, np.abs(raw).max(axis=0))
        count = total
    if count < 2:
        raise ValueError(
            "Expected at least 2 shadow models to learn from, and one to validate by,"
            f" got {count}: one tells no feature from another."
        )
    lengths = np.concatenate(sizes)
    worst, middle = int(lengths.argmax()), float(np.median(lengths))
    if middle and lengths[worst] > _DIVERGED * middle:
        raise ValueError(
            f"Expected shadow models of comparable size; the weights of model {worst}"
            f" are {lengths[worst] / middle:.0e} times as long as the median, and would"
            " hide what tells the others apart. Its training diverged: lower the"
            " learning rate, or leave it out."
        )
    deviation = np.sqrt(squares / count)
    varies = deviation > 4 * np.finfo(np.float32).eps * largest
    if not varies.any():
        raise ValueError(
            f"No feature varies between the {count} shadow models: the target leaves no"
            " trace in theta (no epochs of training?)."
        )
    scale = np.where(varies, deviation, 0)
    if not standardise:
        mean, scale, clip = np.zeros_like(mean), varies, np.inf
    mean, scale = mean.astype(np.float32), scale.astype(np.float32)
    return Standardiser(mean=mean, scale=scale, clip=clip)


def read(
    models: ShadowModels | Store,
    view: View,
    standardiser: Standardiser,
    *,
    num_models: int,
    scratch: Path | None = None,
) -> tuple[Features, Float32[np.ndarray, "models ..."], Int32[np.ndarray, " models"]]:
    """Read features, images and labels of the first shadow models, block by block.

    Features of more than a quarter of the machine's memory are mapped from the file
    `scratch`, if it is named. The caller may delete it at any time.
    """
    features = room((num_models, standardiser.num_features), scratch)
    images = np.empty((num_models, *models.image_shape), np.float32)
    labels = np.empty(num_models, np.int32)
    start = 0
    for block in models.blocks():
        weights = block.weights[: num_models - start]
        if not len(weights):
            break
        rows = slice(start, start + len(weights))
        features[rows] = standardiser(view(weights))
        images[rows] = block.images[: len(weights)]
        labels[rows] = block.labels[: len(weights)]
        start = rows.stop
    return features, images, labels


def room(shape: tuple[int, int], scratch: Path | None) -> Features:
    """Return an array to fill: in memory, or mapped from `scratch`; see `read`."""
    if scratch is None or 4 * math.prod(shape) <= devices.memory_bytes() // 4:
        return np.empty(shape, np.float32)
    scratch.unlink(missing_ok=True)  # another process may have mapped it
    return np.lib.format.open_memmap(scratch, mode="w+", dtype=np.float32, shape=shape)
