"""Choose a KKT victim's training images, and held-out ones to count chance matches.

`experiment` calls `load`, or `given` for weights from elsewhere; `landscape.mixtures`
calls `load`. The held-out images are drawn by a fixed seed.
"""

import dataclasses

import numpy as np

from shadow import checks, files, sources
from uninformed.candidates import WINDOW

# Labels of the vehicles in CIFAR-10, one class of "binary"; animals are the other.
_VEHICLES = (0, 1, 8, 9)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PointsConfig:
    """The choice of the training set.

    Attributes:
      name: name of the data set, as `shadow.sources.load` takes it.
      classes: "binary", vehicles against animals of CIFAR-10 and odd against even
        labels of other data sets, or "all".
      points: number of training images, in equal shares of the classes.
      offset: number of images of each class to skip before the first.
      held_out: number of held-out images for the control.
      mean_known: whether the adversary knows the mean image, which is subtracted.
    """

    name: str = "mnist"
    classes: str = "binary"
    points: int = 20
    offset: int = 0
    held_out: int = 2000
    mean_known: bool = True

    def __post_init__(self) -> None:
        checks.choice("classes", self.classes, ("binary", "all"))
        checks.at_least("points", self.points, 2)
        checks.at_least("offset", self.offset, 0)
        checks.at_least("held_out", self.held_out, 1)


@dataclasses.dataclass(frozen=True)
class VictimImages:
    """Training images, and those that candidates are compared with as a control.

    Both are (images, height, width, channels), pixels in [0, 1]. The network sees them
    less `shift`; None: less the mean training image.
    """

    images: np.ndarray
    labels: np.ndarray
    held_out: np.ndarray
    held_out_labels: np.ndarray
    shift: np.ndarray | None = None

    @property
    def mean(self) -> np.ndarray:
        """What is subtracted from all images: `shift`, or the mean training image."""
        return self.images.mean(axis=0) if self.shift is None else self.shift

    def fingerprint(self) -> str:
        """Return a hash of all images and labels."""
        return checks.fingerprint([*map(checks.digest, dataclasses.astuple(self)[:4])])

    @property
    def points(self) -> np.ndarray:
        """The network's training points: images minus `mean`, in rows."""
        return (self.images - self.mean).reshape(len(self.images), -1)


def load(
    config: PointsConfig, data_dir: str | None = None, least: int = WINDOW
) -> VictimImages:
    """Take the first images that fill equal shares; draw the held-out ones.

    Raises: FieldError: unequal shares, too few images, or ones with a side < `least`.
    """
    pool = sources.load(config.name, data_dir=data_dir)
    shape = pool.image_shape
    allowed = f"to hold images of {least} x {least} pixels or more, 1 or 3 channels"
    fits = shape[2] in (1, 3) and min(shape[:2]) >= least
    checks.require("name", shape, fits, allowed)
    labels = pool.labels
    if config.classes == "binary":
        # CIFAR-10 of any version.
        cifar10 = config.name.partition(":")[0] == "cifar10"
        ones = np.isin(labels, _VEHICLES) if cifar10 else labels % 2
        labels = ones.astype(np.int32)
    classes = np.unique(labels)
    allowed = "to give two classes or more"
    checks.require("classes", config.classes, len(classes) > 1, allowed)
    share = config.points // len(classes)
    if config.points % len(classes):
        raise checks.FieldError(
            "points",
            f"Expected {{}} to be a multiple of the {len(classes)} classes, which have"
            f" equal shares; got {config.points}.",
        )
    wanted = slice(config.offset, config.offset + share)
    chosen = np.concatenate([np.flatnonzero(labels == c)[wanted] for c in classes])
    if len(chosen) < share * len(classes) or share == 0:
        raise checks.FieldError(
            "points",
            f"{{}} is {config.points} and offset {config.offset}, but {config.name} has"
            f" {np.bincount(labels).min()} images of its rarest class of"
            f" {len(classes)}; expected at least one and at most all of a class.",
        )
    rest = np.setdiff1d(np.arange(len(labels)), chosen)
    others = np.random.default_rng(0).permutation(rest)[: config.held_out]
    held_out = [int((labels[others] == label).sum()) for label in classes]
    if min(held_out) < share:
        raise checks.FieldError(
            "held_out",
            f"Expected {{}} to leave {share} images of each class, as many as are"
            " trained on, for the control of what counts as recovered; of"
            f" {config.held_out} it leaves {min(held_out)} of the rarest.",
        )
    return VictimImages(
        pool.images[chosen], labels[chosen], pool.images[others], labels[others]
    )


def given(config: PointsConfig, data_dir: str | None = None) -> VictimImages:
    """Load the images that another program trained on (`--weights`), as it saw them.

    An .npz file may hold the array `mean`, which that program subtracted from them.

    Raises: FieldError: see `load`; a mean of another shape, or not of pixels.
    """
    images = load(config, data_dir)
    shape = images.images.shape[1:]
    mean = np.zeros(shape, np.float32)
    if config.name.endswith(".npz"):
        mean = files.read_arrays(config.name).get("mean", mean).astype(np.float32)
    # Not in another order, such as PyTorch's of (channels, height, width).
    shapes = [shape, (np.prod(shape),)] + [shape[:2]] * (shape[2] == 1)
    if mean.shape not in shapes or not ((mean >= 0) & (mean <= 1)).all():
        raise checks.FieldError(
            "name",
            f"{{}} is {config.name!r}, whose mean has shape {mean.shape}, and values of"
            f" {mean.min():g} to {mean.max():g}. Expected {shape} in [0, 1].",
        )
    return dataclasses.replace(images, shift=mean.reshape(shape))
