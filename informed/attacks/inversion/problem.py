"""Data types of the inversion: release, start, problem, candidate and certificate.

    A(D_- + z) = theta

A is the training algorithm, D_- the known images, theta the released weights and z the
unknown points. `starting_images` makes starts and `shared_measurements` problems;
`solving` and `cloud_search` search for candidates; `certificate` judges candidates.
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


@dataclasses.dataclass(frozen=True, eq=False)
class Published:
    """The weights of one release, and known pixels of its target.

    Attributes:
      theta: the released weights in float64.
      deviations: standard deviations of the rounding of published numbers; None: they
        are published as trained.
      known: pixels of the target that the adversary knows; None: none.
    """

    theta: Float[np.ndarray, " params"]
    deviations: Float[np.ndarray, " params"] | None
    known: Known | None = None

    @classmethod
    def of(cls, release: Release, i: int, known: Known | None = None) -> "Published":
        """Take release number i, and the known pixels of its target."""
        theta = release.weights[i].astype(np.float64)
        deviations = quantisation.deviations(release, i)
        return cls(theta, deviations, None if known is None else known.at(i))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """Images and labels at which a search begins.

    Attributes:
      labels: labels of the unknown points.
      images: the starting images.
      patient: whether to continue for small gains, because other starts promise less.
      jacobian: derivatives there along the first components; None: unknown.
      free: whether columns that never vary among known images may move too, for
        targets with a value that no known record has.
    """

    labels: Int[np.ndarray, " unknown"]
    images: Float[np.ndarray, "unknown height width channels"]
    patient: bool
    jacobian: Float[np.ndarray, "params components"] | None = None
    free: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Unknown points of given labels, to be reconstructed from one release.

    Attributes:
      published: the release.
      runs: A as the adversary runs and differentiates it.
      space: coordinates u of the unknown points, with their labels.
      reach: bound on |u|, in standard deviations per component. No image of this kind
        is farther from the mean, and training there is uninformative.
      known: D_- and public images.
      config: the attack's settings.
    """

    published: Published
    runs: Retraining
    space: Space
    reach: float
    known: KnownImages
    config: InversionConfig

    def thetas(self, us: np.ndarray) -> Float[np.ndarray, "points params"]:
        """Train with the images at several values of u; return theta of each."""
        labels = np.tile(self.space.labels, (len(us), 1))
        return self.runs.thetas(self.space.images(us), labels)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Candidate:
    """The result of a search, not yet judged by `certificate`.

    Attributes:
      u: coordinates of the images.
      slopes: derivatives of whitened theta around them.
      noise: the noise around the start, which is the unit of the slopes; None: theta
        scatters because of unknown randomness.
      limit: squared residual above which rounding does not explain it.
    """

    u: Float[np.ndarray, " unknowns"]
    slopes: Slopes
    noise: Independent | None = None
    limit: float = np.inf


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """A reconstruction of one release's unknown points, with the evidence for it.

    Attributes:
      images: float32, not clipped to [0, 1].
      labels: the labels that the search assumed.
      residual: squared distance between theta and A(D_- + images).
      explained: whether rounding and published noise explain the residual.
      certified: whether the residual is explained and the expected error is small
        enough for the images to be taken for exact.
      expected_mse: mean squared error per pixel that the curvature of the least-squares
        problem leaves room for.
      if_levels: whether the images are exact on condition that the target's pixels are
        levels of the known images, which theta alone doesn't show.
    """

    images: Float[np.ndarray, "unknown height width channels"]
    labels: Int[np.ndarray, " unknown"]
    residual: float
    explained: bool
    certified: bool
    expected_mse: float
    if_levels: bool = False
