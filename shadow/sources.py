"""Load image data sets by name: `shadow.load`.

Users, runs, audits and `uninformed.kkt` call it. Sets of TFDS (TensorFlow Datasets) are
read through array_record; TensorFlow is never imported. Nothing is downloaded.
"""

import functools
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from shadow import checks, files, folders
from shadow.data import Examples


def load(
    name: str | os.PathLike, *, data_dir: str | os.PathLike | None = None
) -> Examples:
    """Load a whole data set, all its splits joined.

    Args:
      name: "digits" or a registered name; a TFDS name such as "mnist", "cifar10",
        "mnist:3.0.1"; the path of an .npz file with arrays images and labels (see
        `Examples`), and perhaps the number num_classes; or that of a folder with one
        folder of images per class (`shadow.folders`), as a `Path` or with a "/" in
        it, as in "./pictures".
      data_dir: TFDS folder; default: TFDS_DATA_DIR, else TFDS's own default.
    Raises:
      ValueError: no data set of that name, or it doesn't hold images of one shape.
      FileNotFoundError: known to TFDS, but not prepared; says how to prepare it.
        Nothing is ever downloaded here.
    """
    # A path object is a path, also where it is called "digits".
    name = name if isinstance(name, str) else os.path.abspath(name)
    if name in _SOURCES:
        return _SOURCES[name]()
    if name.endswith(".npz"):
        return load_npz(name)
    if "/" in name and Path(name).is_dir():
        images, labels = folders.read(name)
        classes = len(folders.classes(name))
        return Examples(
            images=images, labels=labels, num_classes=classes, name=Path(name).name
        )
    return load_tfds(name, data_dir=data_dir)


def load_npz(path: str | os.PathLike) -> Examples:
    """Load a user's arrays from an .npz file, without unpickling. See `load`."""
    arrays = files.read_arrays(path, ("images", "labels"), also=("num_classes",))
    images, labels, name = arrays["images"], arrays["labels"], Path(path).name
    if images.ndim == 3:
        images = images[..., None]  # grey images are often kept without channels
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"Expected {name}.labels as integers, got {labels.dtype}.")
    declared = arrays.get("num_classes")
    if declared is not None and not (
        declared.shape == () and declared.dtype.kind in "iu"
    ):
        raise ValueError(f"Expected num_classes in {name} to be one integer.")
    largest = int(labels.max()) + 1 if labels.size else 1
    return Examples(
        images=images,
        labels=labels,
        num_classes=largest if declared is None else int(declared),
        classes_inferred=declared is None,
        name=name,
    )


def load_digits() -> Examples:
    """Load scikit-learn's 1,797 handwritten digits, 8 x 8, scaled to [0, 1]."""
    from sklearn import datasets

    bunch = datasets.load_digits()
    images = (bunch.images / 16.0).astype(np.float32)[..., None]
    return Examples(images=images, labels=bunch.target, num_classes=10, name="digits")


_SOURCES: dict[str, Callable[[], Examples]] = {"digits": load_digits}


def register_source(name: str, load: Callable[[], Examples]) -> None:
    """Register a user's data set, so that `load` finds it by name.

    Records hold a hash of what the function loads.

    Raises: ValueError: a function that is defined elsewhere has that name.
    """
    there = _SOURCES.get(name, load)
    if checks.place(there) != checks.place(load):
        raise ValueError(f"There is a data set called {name!r} already.")
    _SOURCES[name] = load


def digest(name: str) -> str | None:
    """Hash a user's data: a file, a folder, or what their function loads.

    None for prepared data sets, whose content doesn't change.
    """
    path = Path(name)
    if name in _SOURCES:
        return None if name == "digits" else _digest(_SOURCES[name])
    if path.is_file() and path.suffix == ".npz":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return folders.digest(path) if "/" in name and path.is_dir() else None


@functools.cache
def _digest(load: Callable[[], Examples]) -> str:
    examples = load()
    # It decides the victim's outputs, and doesn't follow from images and labels.
    return checks.fingerprint([examples.sha256, examples.num_classes])


def load_tfds(name: str, *, data_dir: str | os.PathLike | None = None) -> Examples:
    """Read a prepared TFDS image set in array_record format. See `load`."""
    tfds = _tfds(name)
    root = Path(
        data_dir or os.environ.get("TFDS_DATA_DIR") or tfds.core.constants.DATA_DIR
    ).expanduser()
    builder = tfds.builder_from_directory(_prepared_folder(name, root))
    for feature in ("image", "label"):
        if feature not in builder.info.features:
            raise ValueError(
                f"Expected the data set {name!r} to have the features image and label,"
                f" found {', '.join(builder.info.features)}."
            )
    images, labels = [], []
    for split in sorted(builder.info.splits):
        source = builder.as_data_source(split=split)
        for start in range(0, len(source), 4096):  # rows read at a time
            rows = source.__getitems__(range(start, min(start + 4096, len(source))))
            images += [row["image"] for row in rows]
            labels += [row["label"] for row in rows]
    shapes = {image.shape for image in images}
    if len(shapes) > 1:
        raise ValueError(
            f"Expected the data set {name!r} to hold images of one shape, found"
            f" {len(shapes)} shapes, such as {sorted(shapes)[:2]}."
        )
    return Examples(
        images=np.stack(images),
        labels=np.asarray(labels),
        num_classes=builder.info.features["label"].num_classes,
        name=name,
    )


def _tfds(name: str) -> Any:
    """Import tensorflow_datasets. Raises: ImportError: it isn't installed."""
    try:
        import tensorflow_datasets
    except ImportError as error:
        raise ImportError(
            f"The data set {name!r} is neither {', '.join(_SOURCES)} nor a file or"
            " folder. Those of TFDS need the extra: pip install"
            " '.[data]'."
        ) from error
    return tensorflow_datasets


def _prepared_folder(name: str, root: Path) -> Path:
    """Find the newest prepared version of a data set below `root`, offline."""
    path, _, version = name.partition(":")
    if not path or Path(path).is_absolute():
        raise checks.FieldError(
            "name",
            f"Expected {{}} to be digits, a TFDS name or an .npz file, got {name!r}.",
        )
    folders = [
        folder.parent
        for pattern in (f"{path}/*/dataset_info.json", f"{path}/*/*/dataset_info.json")
        for folder in root.glob(pattern)
        if version in ("", folder.parent.name)
    ]
    if len(configurations := {folder.parent for folder in folders}) > 1:
        raise checks.FieldError(
            "name",
            f"{{}} is {name!r}, of which several configurations are prepared:"
            f" {', '.join(sorted(f'{path}/{c.name}' for c in configurations))}.",
        )
    if folders:
        return max(folders, key=lambda f: [int(n) for n in re.findall(r"\d+", f.name)])
    tfds = _tfds(name)
    known = [*_SOURCES, *tfds.list_builders(with_community_datasets=False)]
    if path.split("/")[0] not in known:
        raise checks.FieldError(
            "name",
            f"{{}} is {name!r}, which is neither prepared under {root} nor a data set"
            f" of TFDS.{checks.nearest(path, known)}",
        )
    raise FileNotFoundError(
        f"The data set {name!r} is not prepared: looked in {root / path}. Set"
        " TFDS_DATA_DIR to a folder that holds it, or prepare it once (needs network"
        " and `pip install '.[data,download]'`): python -c"
        f" \"import tensorflow_datasets as t; t.builder('{name}', data_dir='{root}',"
        " file_format='array_record').download_and_prepare()\""
    )
