"""The inversion's unknowns: principal components of images, scaled to unit variance.

In these coordinates a target like the known images is about standard normal. So the
prior is Gaussian, and least squares are well conditioned. `known_images` computes them,
`shared_measurements` makes a `Space` for each search; `stationary_attack` does both.
"""

import dataclasses
import functools

import numpy as np
from jaxtyping import Bool, Float

from informed.attacks.inversion.gauss_newton import Directions, Slopes

Images = Float[np.ndarray, "... height width channels"]
Vectors = Float[np.ndarray, "... unknowns"]
# Images whose unseen part is computed at once; affects memory only.
_AT_ONCE = 1000
# Moves below this share of the least deviation are rounding, and count as zero.
_STILL = 1e-3
# Products of unit vectors below this are rounding.
_ORTHOGONAL = 1e-9
# Least deviation of a component, in pixel values: a smaller one keeps a target closer
# to the span of the public images, a larger one lets more rounding in.
SMALLEST_DEVIATION = 1e-3
# The same for targets with a value that no known record has, such as a new category. At
# 1e-3, with such targets hundreds of deviations away, none was reconstructed.
FREE_DEVIATION = 0.1


@dataclasses.dataclass(frozen=True, eq=False)
class Coordinates:
    """Affine coordinates of one image: image = mean + u @ basis.

    The basis vectors are orthogonal, the one of largest variance first, as long as the
    standard deviation of images along them.
    """

    mean: Float[np.ndarray, " pixels"]
    basis: Float[np.ndarray, "components pixels"]
    image_shape: tuple[int, ...]  # (height, width, channels)

    def __len__(self) -> int:
        return len(self.basis)

    def images(self, u: Vectors) -> Images:
        """Return the images at u, in float64."""
        flat = self.mean + u @ self.basis
        return flat.reshape(*u.shape[:-1], *self.image_shape)

    def without(self, pixels: Bool[np.ndarray, " pixels"]) -> "Coordinates":
        """Return coordinates in which some pixels stay black for every u."""
        kept = ~pixels
        return Coordinates(self.mean * kept, self.basis * kept[None], self.image_shape)

    def of(self, images: Images) -> Vectors:
        """Return the coordinates of images, the inverse of `images`."""
        lengths = np.linalg.norm(self.basis, axis=1)
        flat = images.reshape(*images.shape[:-3], -1).astype(np.float64)
        # The basis is orthogonal, so its scaled transpose inverts it.
        return (flat - self.mean) @ (self.basis / lengths[:, None] ** 2).T


class Space:
    """Coordinates u of all unknown points, concatenated."""

    def __init__(
        self, of_one: Coordinates, labels: np.ndarray, means: Images, black: np.ndarray
    ) -> None:
        """Place u = 0 at labels' mean images, with some pixels black in all points."""
        self.labels, self.size = labels, len(of_one)
        self._full, self._dimmed, self._black = of_one, of_one.without(black), black
        self._centre = of_one.of(means)
        # (size, pixels), directions in which each point moves.
        self.basis = self._dimmed.basis

    def images(self, u: Vectors) -> Images:
        """Return the images (..., unknown, height, width, channels) at u."""
        apart = u.reshape(*u.shape[:-1], len(self.labels), self.size)
        return self._dimmed.images(self._centre + apart)

    def of(self, images: Images) -> Vectors:
        """Return the coordinates of images."""
        apart = self._full.of(images) - self._centre
        return apart.reshape(*images.shape[:-4], -1)

    def completed(self, slopes: np.ndarray) -> np.ndarray:
        """Extend slopes that keep black pixels black to all u, which move others."""
        of_basis = self._full.mean + self._dimmed.basis
        onto = self._full.of(of_basis.reshape(-1, *self._full.image_shape))
        by_point = slopes.reshape(-1, self.size, slopes.shape[1])
        return (onto @ by_point).reshape(slopes.shape)

    def first(
        self, components: int
    ) -> tuple[Directions, Float[np.ndarray, "few pixels"]]:
        """Return unit vectors of u along the first components of every point.

        In all components: along those directions only that move pixels.

        Returns: the unit vectors; the moves of one point's pixels along its own ones.
        """
        if components < self.size:
            rows, moves = np.eye(components, self.size), self.basis[:components]
        else:
            _, rows, moves = self._still_and_moving
        return np.kron(np.eye(len(self.labels)), rows), moves

    @functools.cached_property
    def _still_and_moving(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Unit vectors of one point's u that move no pixel; all others; their moves."""
        if not self._black.any():
            return np.zeros((0, self.size)), np.eye(self.size), self.basis
        # Coordinates of changes of single black pixels.
        lengths = np.linalg.norm(self._full.basis, axis=1)
        still = (self._full.basis / lengths[:, None] ** 2)[:, self._black]
        rows = np.linalg.qr(still, mode="complete")[0].T
        still, moving = np.split(rows, [still.shape[1]])
        return still, moving, moving @ self.basis

    def variances(self, slopes: Slopes) -> Images:
        """Return every pixel's variance; see `Slopes.posterior_variances`."""
        variances = slopes.posterior_variances(self.basis)
        return variances.reshape(-1, *self._full.image_shape)

    def moves(self, directions: Directions) -> Images:
        """Return the change of the images along directions of u."""
        shape = len(directions), len(self.labels)
        moved = directions.reshape(*shape, self.size) @ self.basis
        return moved.reshape(*shape, *self._full.image_shape)

    def by_pixel(self, directions: Directions) -> Float[np.ndarray, "some pixels"]:
        """Return the change of u along directions by each pixel of all points alone."""
        lengths = np.linalg.norm(self._full.basis, axis=1)
        by_point = directions.reshape(len(directions), len(self.labels), self.size)
        changes = by_point @ (self._full.basis / lengths[:, None] ** 2)
        return changes.reshape(len(directions), -1)

    @property
    def black(self) -> Bool[np.ndarray, " pixels"]:
        """Which pixels of all points stay black."""
        return np.tile(self._black, len(self.labels))

    def moving(self, slopes: Slopes) -> Slopes:
        """Drop the directions that move no pixel, because their pixels stay black."""
        by_point = slopes.directions.reshape(-1, self.size)
        if np.abs(by_point @ self._still_and_moving[0].T).max(initial=0) < _ORTHOGONAL:
            return slopes
        moves = self.moves(slopes.directions).reshape(len(slopes.directions), -1)
        squares, rotation = np.linalg.eigh(moves @ moves.T)
        still = squares <= (_STILL * SMALLEST_DEVIATION) ** 2
        if not still.any():
            return slopes
        return slopes.without(rotation[:, still].T @ slopes.directions)

    def unseen(self, slopes: Slopes, images: Images) -> Images:
        """Return each pixel's squared error if the target were the worst known image.

        Without information in theta, the posterior's variance is the prior's, and real
        images lie much farther out. The target lies farther out than the worst of n
        such images with probability 1 / (n + 1). For each unknown point we take the
        image of largest mean error, and add the errors of all points.
        """
        directions, shares = slopes.untold()
        moves = self.moves(directions).reshape(
            len(directions), len(self.labels) * self.basis.shape[1]
        )
        moves *= shares[:, None]
        still = np.abs(moves).max(axis=1, initial=0.0) <= _STILL * SMALLEST_DEVIATION
        directions, moves = directions[~still], moves[~still]
        products = moves @ moves.T
        lengths = np.linalg.norm(self._full.basis, axis=1)
        total = np.zeros(moves.shape[1])
        parts = np.split(directions, len(self.labels), axis=1)
        for part, centre in zip(parts, self._centre, strict=True):
            # The coefficients of the image that is farthest out.
            worst, largest = np.zeros(len(part)), 0.0
            onto = (part / lengths**2) @ self._full.basis
            origin = onto @ self._full.mean + part @ centre
            for first in range(0, len(images), _AT_ONCE):
                some = images[first : first + _AT_ONCE]
                along = some.reshape(len(some), -1) @ onto.T - origin
                squares = np.sum((along @ products) * along, axis=1)
                if squares.max() > largest:
                    largest, worst = squares.max(), along[squares.argmax()]
            total += (worst @ moves) ** 2
        return total.reshape(-1, *self._full.image_shape)


def principal_components(
    images: Images, least: float = SMALLEST_DEVIATION
) -> Coordinates:
    """Return the mean image, and principal components times their deviations.

    The deviations are at least `least`, so that the components span all images.

    Raises: ValueError: there is only one image.
    """
    if len(images) < 2:
        raise ValueError(
            "Expected at least two known records, the public ones counted: one doesn't"
            " tell how records vary."
        )
    flat = images.reshape(len(images), -1).astype(np.float64)
    mean = flat.mean(axis=0)
    variances, directions = np.linalg.eigh(np.atleast_2d(np.cov(flat, rowvar=False)))
    deviations = np.sqrt(np.maximum(variances[::-1], least**2))
    basis = directions[:, ::-1].T * deviations[:, None]
    return Coordinates(mean, basis, images.shape[1:])
