"""Inverting the training itself: exact reconstruction without a shadow model.

THREAT: knows D_-, the training algorithm A and its initialisation (and, for
mini-batches, their order), and has public images. White-box release. The label may be
unknown.

A is deterministic and differentiable, so the target is the solution of

    min_z |A(D_- + z) - theta|^2

found by damped Gauss-Newton (`gauss_newton`) through the whole training run
(`retraining`). What makes it work:

- z in principal components of public images, scaled by their standard deviations: a
  Gaussian prior, and a well-conditioned problem (`coordinates`). Few components first,
  all pixels last; the map bends too much for a start in all of them.
- Pixels that are black in all of D_-, and whose weights the release left where training
  without the target leaves them, are black in the target; if not, they are certainly
  lit. (With Adam theta jumps between.)
- The start is the mean image of a class. The derivatives there are shared by all
  releases: they rank the candidate labels, and are the first step's Jacobian. Where it
  leads nowhere, as for outliers, the next starts are read out of theta by a kernel
  regression on a few hundred public images that were trained on.

Where theta_0 isn't told but the family of seeds it was drawn from is, the seed of each
release is searched first (`informed.attacks.seeds`); the rest is as if it were told.

The certificate: at a true target the residual is the rounding noise of A, which the
adversary measures by training again with z changed in its last digits. So they know
*without the target* whether the reconstruction is exact.

Where the released numbers are rounded (`Release.deviations`) or A draws randomness that
isn't told, residuals are weighted by the covariance of that noise, the latter estimated
by training repeatedly, and the Gaussian prior enters: the maximum a posteriori. The
spread of the posterior is reported as `expected_mse`.

Source: ours. The key draws the randomness of A that isn't told, and further starts;
all else is deterministic.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import threadpoolctl
from jaxtyping import Array, Int

from informed.attacks import seeds
from informed.attacks.inversion.candidate import Candidate, Published
from informed.attacks.inversion.config import InversionConfig
from informed.attacks.inversion.solver import Solver
from shadow import bars, checks, devices
from shadow.known import UNUSED
from shadow.threat import Knowledge, Reconstruction, Release


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inversion:
    """The attack; see the module's docstring.

    Attributes:
      config: how hard to try.
      progress: whether to show a bar.
    """

    config: InversionConfig = dataclasses.field(default_factory=InversionConfig)
    progress: bool = False

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """Reconstruct the target of every release, one after the other.

        Args:
          release: trained models.
          knowledge: needs fixed and algorithm. An initialisation or order of
            mini-batches that isn't told is drawn `draws` times, unless seeds are told
            and that of the release is found. Uses public, labels and known where they
            are told.
        Returns: images, not cut to [0, 1]; labels and their margins; squared residuals;
          certified; expected_mse.
        Raises: ValueError: a fact that it needs is None, weights of another victim, or
          not one label a release.
        """
        return Reconstruction.joined(list(self.each(release, knowledge, key=key)))

    def each(
        self, release: Release, knowledge: Knowledge, *, key: Array, first: int = 0
    ) -> Iterator[Reconstruction]:
        """Reconstruct target after target, for runs that may be cut off.

        The answer for a release doesn't depend on the others.

        Args: as for `__call__`, and
          first: the release to begin at, where a run that was cut off goes on.
        Yields: the reconstruction of one target.
        """
        knowledge.require(release, "fixed", "algorithm")
        solver_of = self._solvers(release, knowledge, key)
        for i in bars.bar(
            range(first, len(release.weights)),
            desc="inversion",
            unit=" targets",
            show=self.progress,
        ):
            published, margins = Published.of(release, i, knowledge.known), None
            solver = solver_of(i)
            before = solver.runs.runs
            with _one_thread():
                if knowledge.labels is None:
                    labels, margin = solver.ranking.labels(published.theta)
                    margins = np.array([margin])
                else:
                    labels = knowledge.labels[i : i + 1]
                best = _first_explained(solver.attempts(published, labels[:, None]))
            yield dataclasses.replace(
                _reconstruction(best),
                label_margins=margins,
                trainings=np.array([solver.runs.runs - before]),
            )

    def _solvers(
        self, release: Release, knowledge: Knowledge, key: Array
    ) -> Callable[[int], Solver]:
        """Number of a release -> its solver, one for all if they share theta_0.

        Where the seed of theta_0 isn't told it is searched; releases whose seed is
        found are inverted as if it were told.
        """
        if not _seed_is_missing(knowledge):
            return _by_start(self.config, knowledge, key)
        family = knowledge.seeds
        assert family is not None
        recovered = seeds.recover(
            release, knowledge, key=jax.random.fold_in(key, 1), progress=self.progress
        )
        untold = _by_start(self.config, knowledge, key)
        if (recovered == seeds.NOT_FOUND).all():
            return untold
        if seeds.makes_its_own_start(knowledge):

            @functools.lru_cache(maxsize=1)
            def with_key(release: int) -> Solver:
                own = family.own_key(int(recovered[release]))
                told = dataclasses.replace(knowledge, training_key=own)
                return Solver(self.config, told, key)

            known: Callable[[int], Solver] = with_key
        else:
            starts = np.stack([family.theta(max(int(s), 0)) for s in recovered])
            told = dataclasses.replace(knowledge, initialisation=starts)
            known = _by_start(self.config, told, key)
        return lambda i: untold(i) if recovered[i] == seeds.NOT_FOUND else known(i)

    def several(
        self,
        release: Release,
        knowledge: Knowledge,
        labels: Int[np.ndarray, "releases unknown"],
        *,
        key: Array,
    ) -> Iterator[Reconstruction]:
        """Reconstruct several unknown training points of every release, together.

        Args:
          release: models trained on D_- and the unknown points. With mini-batches, the
            unknown points are the last of the training set, in the order of `labels`.
          knowledge: what the adversary is told; needs fixed and algorithm.
          key: draws the randomness of A that isn't told, and further starts.
          labels: the labels of the unknown points of each release.
        Yields: one per release, whose rows are the unknown points. Points of one label
          may come in any order.
        """
        knowledge = dataclasses.replace(knowledge, labels=None)
        knowledge.require(release, "fixed", "algorithm")
        if knowledge.known is not None:
            raise checks.FieldError("known", UNUSED.format("several"))
        if len(labels) != len(release):
            raise ValueError(
                f"Expected one row of labels per release, {len(release)}, got"
                f" {len(labels)}."
            )
        solver_of = self._solvers(release, knowledge, key)
        for i, row in enumerate(labels):
            attempts = solver_of(i).attempts(Published.of(release, i), row[None])
            with _one_thread():
                best = _first_explained(attempts)
            yield _reconstruction(best)


def _one_thread() -> contextlib.AbstractContextManager[Any]:
    """One thread for NumPy's products, for as long as it is entered.

    OpenBLAS's threads spin for a while after a product, and trainings that follow on
    the same cores are slower: four of MNIST took 100 ms in place of 70. The products
    themselves are a hundredth of these. SciPy's library keeps its threads, since JAX
    solves by it, and theta's last bits may depend on their number.
    """
    if not devices.cache_bound():
        return contextlib.nullcontext()
    found = threadpoolctl.ThreadpoolController()
    own = [
        each["filepath"]
        for each in found.info()
        if any(part.startswith("numpy") for part in Path(each["filepath"]).parts)
    ]
    return found.select(filepath=own).limit(limits=1)


def _seed_is_missing(knowledge: Knowledge) -> bool:
    """Whether there is a family of seeds, and what they decide isn't told."""
    if knowledge.seeds is None:
        return False
    if seeds.makes_its_own_start(knowledge):
        return knowledge.training_key is None
    return knowledge.initialisation is None


def _by_start(
    config: InversionConfig, knowledge: Knowledge, key: Array
) -> Callable[[int], Solver]:
    """One solver for all releases, or, where each has its theta_0, one for each."""

    @functools.cache
    def first() -> Solver:
        return Solver(config, knowledge, key)

    @functools.lru_cache(maxsize=1)
    def own(release: int) -> Solver:
        runs = first().runs.at(release)
        return Solver(config, knowledge, key, runs)

    start = knowledge.initialisation
    shared = start is None or np.ndim(start) == 1
    return lambda release: first() if shared else own(release)


def _reconstruction(best: Candidate) -> Reconstruction:
    """A candidate as a reconstruction, one row per unknown point."""
    rows = len(best.labels)
    return Reconstruction(
        images=best.images,
        labels=best.labels,
        residuals=np.full(rows, best.residual),
        certified=np.full(rows, best.certified),
        exact_if_levels=np.full(rows, best.if_levels),
        expected_mse=np.full(rows, best.expected_mse),
    )


def _first_explained(candidates: Iterator[Candidate]) -> Candidate:
    """The first candidate that explains theta, or else the one of least residual."""
    tried = []
    for candidate in candidates:
        if candidate.explained:
            return candidate
        tried.append(candidate)
    # A residual that isn't told is NaN.
    return min(tried, key=lambda each: each.residual if each.residual >= 0 else np.inf)
