"""Data types of the inversion: release, start, problem, candidate and certificate.

`starting_images` makes starts and `shared_measurements` problems; `solving` and
`cloud_search` search for candidates; `certificate` judges them.

    A(D_- + z) = theta

A is the training algorithm, D_- the known images, theta the released weights and z the
unknown points.
"""

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from informed.attacks import quantisation
from informed.attacks.inversion.coordinates import Space
from informed.attacks.inversion.gauss_newton import Slopes
from informed.attacks.inversion.inversion_config import InversionConfig
from informed.attacks.inversion.known_images import KnownImages
from informed.attacks.inversion.retraining import Retraining
from informed.attacks.inversion.weight_noise import Independent
from shadow.known import Known
from shadow.threat import Release

# A squared residual of at most this many times that of the noise is explained by it.
NOISE_FACTOR = 10.0
LabelRows = Int[np.ndarray, "candidates unknown"]


@dataclasses.dataclass(frozen=True, eq=False)
class Published:
    """The weights of one release, and known pixels of its target."""

    theta: Float[np.ndarray, " params"]  # float64
    # Standard deviations of the rounding of published numbers; None: there is none.
    deviations: Float[np.ndarray, " params"] | None
    known: Known | None = None  # pixels of the target that the adversary knows

    @classmethod
    def of(cls, release: Release, i: int, known: Known | None = None) -> "Published":
        """Take release number i, and the known pixels of its target."""
        theta = release.weights[i].astype(np.float64)
        deviations = quantisation.deviations(release, i)
        return cls(theta, deviations, None if known is None else known.at(i))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """Images and labels at which a search begins."""

    labels: Int[np.ndarray, " unknown"]
    images: Float[np.ndarray, "unknown height width channels"]
    # Whether to continue for small gains, because other starts promise less.
    patient: bool
    # Derivatives there along the first components; None: unknown.
    jacobian: Float[np.ndarray, "params components"] | None = None
    # Whether columns that never vary among known images may move too, for targets with
    # a value that no known record has.
    free: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Unknown points of given labels, to be reconstructed from one release."""

    published: Published
    runs: Retraining
    space: Space  # of the unknown points, with their labels
    # Bound on |u|, in standard deviations per component. No image of this kind is
    # farther from the mean, and training there is uninformative.
    reach: float
    known: KnownImages
    config: InversionConfig

    def thetas(self, us: np.ndarray) -> Float[np.ndarray, "points params"]:
        """Train with the images at several values of u; return theta of each."""
        labels = np.tile(self.space.labels, (len(us), 1))
        return self.runs.thetas(self.space.images(us), labels)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """The result of a search, not yet judged by `certificate`."""

    u: Float[np.ndarray, " unknowns"]  # coordinates of the images
    slopes: Slopes  # of whitened theta around them
    # The noise around the start, which is the unit of the slopes; None: theta scatters
    # because of unknown randomness.
    noise: Independent | None = None
    limit: float = np.inf  # squared residual above which rounding does not explain it


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """A reconstruction of one release's unknown points, with the evidence for it."""

    images: Float[np.ndarray, "unknown height width channels"]  # float32, not clipped
    labels: Int[np.ndarray, " unknown"]  # the labels that the search assumed
    residual: float  # squared distance between theta and A(D_- + images)
    explained: bool  # whether rounding and published noise explain the residual
    # Whether also the expected error is so small that the images count as exact.
    certified: bool
    # Mean squared error per pixel that the curvature of the problem leaves room for.
    expected_mse: float
    # Whether the images are exact on condition that the target's pixels are levels of
    # the known images, which theta alone doesn't show.
    if_levels: bool = False
