"""Starting images of the landscape experiment: mixtures of images and noise.

Does an attack with the weights alone end at training images only if it began near them?
So `study` calls `load` and `make`, and every attack of `runs` begins at each of these
starts, including ones that no attacker has:

    l2 (l1 truth + (1 - l1) partition) + (1 - l2) noise,    l1, l2 in 0, 1/4, ..., 1,

of the training images (truth), as many other images of the same classes (the
partition), and uniform noise. Other starts are normal noise of any size; one image of
the partition per class, repeated; and small perturbations of the three corners truth,
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
from uninformed.kkt.training_images import PointsConfig, VictimImages

CORNERS = ("noise", "partition", "truth")
COLLAPSED = "one image per class"


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartsConfig:
    """The starts from which the attacks are run.

    Attributes:
      shares: values of l1 and l2, among them 0 and 1.
      normal: standard deviations, in pixels, of starts of normal noise.
      collapsed: whether one start is a single image per class, repeated.
      perturbed: number of perturbed starts around each of the three corners.
      deviation: standard deviation of these perturbations, in pixels.
    """

    shares: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    normal: tuple[float, ...] = (1.0,)
    collapsed: bool = True
    perturbed: int = 3
    deviation: float = 0.05

    def __post_init__(self) -> None:
        if not {0.0, 1.0} <= set(self.shares) or not all(
            0 <= share <= 1 for share in self.shares
        ):
            raise checks.FieldError(
                "shares",
                f"Expected {{}} in [0, 1], 0 and 1 among them, got {self.shares!r}.",
            )
        checks.at_least("perturbed", self.perturbed, 0)
        checks.require(
            "normal", self.normal, all(value > 0 for value in self.normal), "> 0"
        )
        checks.positive("deviation", self.deviation)


@dataclasses.dataclass(frozen=True, eq=False)
class Sets:
    """The images that starts are mixed from, and that outcomes are compared with.

    Attributes:
      truth: the training images (points, height, width, channels), pixels in [0, 1].
      partition: other images of the same labels, in the same order and of that shape.
      noise: uniform noise in [0, 1], of that shape.
      held_out: images that no attack sees (others, height, width, channels).
      labels: the labels 0 and 1 of `truth` and `partition`, (points,).
    """

    truth: Images
    partition: Images
    noise: Images
    held_out: Float[np.ndarray, "others height width channels"]
    labels: np.ndarray

    def fingerprint(self) -> str:
        """Return a hash of all images and labels."""
        return VictimImages(
            np.concatenate([self.truth, self.partition, self.noise]),
            self.labels,
            self.held_out,
            np.zeros(0, np.int32),
        ).fingerprint()

    @property
    def signs(self) -> Float[np.ndarray, " images"]:
        """Return the labels as -1 and 1, (points,)."""
        return (2 * self.labels - 1).astype(np.float32)


def load(config: PointsConfig, seed: int, data_dir: str | None = None) -> Sets:
    """Load training images in the order of their labels, and a partition like them.

    Raises: ValueError: too few held-out images of a class for a partition.
    """
    images = training_images.load(config, data_dir)
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
    """Name a mixture; without a share of images, l1 doesn't matter."""
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


def perturbed_name(corner: str, number: int) -> str:
    """Name a perturbed start around a corner."""
    return f"{corner} perturbed {number}"


def make(config: StartsConfig, sets: Sets, seed: int) -> dict[str, Images]:
    """Make all starts, by name; equal mixtures once."""
    rng = np.random.default_rng([seed, 1])
    shape = sets.truth.shape
    starts = {
        name(l1, l2): l2 * (l1 * sets.truth + (1 - l1) * sets.partition)
        + (1 - l2) * sets.noise
        for l1, l2 in itertools.product(config.shares, config.shares)
    }
    for deviation in config.normal:
        starts[f"normal {deviation:g}"] = deviation * rng.standard_normal(shape)
    if config.collapsed:
        first = {label: np.argmax(sets.labels == label) for label in (0, 1)}
        starts[COLLAPSED] = sets.partition[[first[label] for label in sets.labels]]
    for corner, number in itertools.product(CORNERS, range(config.perturbed)):
        moved = starts[corner] + config.deviation * rng.standard_normal(shape)
        starts[perturbed_name(corner, number)] = moved
    return {key: images.astype(np.float32) for key, images in starts.items()}
