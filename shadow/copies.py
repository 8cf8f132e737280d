"""Exact and near copies among images, which would make an attack's success trivial.

`data` leaves exact copies out of a split, or refuses them; `informed` refuses or counts
exact copies and counts near ones. Images are compared as numbers: 0.0 and -0.0 are one
value in two patterns of bits.
"""

import dataclasses
import hashlib

import numpy as np
from jaxtyping import Bool, Float32, Int

# MSE per pixel: an error of a thousandth of the range, as in `EXACT` of
# `informed.metrics.judging`, which is relative to the spread of the records. An
# adversary with a nearer copy needs no attack. Rounding changes numbers by less.
NEAR = 1e-6
_ROWS, _TARGETS = 4096, 256  # at a time: memory is their product in float32
_ROUNDING = 1e-5  # of squared norms, summed in float32; nearer pairs are compared again

Images = Float32[np.ndarray, "images height width channels"]
Others = Float32[np.ndarray, "others height width channels"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Copies:
    """Which targets have a copy among other images: equal in every number, or `near`.

    A near copy isn't exact, but within `NEAR` (MSE).
    """

    exact: Bool[np.ndarray, " targets"]
    near: Bool[np.ndarray, " targets"]

    @property
    def counts(self) -> dict[str, int]:
        """Count copies by kind; JSON-able."""
        return {"exact": int(self.exact.sum()), "near": int(self.near.sum())}


def keys(images: Images) -> list[bytes]:
    """Return one key per image, equal where images are equal as numbers."""
    # Adding zero turns -0.0 into 0.0 and leaves every other number alone.
    return [
        hashlib.blake2b(
            (image + image.dtype.type(0)).tobytes(), digest_size=16
        ).digest()
        for image in images
    ]


def first_occurrences(images: Images) -> Int[np.ndarray, " distinct"]:
    """Return the positions of images that don't occur before, in order."""
    seen = {key: i for i, key in reversed(list(enumerate(keys(images))))}
    return np.array(sorted(seen.values()), np.int64)


def among(images: Images, others: Others) -> Bool[np.ndarray, " images"]:
    """Return which images are equal, as numbers, to one of the others."""
    there = set(keys(others))
    return np.array([key in there for key in keys(images)], bool)


def find(
    targets: Float32[np.ndarray, "targets height width channels"], others: Others
) -> Copies:
    """Find exact and near copies of the targets among other images.

    A product of matrices in float32 finds possible pairs; only these are compared
    number by number. 1,000 targets in 60,000 images of 784 pixels take seconds.
    """
    exact = among(targets, others)
    near = np.zeros(len(targets), bool)
    if not len(targets) or not len(others):
        return Copies(exact=exact, near=near)
    own = np.asarray(targets, np.float32).reshape(len(targets), -1)
    rest = np.asarray(others, np.float32).reshape(len(others), -1)
    # Distances don't change, and smaller numbers round less.
    mean = rest.mean(axis=0)
    for first in range(0, len(rest), _ROWS):
        part = rest[first : first + _ROWS]
        centred = part - mean
        norms = np.einsum("ij,ij->i", centred, centred)
        for start in range(0, len(own), _TARGETS):
            rows = np.arange(start, min(start + _TARGETS, len(own)))
            rows = rows[~(exact | near)[rows]]
            near[rows] |= _any_near(own[rows], mean, part, centred, norms)
    return Copies(exact=exact, near=near)


def _any_near(
    own: np.ndarray,
    mean: np.ndarray,
    part: np.ndarray,
    centred: np.ndarray,
    norms: np.ndarray,
) -> Bool[np.ndarray, " own"]:
    """Return which rows of `own` have a near one in `part`."""
    shifted = own - mean
    lengths = np.einsum("ij,ij->i", shifted, shifted)[:, None]
    distances = lengths + norms[None] - 2 * shifted @ centred.T
    limit = NEAR * own.shape[1]
    maybe = distances < limit + _ROUNDING * (lengths + norms[None])
    near = np.zeros(len(own), bool)
    for i in np.flatnonzero(maybe.any(axis=1)):
        apart = part[maybe[i]].astype(np.float64) - own[i]
        near[i] = bool((np.einsum("ij,ij->i", apart, apart) < limit).any())
    return near
