"""Weights and targets of models in memory, to learn from; `store` has those on disk.

`Store.read` gives them, audits make them; `reconn` learns from them, or from a store.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float32, Int32

from shadow import checks
from shadow.data import Examples
from shadow.victims import Slice


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ShadowModels:
    """Trained models and their targets in memory, one row per model.

    Attributes:
      layout: which slice of theta is which array of the victim; () where that isn't
        known. With it a network can use the first layer's weights as pictures.
    Raises: ValueError: arrays don't have one row per model, or the layout has another
      number of weights; images or labels that `Examples` refuses.
    """

    weights: Float32[np.ndarray, "models params"]
    images: Float32[np.ndarray, "models height width channels"]
    labels: Int32[np.ndarray, " models"]
    layout: tuple[Slice, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.weights) == len(self.images) == len(self.labels):
            raise ValueError(
                f"Expected one row per model in weights, images and labels, got"
                f" {len(self.weights)}, {len(self.images)} and {len(self.labels)}."
            )
        largest = int(np.max(self.labels, initial=0))
        targets = Examples(
            images=self.images,
            labels=self.labels,
            num_classes=largest + 1,
            name="shadow models",
        )
        object.__setattr__(self, "weights", np.asarray(self.weights))
        object.__setattr__(self, "images", targets.images)
        object.__setattr__(self, "labels", targets.labels)
        if self.layout and self.layout[-1].stop != self.weights.shape[1]:
            raise checks.FieldError(
                "layout",
                f"Expected {{}} to end at {self.weights.shape[1]}, the number of"
                f" weights, got {self.layout[-1].stop}.",
            )

    @classmethod
    def of(
        cls, weights: np.ndarray, targets: Examples, layout: tuple[Slice, ...] = ()
    ) -> "ShadowModels":
        """Combine models and their targets, in the same order."""
        images, labels = targets.images, targets.labels
        return cls(weights=weights, images=images, labels=labels, layout=layout)

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Shape of a target: (height, width, channels)."""
        return tuple(self.images.shape[1:])

    def blocks(self) -> "Iterator[ShadowModels]":
        """Yield everything as one block."""
        yield self

    def read(self) -> "ShadowModels":
        """Return the models themselves."""
        return self

    def fingerprint(self) -> str:
        """Hash weights, images and labels."""
        arrays = (self.weights, self.images, self.labels)
        return checks.fingerprint([checks.digest(values) for values in arrays])
