"""One release as the solver reads it, and a reconstruction with its certificate."""

import dataclasses

import numpy as np

from informed.attacks import quantisation
from shadow.known import Known
from shadow.threat import Release


@dataclasses.dataclass(frozen=True)
class Published:
    """The weights of one release, and what is known of its target.

    Attributes:
      theta: (params,), the released weights in float64.
      deviations: (params,), standard deviations of what rounding the published numbers
        has changed; None where they are published as they were trained.
      known: pixels of the target that the adversary knows; None: none.
    """

    theta: np.ndarray
    deviations: np.ndarray | None
    known: Known | None = None

    @classmethod
    def of(cls, release: Release, i: int, known: Known | None = None) -> "Published":
        """The weights of release number i, and what is known of all targets."""
        theta = release.weights[i].astype(np.float64)
        deviations = quantisation.deviations(release, i)
        return cls(theta, deviations, None if known is None else known.at(i))


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A reconstruction of the unknown points of one release, and what speaks for it.

    Attributes:
      images: (unknown, height, width, channels), float32, not cut to [0, 1].
      labels: (unknown,), the labels that the images were searched with.
      residual: squared distance from theta to what A gives for these images.
      explained: whether rounding and published noise explain the residual.
      certified: whether the residual is explained and the expected error is small
        enough for the images to be taken for exact.
      expected_mse: mean squared error per pixel that the curvature of the least-squares
        problem leaves room for.
      if_levels: whether the images are exact on condition that the target's pixels are
        levels of the public images; theta alone doesn't say that they are.
    """

    images: np.ndarray
    labels: np.ndarray
    residual: float
    explained: bool
    certified: bool
    expected_mse: float
    if_levels: bool = False
