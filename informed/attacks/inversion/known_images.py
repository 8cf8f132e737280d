"""What an inversion takes from the images that the adversary has.

Means to start at, principal components to search in, and levels to round to.
`shared_measurements` makes it once from D_- and public images.
"""

import dataclasses
import functools

import numpy as np
from jaxtyping import Bool, Float, Int

from informed.attacks.inversion import coordinates, pixel_levels
from informed.attacks.inversion.coordinates import Coordinates


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class KnownImages:
    """Labelled images, D_- and public ones, and the statistics of their pixels."""

    images: Float[np.ndarray, "known height width channels"]
    labels: Int[np.ndarray, " known"]
    # Pixels that are zero in all of D_-, if they feed a dense first layer; else none.
    never_lit: Bool[np.ndarray, " pixels"]
    use_levels: bool = True  # whether to look for the few values of digital pixels

    def of_class(self, label: int) -> Float[np.ndarray, "some height width channels"]:
        """Return the images of a class, or all images if it has none."""
        members = self.labels == label
        return self.images[members] if members.any() else self.images

    def mean(self, label: int) -> Float[np.ndarray, "height width channels"]:
        """Return the mean image of a class; `never_lit` pixels are black."""
        mean = self.of_class(label).mean(axis=0)
        return np.where(self.never_lit.reshape(mean.shape), 0, mean)

    @functools.cached_property
    def levels(self) -> int | None:
        """Number of levels above zero; None: not discrete, or levels aren't wanted."""
        return pixel_levels.above_zero(self.images) if self.use_levels else None

    @functools.cached_property
    def range(self) -> tuple[float, float]:
        """The darkest and the brightest value of a pixel."""
        return float(self.images.min()), float(self.images.max())

    @functools.cached_property
    def constant(self) -> Bool[np.ndarray, " pixels"]:
        """Pixels (of tables: columns) that hardly vary over all images."""
        flat = self.images.reshape(len(self.images), -1).astype(np.float64)
        return flat.std(axis=0) < coordinates.SMALLEST_DEVIATION

    @functools.cached_property
    def coordinates(self) -> Coordinates:
        """The principal components of all images."""
        return coordinates.principal_components(self.images)

    @functools.cached_property
    def free_coordinates(self) -> Coordinates:
        """Coordinates in which pixels that hardly vary may move far."""
        least = coordinates.FREE_DEVIATION
        return coordinates.principal_components(self.images, least)
