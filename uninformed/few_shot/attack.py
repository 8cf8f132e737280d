"""The records of a few-shot head, by inverting its training.

THREAT: sees the weights; knows encoder, recipe and other records of the same
distribution; of the training set its size alone.

1. The weights are A X plus what is left of W_0, and columns of A sum to zero. So with
   P = Q' A, Q an orthonormal basis of what sums to zero, R = Q' W = P X: given P, all
   of X is told but one multiple for each coordinate, the common shift.
2. Records of a ReLU's outputs are zero in many coordinates. The shift is the one by
   which they are, weighed by how likely each is to be zero; where zeros are rare, it
   follows the other coordinates' by their covariance.
3. P is what training makes of X: Gauss-Newton, damped, solves P(X(P)) = P, from the
   class means and from drawn records; the start that ends nearest is taken.

Of several records of a class their weighted mean is looked for: A has one independent
row less than classes, whatever the number of records.

Source: ours, beside Maciazek and Allison 2025 (arXiv 2505.14323).
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from shadow import checks
from uninformed.few_shot import heads
from uninformed.few_shot.heads import Head, Recipe
from uninformed.few_shot.prior import Prior

# Chosen on 24 heads on AlexNet's embeddings of the first 9,000 images of CIFAR-10 and
# their next: the first step is a good one, and 20 end where 40 do.
# The residual that the first step takes for granted; how often zeros and shift decide
# each other, of which six were worse than two, tried before all shifts were; and a
# probability that stands for none, so that logarithms are finite.
_BEFORE, _ROUNDS, _NEVER = 0.1, 2, 1e-12
_DAMPING, _EASIER, _HARDER, _TRIALS = 1e-2, 0.2, 5.0, 6


@dataclasses.dataclass(frozen=True, kw_only=True)
class FewShotConfig:
    """How hard to try.

    Attributes:
      starts: of the search; the first is the class means. On AlexNet's embeddings the
        first ended right for less than half of 24 heads, six for about two thirds.
      steps: of Gauss-Newton from each start.
    """

    starts: int = 6
    steps: int = 20

    def __post_init__(self) -> None:
        checks.at_least("starts", self.starts, 1)
        checks.at_least("steps", self.steps, 1)


class Found(NamedTuple):
    """What a head tells of its training set.

    Attributes:
      records: the mean of each class's records.
      residual: by how much training on these misses the weights, relative to A.
    """

    records: Float[np.ndarray, "classes dimensions"]
    residual: float


def reconstruct(
    head: Head,
    recipe: Recipe,
    prior: Prior,
    known: Float[np.ndarray, "known dimensions"],
    labels: Int[np.ndarray, " known"],
    config: FewShotConfig,
    rng: np.random.Generator,
) -> Found:
    """The mean embedding of each class in the training set of a head.

    Args:
      head: as released.
      recipe: how it was trained.
      prior: `prior.fit` of the known records.
      known: records of the same distribution, from which starts are drawn.
      labels: of these.
      config: how hard to try.
      rng: draws the starts.
    """
    problem = _Problem(head, recipe, prior)
    best: Found | None = None
    for start in range(config.starts):
        records = prior.expected
        if start:
            drawn = [
                known[rng.choice(np.flatnonzero(labels == one), recipe.shots)].mean(0)
                for one in range(recipe.classes)
            ]
            records = np.stack(drawn)
        found = problem.solved(problem.mixing_of(records), config.steps)
        if best is None or found.residual < best.residual:
            best = found
    assert best is not None
    return best


class _Problem:
    """A head's equation P(X(P)) = P."""

    def __init__(self, head: Head, recipe: Recipe, prior: Prior) -> None:
        self.recipe, self.prior = recipe, prior
        self.labels = np.arange(recipe.classes)
        # What coordinates of records are like: their root mean square.
        self.size = float(np.sqrt((prior.expected**2).mean()))
        # An orthonormal basis of what sums to zero: (classes, classes - 1).
        self.basis = np.linalg.svd(np.ones((1, recipe.classes)))[2][1:].T
        self.seen = self.basis.T @ head.weights
        self.biases = self.basis.T @ head.biases

    def mixing_of(self, records: np.ndarray) -> np.ndarray:
        """P of records."""
        given, _ = heads.coefficients(records @ records.T, self.labels, self.recipe)
        return self.basis.T @ given

    def solved(self, mixing: np.ndarray, steps: int) -> Found:
        """Gauss-Newton from a P."""
        damping, error = _DAMPING, _BEFORE
        for _ in range(steps):
            shown = _Shown(self, mixing, error)
            residual, slopes = self._missed(mixing, shown, slopes=True)
            error = float(np.linalg.norm(residual))
            normal, downhill = slopes @ slopes.T, slopes @ residual
            scale = np.diag(np.diag(normal))
            for _ in range(_TRIALS):
                move = np.linalg.solve(normal + damping * scale, downhill)
                tried = mixing - move.reshape(mixing.shape)
                left, _ = self._missed(tried, shown)
                if left @ left < residual @ residual:
                    mixing, damping = tried, damping * _EASIER
                    break
                damping *= _HARDER
            else:
                break
        shown = _Shown(self, mixing, error)
        left, _ = self._missed(mixing, shown)
        return Found(shown.means(mixing), float(np.linalg.norm(left)))

    def _missed(
        self, mixing: np.ndarray, shown: "_Shown", *, slopes: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """What training on X(P) misses of P and of the biases; by each entry of P."""
        records, moved = shown.records(mixing, slopes=slopes)
        along = None
        if slopes:
            half = moved @ records.T
            along = half + half.swapaxes(1, 2)
        given, turned = heads.coefficients(
            records @ records.T, self.labels, self.recipe, along=along
        )
        size = np.linalg.norm(mixing)
        made = self.basis.T @ given
        missed = np.concatenate(
            [(made - mixing).ravel(), made.sum(axis=1) - self.biases]
        )
        if turned is None:
            return missed / size, np.empty(0)
        turned = self.basis.T @ turned
        biases = turned.sum(axis=2)
        entries = turned.reshape(len(turned), -1) - np.eye(len(turned))
        return missed / size, np.concatenate([entries, biases], axis=1) / size


class _Shown:
    """Which coordinates are taken for zero at a P, and X(P) near it."""

    def __init__(self, problem: _Problem, mixing: np.ndarray, error: float) -> None:
        self.problem, prior = problem, problem.prior
        inverse, direction, apart = self._parts(mixing)
        noise = problem.recipe.noise**2 * (inverse[:, :-1] ** 2).sum(axis=1)
        # P is as wrong as training on X(P) misses it.
        noise = noise + (error * problem.size) ** 2
        self.noise = noise[:, None] + direction[:, None] ** 2 * prior.loose
        self.weight = 1 / (prior.variance + self.noise)
        # Each shift that makes a record zero, and the one by the means of all.
        by_means = self._shift(
            direction, apart, (1 - prior.zero + _NEVER) * self.weight, prior.mean
        )
        tried = np.concatenate([-apart / direction[:, None], by_means[None]])
        likely = [self._densities(apart + direction[:, None] * one) for one in tried]
        total = np.stack([np.logaddexp(*each).sum(axis=0) for each in likely])
        shift = np.take_along_axis(tried, total.argmax(axis=0)[None], axis=0)[0]
        for _ in range(_ROUNDS):
            self.positive = self._likely(apart + direction[:, None] * shift)
            shift = self._whole(direction, apart)

    def records(
        self, mixing: np.ndarray, *, slopes: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """X at a P, and its derivatives by each entry of P."""
        inverse, direction, apart = self._parts(mixing)
        shift = self._whole(direction, apart)
        found = apart + direction[:, None] * shift
        if not slopes:
            return self.positive * found, np.empty(0)
        # d inverse = - inverse dP inverse: one for each entry (row, record) of P.
        rows, size = mixing.shape
        row, record = (each.ravel() for each in np.indices((rows, size)))
        lines = -inverse[:, row].T
        of_apart = lines[:, :, None] * apart[record][:, None, :]
        of_direction = lines * direction[record][:, None]
        of_shift = self._moved(direction, apart, of_direction, of_apart)
        moved = (
            of_apart
            + of_direction[:, :, None] * shift
            + direction[:, None] * of_shift[:, None, :]
        )
        return self.positive * found, self.positive * moved

    def means(self, mixing: np.ndarray) -> np.ndarray:
        """What is expected of X, given theta and the prior."""
        _, direction, apart = self._parts(mixing)
        found = apart + direction[:, None] * self._whole(direction, apart)
        variance = self.problem.prior.variance
        drawn = found * variance + self.problem.prior.mean * self.noise
        return (
            self.positive
            * np.where(self.problem.prior.zero > 0, np.maximum(drawn, 0), drawn)
            / (variance + self.noise)
        )

    def _parts(self, mixing: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inverse of P with a row of ones; the shift's direction; X without shift."""
        size = mixing.shape[1]
        ones = np.full((1, size), size**-0.5)
        inverse = np.linalg.inv(np.concatenate([mixing, ones]))
        return inverse, inverse[:, -1], inverse[:, :-1] @ self.problem.seen

    def _likely(self, found: np.ndarray) -> np.ndarray:
        """Probability that each coordinate is positive."""
        drawn, none = self._densities(found)
        return 1 / (1 + np.exp(np.clip(none - drawn, -50, 50)))

    def _densities(self, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of the densities of positive coordinates, and of zero ones."""
        prior = self.problem.prior
        variance = prior.variance + self.noise
        drawn = np.log1p(-prior.zero + _NEVER) - 0.5 * (
            (found - prior.mean) ** 2 / variance + np.log(variance)
        )
        # What a ReLU gives isn't negative; encoders without one have no zeros.
        below = special.log_ndtr(found / np.sqrt(self.noise))
        drawn = drawn + np.where(prior.zero > 0, below, 0)
        none = np.log(prior.zero + _NEVER) - 0.5 * (
            found**2 / self.noise + np.log(self.noise)
        )
        return drawn, none

    def _lines(self) -> np.ndarray:
        """Weight of each record in the shift of each coordinate."""
        return self.positive * self.weight + (1 - self.positive) / self.noise

    def _whole(self, direction: np.ndarray, apart: np.ndarray) -> np.ndarray:
        """The common shift of each coordinate."""
        prior = self.problem.prior
        wanted = self.positive * prior.mean
        shift = self._shift(direction, apart, self._lines(), wanted)
        usual = self._shift(direction, apart, np.ones_like(apart), prior.expected)
        late = (shift - usual)[prior.sure]
        shift[~prior.sure] = usual[~prior.sure] + prior.others @ late
        return shift

    def _shift(
        self,
        direction: np.ndarray,
        apart: np.ndarray,
        lines: np.ndarray,
        wanted: np.ndarray,
    ) -> np.ndarray:
        """Least squares of `wanted` by a multiple of the direction."""
        above = (lines * direction[:, None] * (wanted - apart)).sum(axis=0)
        return above / (lines * direction[:, None] ** 2).sum(axis=0)

    def _moved(
        self,
        direction: np.ndarray,
        apart: np.ndarray,
        of_direction: np.ndarray,
        of_apart: np.ndarray,
    ) -> np.ndarray:
        """Derivatives of `_whole`."""
        prior, lines = self.problem.prior, self._lines()

        def slopes(lines: np.ndarray, wanted: np.ndarray) -> np.ndarray:
            below = (lines * direction[:, None] ** 2).sum(axis=0)
            shift = self._shift(direction, apart, lines, wanted)
            above = np.einsum("in,nd->id", of_direction, lines * (wanted - apart))
            above -= np.einsum("n,nd,ind->id", direction, lines, of_apart)
            turned = 2 * np.einsum("in,n,nd->id", of_direction, direction, lines)
            return (above - turned * shift) / below

        moved = slopes(lines, self.positive * prior.mean)
        usual = slopes(np.ones_like(lines), prior.expected)
        late = (moved - usual)[:, prior.sure]
        moved[:, ~prior.sure] = usual[:, ~prior.sure] + late @ prior.others.T
        return moved
