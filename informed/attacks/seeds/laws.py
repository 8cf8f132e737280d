"""The random word of which a weight is made, found by comparing.

PyTorch, NumPy and scikit-learn draw uniform weights as low + (high - low) * word: an
affine function of one word of the generator, or of its low 24 bits. A few seeds whose
theta_0 and words are both known tell which. Other laws (normal weights) are not found;
then what else there is must do (`recovery`).
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

from informed.attacks.seeds import generators

# Seeds that a law is fitted to. More of them make a chance correlation with one of the
# words rarer, and cost one theta_0 each.
SEEDS = 24
# A law may leave this share of its slope unexplained; float32 weights leave 1e-7.
_UNEXPLAINED = 1e-6
# Masks of the bits of a word that a weight may be made of: all, or the low 24, which
# PyTorch takes for float32.
MASKS = (2**32 - 1, 2**24 - 1)
# Name of a generator -> (position -> its word for many seeds, compiled; seed -> all
# words, by the library itself).
KNOWN: dict[str, tuple[Callable, Callable]] = {
    "mt19937": (generators.mt19937, generators.mt19937_words),
    "pcg64": (generators.pcg64, generators.pcg64_words),
}


@dataclasses.dataclass(frozen=True)
class Law:
    """Element of theta_0 = offset + slope * (word & mask), to float32 rounding.

    Attributes:
      element: position of the weight in theta_0.
      position: number of the random word, counted from the first after seeding.
      mask: bits of the word that the weight is made of.
      offset: the weight where those bits are 0.
      slope: change of the weight per unit of the word, not 0.
    """

    element: int
    position: int
    mask: int
    offset: float
    slope: float

    def bounds(
        self, low: Float[np.ndarray, " n"], high: Float[np.ndarray, " n"]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the words whose weights lie in [low, high], as uint32 (first, last).

        Where there are none, first is larger than last.
        """
        ends = np.stack([low, high]).astype(np.float64)
        first, last = np.sort((ends - self.offset) / self.slope, axis=0)
        first, last = np.ceil(first), np.floor(last)
        none = (last < first) | (last < 0) | (first > self.mask)
        first = np.where(none, 1, np.clip(first, 0, self.mask))
        last = np.where(none, 0, np.clip(last, 0, self.mask))
        return first.astype(np.uint32), last.astype(np.uint32)


def find(
    generator: str,
    theta: Callable[[int], np.ndarray],
    elements: Int[np.ndarray, " elements"],
    seeds: Sequence[int],
) -> list[Law]:
    """Find the laws of those elements that have one, in the order of their words.

    Args:
      generator: "mt19937" or "pcg64".
      theta: seed -> theta_0.
      elements: positions in theta_0 to look at.
      seeds: seeds to draw for this, at least 12; they needn't be of the family that is
        searched.
    """
    seeds = [int(seed) for seed in seeds][:SEEDS]
    values = np.stack([theta(seed)[elements] for seed in seeds]).astype(np.float64)
    raw = np.stack([KNOWN[generator][1](seed) for seed in seeds])
    spread = values.std(axis=0)
    varied = np.flatnonzero(spread > 0)
    laws: dict[int, Law] = {}
    for mask in MASKS:
        # The word that each weight correlates with best, over the seeds.
        words = (raw & np.uint32(mask)).astype(np.float64)
        centred = words - words.mean(axis=0)
        scaled = centred / np.maximum(centred.std(axis=0), 1e-300)
        targets = (values - values.mean(axis=0))[:, varied] / spread[varied]
        correlation = scaled.T @ targets / len(seeds)  # (words, elements)
        best = np.abs(correlation).argmax(axis=0)
        for column, position in enumerate(best):
            rest = np.sqrt(max(0.0, 1 - correlation[position, column] ** 2))
            if rest > np.sqrt(_UNEXPLAINED):
                continue
            element, weights = int(elements[varied[column]]), values[:, varied[column]]
            # The affine law, and whether it leaves rounding alone.
            slope, offset = np.polyfit(words[:, position] / mask, weights, 1)
            residual = weights - offset - slope * words[:, position] / mask
            if np.abs(residual).max() <= _UNEXPLAINED * abs(slope):
                law = Law(element, int(position), mask, offset, slope / mask)
                laws.setdefault(element, law)
    return sorted(laws.values(), key=lambda law: law.position)
