"""Starting images of the landscape experiment: mixtures of images and noise.

The question is whether an attack with the weights alone ends at training images only if
it began near them. So every attack of `runs` begins at each of these starts, including
ones that no attacker has; `study` makes them:

    l2 (l1 truth + (1 - l1) partition) + (1 - l2) noise,    l1, l2 in 0, 1/4, ..., 1,

of the training images (truth), as many other images of the same classes (the
partition), and uniform noise. Other starts are standard normal noise; one image of the
partition per class, repeated; and small perturbations of the three corners truth,
partition and noise.

Source: Runkel et al. 2024, equation (10) and Sections 4.3 to 4.5.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from shadow import checks
from shadow.data import Images
from uninformed.kkt import training_images
from uninformed.kkt.training_images import PointsConfig

WINDOW = 7  # side, in pixels, of the windows of SSIM; scikit-image's default
CORNERS = ("noise", "partition", "truth")
COLLAPSED = "one image per class"
# Values of l1 and l2.
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
# Standard deviation of the perturbations, in pixels.
_DEVIATION = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartsConfig:
    """The number of perturbed starts around each of the three corners."""

    perturbed: int = 3

    def __post_init__(self) -> None:
        checks.at_least("perturbed", self.perturbed, 0)


@dataclasses.dataclass(frozen=True, eq=False)
class Sets:
    """The images that starts are mixed from, and that outcomes are compared with.

    All are (images, height, width, channels), pixels in [0, 1]. The labels 0 and 1 are
    those of `truth` and `partition`; no attack sees `held_out`.
    """

    truth: Images
    partition: Images
    noise: Images
    held_out: Float[np.ndarray, "others height width channels"]
    labels: np.ndarray

    def fingerprint(self) -> str:
        """Return a hash of all images and labels."""
        images = np.concatenate([self.truth, self.partition, self.noise])
        parts = images, self.labels, self.held_out, np.zeros(0, np.int32)
        return checks.fingerprint([*map(checks.digest, parts)])

    @property
    def signs(self) -> Float[np.ndarray, " images"]:
        """Return the labels as -1 and 1, (points,)."""
        return (2 * self.labels - 1).astype(np.float32)


def load(config: PointsConfig, seed: int, data_dir: str | None = None) -> Sets:
    """Load training images in the order of their labels, and a partition like them.

    Raises: ValueError: too few held-out images of a class for a partition.
    """
    images = training_images.load(config, data_dir, WINDOW)
    chosen = []
    for label in np.unique(images.labels):
        members = np.flatnonzero(images.held_out_labels == label)
        count = int((images.labels == label).sum())
        if len(members) < 2 * count:
            raise checks.FieldError(
                "held_out",
                f"Expected {{}} to have {2 * count} images of class {label}, for the"
                f" partition and the control, found {len(members)}. Make it larger.",
            )
        chosen.append(members[:count])
    partition = np.concatenate(chosen)
    others = np.setdiff1d(np.arange(len(images.held_out)), partition)
    rng = np.random.default_rng(seed)
    return Sets(
        truth=images.images,
        partition=images.held_out[partition],
        noise=rng.random(images.images.shape).astype(np.float32),
        held_out=images.held_out[others],
        labels=images.labels,
    )


def name(l1: float, l2: float) -> str:
    """Return a mixture's name; without a share of images, l1 doesn't matter."""
    if l2 == 0:
        return "noise"
    corners = {(1.0, 1.0): "truth", (0.0, 1.0): "partition"}
    return corners.get((l1, l2), f"{l1:g} {l2:g}")


def holds_truth(name: str) -> bool:
    """Return whether a start has a share of the training images."""
    first = name.split()[0]
    return first == "truth" or (first[0].isdigit() and float(first) > 0)


def unmixed(names: Sequence[str]) -> list[str]:
    """Return the corners and the starts that aren't mixtures; normal noise last."""
    normal = [name for name in names if name.startswith("normal")]
    return [name for name in names if name in (*CORNERS, COLLAPSED)] + normal


def make(config: StartsConfig, sets: Sets, seed: int) -> dict[str, Images]:
    """Make all starts, by name; equal mixtures once."""
    rng = np.random.default_rng([seed, 1])
    shape = sets.truth.shape
    starts = {
        name(l1, l2): l2 * (l1 * sets.truth + (1 - l1) * sets.partition)
        + (1 - l2) * sets.noise
        for l1, l2 in itertools.product(SHARES, SHARES)
    }
    starts["normal 1"] = rng.standard_normal(shape)
    first = [np.argmax(sets.labels == label) for label in (0, 1)]
    starts[COLLAPSED] = sets.partition[[first[label] for label in sets.labels]]
    for corner, number in itertools.product(CORNERS, range(config.perturbed)):
        moved = starts[corner] + _DEVIATION * rng.standard_normal(shape)
        starts[f"{corner} perturbed {number}"] = moved
    return {key: images.astype(np.float32) for key, images in starts.items()}
