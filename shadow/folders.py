"""Read a data set from a folder that has a folder of pictures for each class.

`sources` calls `read`, `classes` and `digest`. Nothing is written.

    pictures/cat/1.png
    pictures/dog/7.jpg

Classes are numbered in the order of their names. All pictures have one size, and are
all grey or all in colour.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")


def read(path: str | os.PathLike) -> tuple[np.ndarray, np.ndarray]:
    """Read the pictures of a folder of classes; subfolders of a class are left out.

    Returns: (whole numbers (pictures, height, width, channels), labels (pictures,),
      which are positions in `classes(path)`).
    Raises: ValueError: no pictures, a damaged one, or several sizes or depths.
    """
    from PIL import Image

    root, names = Path(path), classes(path)
    pixels: list[np.ndarray] = []
    labels: list[int] = []
    first: Path | None = None
    for label, name in enumerate(names):
        of_class = pictures(root / name)
        if not of_class:
            raise ValueError(
                f"Expected pictures ({', '.join(SUFFIXES)}) in every folder below"
                f" {root}, one a class; found none in {name}."
            )
        for file in of_class:
            try:
                with Image.open(file) as picture:
                    array = _pixels(picture, file)
            except (OSError, SyntaxError) as error:  # Pillow's, for damaged files
                raise ValueError(
                    f"Expected {file} to be a picture: {error}."
                ) from error
            array = array if array.ndim == 3 else array[..., None]
            if pixels and array.dtype != pixels[0].dtype:
                raise ValueError(
                    f"Expected pictures of one depth below {root}, found"
                    f" {pixels[0].dtype} in {first} and {array.dtype} in {file}."
                )
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
    return np.stack(pixels), np.asarray(labels)


def pictures(folder: Path) -> list[Path]:
    """List the pictures of a class by name, and no other files."""
    return sorted(f for f in folder.iterdir() if f.suffix.lower() in SUFFIXES)


def digest(path: str | os.PathLike) -> str:
    """Hash the names and bytes of all pictures below a folder of classes."""
    whole = hashlib.sha256()
    for name in classes(path):
        for file in pictures(Path(path) / name):
            of_file = hashlib.sha256(file.read_bytes()).hexdigest()
            whole.update(f"{name}/{file.name} {of_file}\n".encode())
    return whole.hexdigest()


def _pixels(picture: Any, file: Path) -> np.ndarray:
    """Return a picture as integers: bytes, or of 16 bits where it has them.

    Raises: ValueError: its numbers have another type, whose white isn't known.
    """
    if picture.mode.startswith("I"):
        array = np.asarray(picture)
        # Converting to bytes would cut everything off above 255.
        if array.min() >= 0 and array.max() <= np.iinfo(np.uint16).max:
            return array.astype(np.uint16)
    if picture.mode in ("I", "F"):
        raise ValueError(
            f"Expected pictures of 8 or 16 bits, found numbers of the kind"
            f" {picture.mode!r} in {file}. Hand them in as an .npz file of floats in"
            " [0, 1]."
        )
    return np.asarray(picture.convert("L" if picture.mode in ("1", "L") else "RGB"))


def classes(path: str | os.PathLike) -> tuple[str, ...]:
    """List the names of the classes, in the order of their numbers."""
    folders = [entry.name for entry in Path(path).iterdir() if entry.is_dir()]
    return tuple(sorted(name for name in folders if not name.startswith(".")))
