"""Bound training by its accountant's numbers: epsilon, Renyi, rho or a privacy loss.

These mechanisms are for trainings whose noise and batches aren't known, and for Laplace
noise. Users make them from such numbers; `histories`, `mechanisms` and `participation`
make some. `relation` is the neighbouring relation that the numbers were computed under
(see `bounds`). Theorems and corollaries are those of Balle, Cherubin and Hayes 2022.
"""

import abc
import dataclasses
import math
from typing import Any

import numpy as np

from dp import bounds, domain, loss_grid
from dp.domain import Number
from dp.guarantee import Bounds, Guarantee


class _Pairs(Guarantee):
    """(epsilon, delta) pairs, each of which holds.

    An (e, d)-private pair of distributions is a post-processing of randomised response
    with parameter e that fails with probability d (Kairouz, Oh and Viswanath 2015),
    whose delta(epsilon) = d + (1 - d) (e^e - e^epsilon)_+ / (1 + e^e).
    """

    @property
    @abc.abstractmethod
    def _curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Return epsilons and deltas."""

    def epsilon(self, delta: Number) -> float:
        """Return the least epsilon at delta that any single pair implies."""
        domain.between("delta", delta, 0, 1)
        epsilons, deltas = self._curve
        usable = deltas <= delta
        e, d = epsilons[usable], deltas[usable]
        with np.errstate(divide="ignore", invalid="ignore"):
            # e^epsilon = e^e - share (1 + e^e), in units of e^e.
            rest = 1 - (delta - d) / (1 - d) * (1 + np.exp(-e))
            at = np.where(rest > 0, e + np.log(np.maximum(rest, 0)), 0.0)
        return float(np.min(np.maximum(at, 0.0), initial=math.inf))

    def delta(self, epsilon: Number) -> float:
        """Return the least delta at epsilon that any single pair implies."""
        epsilon = domain.one_epsilon(epsilon)
        e, d = self._curve
        with np.errstate(invalid="ignore"):
            gaps = -np.expm1(np.minimum(0.0, np.nan_to_num(epsilon - e, nan=0.0)))
        return float(np.min(d + (1 - d) * gaps / (1 + np.exp(-e)), initial=1.0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ApproximateDP(_Pairs):
    """(epsilon, delta)-differential privacy; `deltas[i]` belongs to `epsilons[i]`."""

    epsilons: Number | tuple[Number, ...]
    deltas: Number | tuple[Number, ...]
    relation: str

    def __post_init__(self) -> None:
        epsilons = domain.at_least_0("epsilons", self.epsilons)
        deltas = domain.probability("deltas", self.deltas)
        domain.choice("relation", self.relation, bounds.RELATIONS)
        domain.some("epsilons", epsilons)
        domain.as_many("deltas", deltas, "epsilons", epsilons)

    @property
    def _curve(self) -> tuple[np.ndarray, np.ndarray]:
        return np.ravel(np.asarray(self.epsilons, float)), np.ravel(
            np.asarray(self.deltas, float)
        )

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return the least bound over the curve."""
        shape = (-1, *[1] * log_kappa.ndim)
        curve = (values.reshape(shape) for values in self._curve)
        return {"approximate": bounds.approximate(log_kappa[None], *curve).min(axis=0)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PureDP(_Pairs):
    """The guarantee of eps-differential privacy alone, delta = 0."""

    eps: Number
    relation: str

    def __post_init__(self) -> None:
        domain.one("eps", self.eps)
        domain.at_least_0("eps", self.eps)
        domain.choice("relation", self.relation, bounds.RELATIONS)

    @property
    def _curve(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([float(self.eps)]), np.zeros(1)

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return `bounds.pure`, which is never above Corollary 3."""
        return {"pure": bounds.pure(log_kappa, self.eps, self.relation)}

    def _tests(self, log_rates: np.ndarray) -> Bounds:
        # Under "replace_one", gamma rests on odds of a prior, which a test hasn't.
        return dataclasses.replace(self, relation="zero_out").bounds(log_rates)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RenyiDP(Guarantee):
    """A curve of Renyi differential privacy, as accountants give it.

    Attributes:
      orders: orders of the Renyi divergences, >= 1 and finite; orders of 1 only serve
        the binary form.
      epsilons: the Renyi divergence of each order; infinite ones are passed over.
    """

    orders: tuple[Number, ...]
    epsilons: tuple[Number, ...]
    relation: str

    def __post_init__(self) -> None:
        orders = domain.finite("orders", self.orders)
        domain.require("orders", self.orders, orders >= 1, ">= 1")
        epsilons = domain.at_least_0("epsilons", self.epsilons)
        domain.choice("relation", self.relation, bounds.RELATIONS)
        domain.some("orders", orders)
        domain.as_many("epsilons", epsilons, "orders", orders)

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return the binary form at its best order, which is never above Theorem 2."""
        log_kappa = np.asarray(log_kappa, float)
        orders, epsilons = np.array(self.orders, float), np.array(self.epsilons, float)
        usable = np.isfinite(epsilons)
        if not usable.any():
            return {"binary Renyi": np.zeros(log_kappa.shape)}
        shape = (-1, *[1] * log_kappa.ndim)
        curve = orders[usable].reshape(shape), epsilons[usable].reshape(shape)
        return {
            "binary Renyi": bounds.binary_renyi(log_kappa[None], *curve).min(axis=0)
        }

    def epsilon(self, delta: Number) -> float:
        """Return the least epsilon at delta, if the curve covers both directions.

        Source: Canonne, Kamath and Steinke 2020, Proposition 12.
        """
        domain.between("delta", delta, 0, 1)
        orders, divergences = self._above_1
        with np.errstate(over="ignore"):
            tails = np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
        return float(max(0.0, np.min(divergences + tails, initial=math.inf)))

    def delta(self, epsilon: Number) -> float:
        """Return the least delta at epsilon, if the curve covers both directions."""
        epsilon = domain.one_epsilon(epsilon)
        orders, divergences = self._above_1
        with np.errstate(over="ignore", invalid="ignore"):
            logs = (orders - 1) * (divergences - epsilon + np.log1p(-1 / orders))
        return float(np.exp(np.nanmin([0.0, *(logs - np.log(orders))])))

    @property
    def _above_1(self) -> tuple[np.ndarray, np.ndarray]:
        orders, divergences = np.array(self.orders, float), np.array(self.epsilons)
        usable = (orders > 1) & np.isfinite(divergences)
        return orders[usable], divergences[usable]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ZeroConcentratedDP(Guarantee):
    """rho-zero-concentrated privacy alone: Renyi divergences of order a up to rho a."""

    rho: Number
    relation: str

    def __post_init__(self) -> None:
        domain.one("rho", self.rho)
        domain.at_least_0("rho", self.rho)
        domain.choice("relation", self.relation, bounds.RELATIONS)

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return Corollary 4. (rho alone doesn't imply the Gaussian form.)"""
        return {"Corollary 4": bounds.corollary_4(log_kappa, self.rho)}

    @property
    def _renyi(self) -> RenyiDP:
        """The Renyi curve rho a, at orders a from 1 + 1e-3 to 1e6."""
        orders = 1 + np.geomspace(1e-3, 1e6, 2000)
        with np.errstate(over="ignore"):
            curve = tuple((orders * float(self.rho)).tolist())
        return RenyiDP(
            orders=tuple(orders.tolist()), epsilons=curve, relation=self.relation
        )

    def epsilon(self, delta: Number) -> float:
        """Return the least epsilon at delta, by the best order."""
        return self._renyi.epsilon(delta)

    def delta(self, epsilon: Number) -> float:
        """Return the least delta at epsilon, by the best order."""
        return self._renyi.delta(epsilon)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Laplace(PureDP):
    """The Laplace mechanism: one number with noise of scale sensitivity / eps."""

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return the tight bound, and the sharper one of `PureDP`."""
        return {
            "Laplace": bounds.laplace(log_kappa, self.eps),
            "pure": bounds.pure(log_kappa, self.eps, self.relation),
        }

    def epsilon(self, delta: Number) -> float:
        """Return the exact epsilon at delta: eps + 2 log(1 - delta)."""
        at = float(domain.between("delta", delta, 0, 1))
        return max(0.0, float(self.eps) + 2 * float(np.log1p(-at)))

    def delta(self, epsilon: Number) -> float:
        """Return the exact delta at epsilon: 1 - e^((epsilon - eps) / 2)."""
        at = domain.one_epsilon(epsilon)
        return float(-np.expm1(min(0.0, at - float(self.eps)) / 2))


@dataclasses.dataclass(frozen=True, kw_only=True)
class LossDistribution(Guarantee):
    """A pessimistic privacy loss distribution made by dp-accounting.

    Attributes:
      distribution: a PrivacyLossDistribution of dp_accounting.pld.
      relation: the neighbouring relation that the distribution was made under.
    """

    distribution: Any
    relation: str

    def __post_init__(self) -> None:
        domain.choice("relation", self.relation, bounds.RELATIONS)
        if not hasattr(self.distribution, "get_delta_for_epsilon"):
            raise domain.FieldError(
                "distribution",
                "Expected {} to be a PrivacyLossDistribution of dp-accounting, got"
                f" {type(self.distribution).__name__}.",
            )
        # dp-accounting keeps the flag in the two parts alone.
        for part in ("_pmf_remove", "_pmf_add"):
            pmf = getattr(self.distribution, part, None)
            if not getattr(pmf, "_pessimistic_estimate", True):
                raise domain.FieldError(
                    "distribution",
                    "Expected {} to be made with pessimistic_estimate=True: an"
                    " optimistic one gives bounds that don't hold.",
                )

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return the dual of the privacy loss."""
        return {
            "privacy loss": bounds.dual(log_kappa, *loss_grid.curve(self.distribution))
        }

    def epsilon(self, delta: Number) -> float:
        """Return the least epsilon at delta."""
        return loss_grid.epsilon(self.distribution, 1, delta)

    def delta(self, epsilon: Number) -> float:
        """Return the least delta at epsilon."""
        return loss_grid.delta(self.distribution, 1, epsilon)
