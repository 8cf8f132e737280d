"""Reconstructions drawn towards the mean image, as far as validation models advise.

Where theta tells little, as under the noise of private training, a reconstructor that
was fitted to noise ends farther from the target than the mean image, which everyone
knows. Of all images between the two the best, on shadow models that took no part in
training, is found in closed form; so an attack is never expected to do worse than
knowing nothing.

Source: least squares in one unknown; the idea is James and Stein's.
"""

import dataclasses
from pathlib import Path

import numpy as np
from jaxtyping import Float

from shadow import files

Images = Float[np.ndarray, "models height width channels"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Shrinkage:
    """mean + factor (reconstruction - mean).

    Attributes:
      mean: (height, width, channels), of the images trained on.
      factor: in [0, 1]; 1 leaves reconstructions as they are.
    """

    mean: Float[np.ndarray, "height width channels"]
    factor: float

    @classmethod
    def fit(
        cls,
        mean: Float[np.ndarray, "height width channels"],
        predicted: Images,
        truth: Images,
    ) -> "Shrinkage":
        """The factor of least squared error on validation models."""
        moved = (predicted - mean).astype(np.float64)
        wanted = (truth - mean).astype(np.float64)
        length = float(np.sum(moved**2))
        factor = float(np.sum(moved * wanted)) / length if length else 1.0
        return cls(mean=mean, factor=float(np.clip(factor, 0.0, 1.0)))

    def __call__(self, images: Images) -> Images:
        """Reconstructions, drawn towards the mean; the type stays."""
        factor = images.dtype.type(self.factor)
        return np.asarray(self.mean + factor * (images - self.mean), images.dtype)

    def save(self, path: Path) -> None:
        """Write to an .npz file."""
        files.write_arrays(path, mean=self.mean, factor=np.array(self.factor))

    @classmethod
    def load(cls, path: Path) -> "Shrinkage":
        """Read what `save` wrote."""
        arrays = files.read_arrays(path)
        return cls(mean=arrays["mean"], factor=float(arrays["factor"]))
