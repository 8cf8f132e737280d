"""The inversion attack: exact reconstruction by solving training for the target.

THREAT: knows the known records D_- and the training algorithm A; for exact results also
its initialisation theta_0 and the order of mini-batches. Uses public images. White-box
release: the weights theta. The label may be unknown. The registry builds it by `make`;
users call `informed.Inversion`.

If A is deterministic, the target z minimises |A(D_- + z) - theta|^2. It is found by
damped Gauss-Newton through the whole training run, or by clouds of trainings; see
docs/inversion.md. At the true target the residual is the rounding of A, which the
adversary measures by training again. So they know *without the target* whether the
reconstruction is exact (`certificate`).

If the released numbers are rounded (`Release.deviations`) or A has unknown randomness,
residuals are weighted by the covariance of that noise, and the result is the most
probable target under a Gaussian prior; `expected_mse` is its posterior variance. The
seed of an unknown theta_0 is searched first, if the family of seeds is known.

Source: ours. The key draws the unknown randomness of A and further starts; all else is
deterministic.
"""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import threadpoolctl
from jaxtyping import Array, Int

from informed.attacks import seeds
from informed.attacks.attack_row import Material, OneByOne
from informed.attacks.inversion import cloud_search
from informed.attacks.inversion.certificate import certify
from informed.attacks.inversion.inversion_config import InversionConfig
from informed.attacks.inversion.problem import (
    NOISE_FACTOR,
    Certificate,
    LabelRows,
    Published,
)
from informed.attacks.inversion.shared_measurements import SharedMeasurements
from informed.attacks.inversion.solving import solve
from informed.attacks.inversion.starting_images import (
    likely_labels,
    near_starts,
    starts,
)
from shadow import bars, checks, devices
from shadow.known import UNUSED
from shadow.threat import Knowledge, Reconstruction, Release

# Largest number of unknowns for which clouds follow if derivatives fail; with more, a
# cloud costs too many trainings.
_MOST_UNKNOWNS = 1000
# Clouds follow from where derivatives end if the residual is below this share of all
# earlier ones.
_NEARER = 0.1
# Share of the attack's time that sets the number of neighbours and of noise draws;
# smallest and largest number of neighbours.
_OF_NOISE, _NEIGHBOURS = 0.1, (20, 600)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inversion(OneByOne):
    """The inversion attack; see the module's docstring."""

    config: InversionConfig = dataclasses.field(default_factory=InversionConfig)
    progress: bool = False

    def each(
        self, release: Release, knowledge: Knowledge, *, key: Array, first: int = 0
    ) -> Iterator[Reconstruction]:
        """Yield the target of one release after the other.

        The reconstruction of a release doesn't depend on the others.

        Args:
          knowledge: needs fixed and algorithm. An unknown initialisation or order of
            mini-batches is drawn `draws` times, unless the family of seeds is known and
            the release's seed is recovered. Uses public, labels and known if given.
          first: the release to begin at.
        Yields: images, not clipped to [0, 1]; labels and their margins; squared
          residuals; certified; exact_if_levels; expected_mse; trainings.
        Raises: ValueError: needed knowledge is None, the weights are of another victim,
          or there isn't one label per release.
        """
        knowledge.require(release, "fixed", "algorithm")
        rows = range(first, len(release))
        rows = bars.bar(rows, desc="inversion", unit=" targets", show=self.progress)
        labels = knowledge.labels
        labels = None if labels is None else labels[:, None]
        yield from self._reconstructions(release, knowledge, labels, key, rows)

    def several(
        self,
        release: Release,
        knowledge: Knowledge,
        labels: Int[np.ndarray, "releases unknown"],
        *,
        key: Array,
    ) -> Iterator[Reconstruction]:
        """Yield several unknown training points of each release, for users.

        Args:
          release: models trained on D_- and the unknown points. With mini-batches, the
            unknown points are the last of the training set, in the order of `labels`.
          labels: the labels of the unknown points of each release.
        Yields: one per release, whose rows are the unknown points. Points of one label
          may come in any order.
        """
        knowledge = dataclasses.replace(knowledge, labels=None)
        knowledge.require(release, "fixed", "algorithm")
        if knowledge.known is not None:
            raise checks.FieldError("known", UNUSED.format("several"))
        labels = np.asarray(labels)
        if labels.ndim != 2 or len(labels) != len(release):
            raise ValueError(
                f"Expected one row of labels per release, {len(release)}, got"
                f" {labels.shape}."
            )
        rows = range(len(release))
        yield from self._reconstructions(release, knowledge, labels, key, rows)

    def _reconstructions(
        self,
        release: Release,
        knowledge: Knowledge,
        labels: Int[np.ndarray, "releases unknown"] | None,
        key: Array,
        rows: Iterable[int],
    ) -> Iterator[Reconstruction]:
        """Reconstruct release after release; labels of None are ranked."""
        # Search the seed of an unknown theta_0; releases with a recovered seed are
        # inverted as if theta_0 were known.
        known = seeds.with_seeds(
            release, knowledge, key=jax.random.fold_in(key, 1), progress=self.progress
        )
        # The last measurements with a recovered seed, and the last ones without.
        last: dict[bool, SharedMeasurements] = {}
        for i in rows:
            recovered = known[i] is not knowledge
            if recovered not in last or last[recovered].knowledge is not known[i]:
                last[recovered] = SharedMeasurements(self.config, known[i], key)
            shared = last[recovered] = last[recovered].at(i)
            published, margins = Published.of(release, i, knowledge.known), None
            trained_before = shared.runs.runs
            with _one_thread():
                if labels is None:
                    likely, margin = likely_labels(shared, published.theta)
                    tried, margins = likely[:, None], np.array([margin])
                else:
                    tried = labels[i : i + 1]
                best = _best(certificates(shared, published, tried))
                if labels is None and best.certified and shared.num_classes > 1:
                    margins = np.minimum(margin, [_margin(shared, published, best)])
            points, trained = len(best.labels), shared.runs.runs - trained_before
            yield Reconstruction(
                images=best.images,
                labels=best.labels,
                residuals=np.full(points, best.residual),
                certified=np.full(points, best.certified),
                exact_if_levels=np.full(points, best.if_levels),
                expected_mse=np.full(points, best.expected_mse),
                label_margins=margins,
                trainings=np.array([trained]) if points == 1 else None,
            )


def _margin(
    shared: SharedMeasurements, published: Published, best: Certificate
) -> float:
    """Return 1 if the image explains theta under another label too, else infinity."""
    others = np.setdiff1d(np.arange(shared.num_classes), best.labels)[:, None]
    images = np.broadcast_to(best.images, (len(others), *best.images.shape))
    apart = shared.runs.thetas(images, others) - published.theta
    alike = np.sum(apart**2, axis=1) <= NOISE_FACTOR * best.residual
    return 1.0 if alike.any() else np.inf


def certificates(
    shared: SharedMeasurements, published: Published, labels: LabelRows
) -> Iterator[Certificate]:
    """Yield the judged result of one start after the other, the best start first."""
    random, dark = shared.runs.random, shared.black_and_lit(published)
    prefer_clouds = not random and shared.prefer_clouds
    few = labels.shape[1] == 1 and len(shared.known.coordinates) <= _MOST_UNKNOWNS
    clouds_follow = few and not random and shared.config.engine != "derivatives"
    if not prefer_clouds:
        least = np.inf
        for start in starts(shared, published, labels, dark):
            problem = shared.pose(published, start)
            end = solve(problem, start)
            certificate = certify(problem, end)
            yield certificate
            if clouds_follow and certificate.residual < _NEARER * least:
                yield from cloud_search.from_near(problem, start, end)
                least = certificate.residual
    if prefer_clouds or clouds_follow:
        near = near_starts(shared, published, labels, dark)
        near = itertools.islice(near, None if prefer_clouds else 1)
        yield from cloud_search.certificates(shared, published, near)


def _best(certificates: Iterator[Certificate]) -> Certificate:
    """Return the first that explains theta, or else that of least residual."""
    tried = []
    for certificate in certificates:
        if certificate.explained:
            return certificate
        tried.append(certificate)
    # The residual is NaN if training diverges.
    return min(tried, key=lambda c: c.residual if c.residual >= 0 else np.inf)


def _one_thread() -> contextlib.AbstractContextManager[Any]:
    """Limit NumPy's matrix products to one thread while entered.

    OpenBLAS's threads slow down trainings on the same cores: four of MNIST took 100 ms
    instead of 70. SciPy's library keeps its threads, since JAX solves by it, and
    theta's last bits may depend on their number.
    """
    if not devices.cache_bound():
        return contextlib.nullcontext()
    libraries = threadpoolctl.ThreadpoolController()
    paths = [library["filepath"] for library in libraries.info()]
    ours = [p for p in paths if any(x.startswith("numpy") for x in Path(p).parts)]
    return libraries.select(filepath=ours).limit(limits=1)


def make(config: InversionConfig, material: Material) -> Inversion:
    """Build the attack, with as many trainings for noise as the time allows."""
    affordable = material.affordable(_OF_NOISE)
    if affordable is not None:
        config = dataclasses.replace(
            config,
            neighbours=int(np.clip(affordable, *_NEIGHBOURS)),
            noise_draws=int(np.clip(affordable, config.draws, config.noise_draws)),
        )
    return Inversion(config=config, progress=material.progress)
