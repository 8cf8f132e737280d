"""A folder with a folder of pictures for each class, as data sets are often kept.

    pictures/cat/1.png
    pictures/dog/7.jpg

Classes are numbered in the order of their names. All pictures have one size, and are
all grey or all in colour.
"""

import os
from pathlib import Path

import numpy as np

from shadow.data import Examples

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")


def load_folder(path: str | os.PathLike) -> Examples:
    """Read every picture below a folder of classes.

    Returns: labels are positions in `classes(path)`.
    Raises: ValueError: no pictures, or of several sizes; says which.
    """
    from PIL import Image

    root, names = Path(path), classes(path)
    pixels: list[np.ndarray] = []
    labels: list[int] = []
    first: Path | None = None
    for label, name in enumerate(names):
        for file in sorted((root / name).iterdir()):
            if file.suffix.lower() not in SUFFIXES:
                continue
            with Image.open(file) as picture:
                grey = picture.mode in ("1", "L", "I;16", "I", "F")
                array = np.asarray(picture.convert("L" if grey else "RGB"))
            array = array if array.ndim == 3 else array[..., None]
            if pixels and array.shape != pixels[0].shape:
                raise ValueError(
                    f"Expected pictures of one shape below {root}, found"
                    f" {pixels[0].shape} in {first} and {array.shape} in {file}."
                    " Resize them first."
                )
            first = first or file
            pixels.append(array)
            labels.append(label)
    if not pixels:
        raise ValueError(
            f"Expected folders of pictures ({', '.join(SUFFIXES)}) below {root}, one a"
            " class; found no picture."
        )
    return Examples(
        images=np.stack(pixels),
        labels=np.asarray(labels),
        num_classes=len(names),
        name=root.name,
    )


def classes(path: str | os.PathLike) -> tuple[str, ...]:
    """Names of the classes, in the order of their numbers."""
    return tuple(
        sorted(
            each.name
            for each in Path(path).iterdir()
            if each.is_dir() and not each.name.startswith(".")
        )
    )
