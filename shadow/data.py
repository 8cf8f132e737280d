"""Labelled images, and their split into fixed set, shadow targets and test targets.

The three disjoint parts of Section V-A (Balle et al. 2022): the fixed set D_- that the
adversary knows, the shadow targets of the adversary's models, and the test targets that
the adversary has no exact copy of. `sources` makes `Examples`, users, runs and audits
call `split`, and `factory` trains on the parts.
"""

import dataclasses
import warnings
from typing import Any

import numpy as np
from jaxtyping import Float32

from shadow import checks, copies

Images = Float32[np.ndarray, "examples height width channels"]
REVISION = 2  # of splits; see `shadow.records`
# Share of an integer type's range. Levels 0 .. 16 or six bits, in bytes, use less;
# photographs and scans use more.
_LEAST_USED = 0.25


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Examples:
    """Labelled images, checked when made.

    Attributes:
      images: (examples, height, width, channels), float32, pixels in [0, 1]; whole
        numbers of 8 and 16 bits without sign are divided by the largest of their type
        (255, 65535), and bits (bool) are 0 and 1.
      labels: (examples,), int32, in 0 .. num_classes - 1.
      num_classes: number of classes of the labels.
      name: the source of the images.
      classes_inferred: whether num_classes wasn't given, but is the largest label + 1.
    Raises: ValueError: wrong shape or type, NaN, a pixel outside [0, 1], or a label
      outside its range; the message names the field.
    """

    images: np.ndarray
    labels: np.ndarray
    num_classes: int
    name: str = "user"
    classes_inferred: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_classes", int(self.num_classes))
        images, labels = np.asarray(self.images), np.asarray(self.labels)
        if images.ndim != 4:
            raise ValueError(
                f"Expected {self.name}.images of shape (examples, height, width,"
                f" channels), got {images.shape}."
            )
        images = _scaled(images, self.name)
        if not np.issubdtype(images.dtype, np.floating):
            raise ValueError(
                f"Expected {self.name}.images as floats in [0, 1] or as bytes (uint8;"
                f" uint16 and bool are taken too), got {images.dtype}."
            )
        if labels.shape != images.shape[:1]:
            raise ValueError(
                f"Expected {self.name}.labels of shape ({len(images)},), one per image,"
                f" got {labels.shape}."
            )
        if not np.issubdtype(labels.dtype, np.integer):
            raise ValueError(
                f"Expected {self.name}.labels as integers, got {labels.dtype}."
            )
        if images.size:
            low, high = float(images.min()), float(images.max())
            if np.isnan(low) or np.isnan(high):
                count = int(np.isnan(images).any(axis=(1, 2, 3)).sum())
                raise ValueError(
                    f"Expected {self.name}.images to be finite,"
                    f" found NaN in {count} of {len(images)} images."
                )
            if low < 0 or high > 1:
                raise ValueError(
                    f"Expected {self.name}.images within [0, 1],"
                    f" found values from {low:g} to {high:g}."
                )
            if labels.min() < 0 or labels.max() >= self.num_classes:
                raise ValueError(
                    f"Expected {self.name}.labels in 0 .. {self.num_classes - 1}, found"
                    f" values from {labels.min()} to {labels.max()}."
                )
        images = np.ascontiguousarray(images, np.float32)
        if np.signbit(images).any():  # -0.0, which is 0.0 with other bytes
            images = images + np.float32(0)
        object.__setattr__(self, "images", images)
        object.__setattr__(self, "labels", labels.astype(np.int32))

    def __len__(self) -> int:
        return len(self.images)

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Shape of an image: (height, width, channels)."""
        return tuple(self.images.shape[1:])

    @property  # not cached: arrays may be changed in place
    def sha256(self) -> dict[str, str]:
        """Hashes of images and labels, by name, as a manifest holds them."""
        return {
            "images_sha256": checks.digest(self.images),
            "labels_sha256": checks.digest(self.labels),
        }

    def take(self, indices: np.ndarray | slice) -> "Examples":
        """Return the examples at `indices`, in that order."""
        return dataclasses.replace(
            self, images=self.images[indices], labels=self.labels[indices]
        )

    def joined(self, *others: "Examples | None") -> "Examples":
        """Return these and others, in that order; None adds nothing."""
        parts = [self, *(other for other in others if other is not None)]
        return dataclasses.replace(
            self,
            images=np.concatenate([part.images for part in parts]),
            labels=np.concatenate([part.labels for part in parts]),
        )

    def means(self, wanted: np.ndarray, dtype: Any = None) -> np.ndarray:
        """Return the mean image of each label; of all images where a label has none.

        `dtype` is the type of sums and means; None: that of the images.
        """
        overall = self.images.mean(axis=0, dtype=dtype)
        of_label = {
            label: self.images[self.labels == label].mean(axis=0, dtype=dtype)
            for label in np.unique(self.labels).tolist()
        }
        return np.stack([of_label.get(int(label), overall) for label in wanted])


def _scaled(images: np.ndarray, name: str) -> np.ndarray:
    """Scale integers to floats in [0, 1] by their type; return floats unchanged."""
    if images.dtype == bool:
        return images.astype(np.float32)
    if images.dtype not in (np.uint8, np.uint16):
        return images
    most = np.iinfo(images.dtype).max
    largest = int(images.max()) if images.size else most
    if 0 < largest < _LEAST_USED * most:
        warnings.warn(
            f"{name}.images are whole numbers of {images.dtype} from 0 to {largest},"
            f" and are divided by {most}: every pixel is below {largest / most:.2g}."
            f" If {largest} stands for white, divide by it yourself and hand in floats"
            " in [0, 1].",
            stacklevel=4,
        )
    return images.astype(np.float32) / np.float32(most)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Fixed set, shadow targets and test targets, pairwise disjoint.

    Attributes:
      fixed_indices, shadow_indices, test_indices: positions of the three parts in the
        pool that they were drawn from.
      dropped: the number of images that `split` left out because they are equal, as
        numbers, to others that it kept.
    """

    fixed: Examples
    shadow: Examples
    test: Examples
    fixed_indices: np.ndarray
    shadow_indices: np.ndarray
    test_indices: np.ndarray
    dropped: int = 0

    @property
    def positions(self) -> dict[str, np.ndarray]:
        """The three arrays of positions, by name, for a store to keep."""
        names = ("fixed_indices", "shadow_indices", "test_indices")
        return {name: getattr(self, name) for name in names}


def split(
    pool: Examples,
    *,
    num_fixed: int,
    num_shadow: int,
    num_test: int,
    seed: int,
    shadow_pool: Examples | None = None,
) -> Split:
    """Return the three parts, drawn at random without replacement.

    An image that the pool holds twice is drawn once, so no target is known by chance.
    Near copies aren't left out; metrics count them.
    Test targets are drawn first, the fixed set next, shadow targets last, so that the
    first k shadow targets of a longer draw are those of a shorter one.

    Args:
      pool: the examples that fixed set and test targets are drawn from.
      num_fixed, num_shadow, num_test: the number of examples of each part.
      seed: the seed of the draw.
      shadow_pool: another data set for the shadow targets (Section VI-B). Images of
        fixed set and test targets are never drawn from it. Where it has another number
        of classes, its labels are replaced by uniform random ones.
    Raises: ValueError: more examples asked for than there are; images of the two pools
      differ in shape; or their numbers of classes differ, and the smaller was inferred.
    """
    sizes = {"num_fixed": num_fixed, "num_shadow": num_shadow, "num_test": num_test}
    for field, value in sizes.items():
        checks.integer(field, value, 1)
    rng, other = np.random.default_rng(seed), pool
    if shadow_pool is None:
        parts = [num_test, num_fixed, num_shadow]
        (test, fixed, shadow), dropped = _draw(pool, parts, rng)
    else:
        if shadow_pool.image_shape != pool.image_shape:
            raise ValueError(
                f"Expected shadow images of the shape {pool.image_shape} of"
                f" {pool.name}, got {shadow_pool.image_shape} of {shadow_pool.name}."
            )
        parts = [num_test, num_fixed]
        (test, fixed), dropped = _draw(pool, parts, rng)
        taken = pool.images[np.concatenate([test, fixed])]
        fresh = np.flatnonzero(~copies.among(shadow_pool.images, taken))
        (shadow,), repeated = _draw(shadow_pool.take(fresh), [num_shadow], rng)
        dropped += len(shadow_pool) - len(fresh) + repeated
        shadow, other = fresh[shadow], _relabelled(shadow_pool, pool, rng)
    return Split(
        fixed=pool.take(fixed),
        shadow=other.take(shadow),
        test=pool.take(test),
        fixed_indices=fixed,
        shadow_indices=shadow,
        test_indices=test,
        dropped=dropped,
    )


def _relabelled(
    shadows: Examples, pool: Examples, rng: np.random.Generator
) -> Examples:
    """Replace labels by random ones if the shadow pool has other classes."""
    if shadows.num_classes == pool.num_classes:
        return shadows
    fewer, more = sorted((shadows, pool), key=lambda examples: examples.num_classes)
    if fewer.classes_inferred:
        raise ValueError(
            f"The labels of {fewer.name} end at {fewer.num_classes - 1}, and"
            f" {more.name} has {more.num_classes} classes. If they are the same"
            f" classes, put num_classes={more.num_classes} into the file; if they are"
            " others, for which the shadow targets get random labels, put"
            f" num_classes={fewer.num_classes}."
        )
    labels = rng.integers(0, pool.num_classes, len(shadows))
    return dataclasses.replace(shadows, labels=labels, num_classes=pool.num_classes)


def _draw(
    pool: Examples, sizes: list[int], rng: np.random.Generator
) -> tuple[list[np.ndarray], int]:
    """Draw disjoint positions of different images, an array per size; count copies."""
    order = rng.permutation(len(pool))
    order = order[copies.first_occurrences(pool.images[order])]
    dropped = len(pool) - len(order)
    if sum(sizes) > len(order):
        raise ValueError(
            f"Asked {pool.name} for {' + '.join(map(str, sizes))} = {sum(sizes)}"
            f" different examples, but it has {len(order)}. Ask for fewer test targets,"
            " fixed points or shadow models."
        )
    return np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1]), dropped
