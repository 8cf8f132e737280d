"""Coordinates of images: pixels, or scaled principal components.

In principal components of public images, scaled by their standard deviations, a target
is about standard normal: a Gaussian prior, and least squares that are well conditioned.
"""

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

_SMALLEST_DEVIATION = 1e-3


@dataclasses.dataclass(frozen=True, eq=False)
class Coordinates:
    """image = mean + u @ basis.

    Attributes:
      mean: (pixels,).
      basis: (pixels, pixels), one direction a row, most important first.
      image_shape: (height, width, channels).
    """

    mean: Float[np.ndarray, "pixels"]
    basis: Float[np.ndarray, "components pixels"]
    image_shape: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.basis)

    def images(
        self, u: Float[np.ndarray, "*points components"]
    ) -> Float[np.ndarray, "*points height width channels"]:
        """The images at u, in float64."""
        flat = self.mean + u @ self.basis
        return flat.reshape(*u.shape[:-1], *self.image_shape)

    def without(self, pixels: Bool[np.ndarray, "pixels"]) -> "Coordinates":
        """The same, with some pixels black whatever u."""
        kept = ~pixels
        return Coordinates(self.mean * kept, self.basis * kept[None], self.image_shape)

    def of(
        self, images: Float[np.ndarray, "*points height width channels"]
    ) -> Float[np.ndarray, "*points components"]:
        """The coordinates of images, the inverse of `images`."""
        lengths = np.linalg.norm(self.basis, axis=1)
        flat = images.reshape(*images.shape[:-3], -1).astype(np.float64)
        # The basis is orthogonal: a transpose inverts it.
        return (flat - self.mean) @ (self.basis / lengths[:, None] ** 2).T


def principal_components(
    images: Float[np.ndarray, "images height width channels"],
) -> Coordinates:
    """Mean image, and principal components times their standard deviations.

    Directions that hardly vary get a small deviation, so that the components span all
    images.
    """
    flat = images.reshape(len(images), -1).astype(np.float64)
    mean = flat.mean(axis=0)
    variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(flat, rowvar=False)))
    deviations = np.sqrt(np.maximum(variances[::-1], _SMALLEST_DEVIATION**2))
    basis = directions[:, ::-1].T * deviations[:, None]
    return Coordinates(mean, basis, images.shape[1:])


def pixels(images: Float[np.ndarray, "images height width channels"]) -> Coordinates:
    """Mean image, and every pixel for itself, those that vary most first."""
    flat = images.reshape(len(images), -1).astype(np.float64)
    order = np.argsort(-flat.var(axis=0), kind="stable")
    return Coordinates(
        flat.mean(axis=0), np.eye(flat.shape[1])[order], images.shape[1:]
    )
