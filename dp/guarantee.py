"""The base class of mechanisms, which say how well private training hides a record.

`mechanisms`, `participation` and `published` derive theirs from `Guarantee`. `rero`,
`calibration`, `plots`, runs, audits and `informed bound` ask them questions.
"""

import abc

import numpy as np
from jaxtyping import Float

from dp import bounds, domain
from dp.domain import Number, Numbers

Bounds = dict[str, bounds.Logs]  # log gamma by the name of the bound


class Guarantee(abc.ABC):
    """What a mechanism guarantees of any attack: success (gamma), epsilon and delta.

    All numbers are on the safe side, under the mechanism's relation. epsilon, delta and
    advantage cover both directions: they limit how well an attacker who sees the
    release can tell that the record was there, and that it wasn't.
    """

    @abc.abstractmethod
    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return log gamma by the name of the bound; log_kappa of any shape."""

    @abc.abstractmethod
    def epsilon(self, delta: Number) -> float:
        """Return the least certified epsilon at delta; infinite where there is none."""

    @abc.abstractmethod
    def delta(self, epsilon: Number) -> float:
        """Return the least certified delta at epsilon >= 0."""

    def advantage(self) -> float:
        """Bound the total variation distance: true minus false positives of any test.

        An attacker who guesses whether the record was there, at even odds, is right
        with a probability of at most (1 + advantage) / 2.
        """
        return self.delta(0.0)

    def tradeoff(self, alpha: Numbers) -> Float[np.ndarray, "..."]:
        """Bound the false negatives of every test from below, given false positives.

        A test decides whether the release comes from training with the target
        (positive) or from the reference that the relation names.

        Args:
          alpha: the test's probability of a false positive, of any shape.
        """
        rates = domain.probability("alpha", alpha)
        with np.errstate(divide="ignore"):
            logs = np.asarray(np.log(rates))
        least = np.min([*np.broadcast_arrays(*self._tests(logs).values())], axis=0)
        return np.asarray(-np.expm1(np.clip(least, logs, 0.0)))

    def _tests(self, log_rates: np.ndarray) -> Bounds:
        """Bound log true positives, given log false positives: as gamma by default."""
        return self.bounds(log_rates)

    def _tests_by_delta(self, log_rates: np.ndarray) -> Bounds:
        """Bound true positives by delta, for mechanisms whose gamma bounds no test.

        Epsilons are from -40 to 40. At epsilon < 0, delta in one direction is
        1 - e^epsilon (1 - d), with d the other direction's delta at -epsilon.
        """
        above = np.concatenate([[0.0], np.geomspace(1e-3, 40.0, 300)])
        deltas = np.array([self.delta(float(epsilon)) for epsilon in above])
        below = 1 - np.exp(-above) * (1 - deltas)
        epsilons, deltas = np.append(above, -above), np.append(deltas, below)
        return {"delta": bounds.dual(log_rates, epsilons, deltas)}
