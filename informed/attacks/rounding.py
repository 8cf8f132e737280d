"""What publishing changed of released weights, declared or not."""

import numpy as np

from informed.attacks.span import precision
from shadow.threat import Release

# How `precision` calls numbers that have all the digits of training.
_UNROUNDED = ("float64", "float32", "whole numbers")


def deviations(release: Release, i: int) -> np.ndarray | None:
    """(params,) standard deviations of what was added to a model's weights; None: none.

    Where nobody says what publishing changed, but the numbers are of fewer digits than
    single precision has, they were rounded to these, in training or after.
    """
    if release.deviations is not None:
        return np.asarray(release.deviations[i], np.float64)
    written = precision.of(release.weights[i].astype(np.float64)[None])
    return None if written.name in _UNROUNDED else written.deviation[0]
