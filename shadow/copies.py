"""Exact copies among images, which would make an attack's success trivial.

`data` leaves them out of a split, and `informed` refuses or counts them. Images are
compared as numbers: 0.0 and -0.0 are one value in two patterns of bits.
"""

import hashlib

import numpy as np
from jaxtyping import Bool, Float32, Int

Images = Float32[np.ndarray, "images height width channels"]
Others = Float32[np.ndarray, "others height width channels"]


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
