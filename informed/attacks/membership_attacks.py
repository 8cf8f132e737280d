"""Membership inference by an informed adversary: which of two records was trained on?

`games.membership_game` plays both. THREAT: knows the known records D_-, the training
algorithm A and the two candidates. `ReconstructionMembership` also needs what its
reconstruction attack needs: reconstruction implies membership inference.

Source: Balle et al. 2022, Section II-D and Algorithm 2.
"""

import dataclasses

import jax
import numpy as np
from jaxtyping import Array, Int

from informed.attacks.inversion.retraining import Programs, Retraining
from shadow import checks
from shadow.data import Examples
from shadow.threat import Attack, Knowledge, Release

# Models trained at once; affects speed and memory only.
_WIDTH = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class RetrainingMembership:
    """Train with both candidates, and name the one of the nearer model.

    Attributes:
      draws: number of draws of A's unknown randomness, of which the mean model counts.
    """

    draws: int = 16

    def __post_init__(self) -> None:
        checks.at_least("draws", self.draws, 1)

    def __call__(
        self,
        release: Release,
        knowledge: Knowledge,
        candidates: tuple[Examples, Examples],
        *,
        key: Array,
    ) -> Int[np.ndarray, " releases"]:
        """Guess members as `MembershipAttack` does; needs fixed and algorithm."""
        knowledge.require(release)
        _require_pairs(release, candidates)
        programs = Programs(knowledge, width=_WIDTH, draws=self.draws, key=key)
        runs, starts = Retraining(programs), programs.initialisations

        def thetas(records: Examples) -> np.ndarray:
            images, labels = records.images[:, None], records.labels[:, None]
            if starts is None or len(starts) == 1:
                return runs.thetas(images, labels)
            # Every release is retrained from its own theta_0.
            rows = [slice(i, i + 1) for i in range(len(images))]
            return np.concatenate(
                [runs.at(r.start).thetas(images[r], labels[r]) for r in rows]
            )

        distances = [
            np.sum((thetas(records) - release.weights) ** 2, axis=1)
            for records in candidates
        ]
        # A candidate with which training diverges is ruled out.
        first, second = (np.where(np.isfinite(d), d, np.inf) for d in distances)
        return (second < first).astype(np.int64)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReconstructionMembership:
    """Reconstruct, and name the candidate that is nearer to the reconstruction.

    Attributes:
      attack: the reconstruction attack whose guess is compared.
    """

    attack: Attack

    def __call__(
        self,
        release: Release,
        knowledge: Knowledge,
        candidates: tuple[Examples, Examples],
        *,
        key: Array,
    ) -> Int[np.ndarray, " releases"]:
        """Guess members as `MembershipAttack` does; needs what `self.attack` needs."""
        _require_pairs(release, candidates)
        guess = self.attack(release, knowledge, key=key)
        # Mean squared distance of each guess from a candidate, per pixel.
        pixels = tuple(range(1, guess.images.ndim))
        first, second = (
            np.mean(
                (records.images.astype(np.float64) - guess.images) ** 2, axis=pixels
            )
            for records in candidates
        )
        # Ties, and missing guesses, are decided by the label, else by a coin.
        coins = jax.random.bernoulli(jax.random.fold_in(key, 1), shape=first.shape)
        chosen = np.asarray(coins).astype(np.int64)
        if guess.labels is not None:
            right = [guess.labels == records.labels for records in candidates]
            chosen = np.where(right[0] == right[1], chosen, right[1])
        return np.where(second < first, 1, np.where(first < second, 0, chosen))


def _require_pairs(release: Release, candidates: tuple[Examples, Examples]) -> None:
    counts = [len(release), *map(len, candidates)]
    if len(set(counts)) > 1:
        raise ValueError(
            f"Expected two candidates for each of {counts[0]} releases, got"
            f" {counts[1]} and {counts[2]}."
        )
