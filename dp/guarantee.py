"""What every mechanism can be asked: gamma, epsilon, delta, advantage, trade-off."""

import abc

import numpy as np
from jaxtyping import Float

from dp import bounds, domain
from dp.domain import Number, Numbers

Bounds = dict[str, bounds.Logs]


class Guarantee(abc.ABC):
    """The questions that are answered alike for every mechanism.

    All answers are on the safe side, under the mechanism's relation. epsilon, delta and
    advantage are of both directions: who sees the release can tell neither that the
    record was there nor that it wasn't.
    """

    @abc.abstractmethod
    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return log gamma by the name of the bound; log_kappa of any shape."""

    @abc.abstractmethod
    def epsilon(self, delta: Number) -> float:
        """Return the least epsilon at delta that is certified; infinite: none is."""

    @abc.abstractmethod
    def delta(self, epsilon: Number) -> float:
        """Return the least delta at epsilon >= 0 that is certified."""

    def advantage(self) -> float:
        """Bound the total variation distance: true minus false positives of any test.

        Who guesses whether the record was there, at even odds, is right with a
        probability of at most (1 + advantage) / 2.
        """
        return self.delta(0.0)

    def tradeoff(self, alpha: Numbers) -> Float[np.ndarray, "..."]:
        """Bound the false negatives of every test from below, given false positives.

        A test says whether the release is of training with the target (positive) or of
        the reference that the relation names. It is 1 - gamma at kappa = alpha.

        Args:
          alpha: the test's probability of a false positive, of any shape.
        """
        rates = domain.probability("alpha", alpha)
        with np.errstate(divide="ignore"):
            logs = np.log(rates)
        # A registered bound is of reconstruction, and may say nothing of tests.
        least = np.min([*np.broadcast_arrays(*self.bounds(logs).values())], axis=0)
        return np.asarray(-np.expm1(np.clip(least, logs, 0.0)))
