"""Mechanisms: one class per guarantee of privacy, with the bounds that follow.

From kappa, the chance of reconstructing a record without seeing the release, a
mechanism computes upper bounds on gamma, the chance with it: all that are valid under
its neighbouring relation (see `bounds`). `rero.rero_bound` takes the least. Theorems
and corollaries are those of Balle, Cherubin and Hayes 2022.

sigma, the noise multiplier, is the standard deviation of the noise on the *sum* of
clipped gradients over the clipping norm. The number that a sum is divided by has to be
public. None of this holds if that is the realised size of a batch, if statistics
computed from the target are used, or with batch normalisation.

Limits: with infinite noise gamma is kappa; an infinite epsilon or rho promises nothing,
and gamma is 1. No field may be NaN.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dp import bounds, domain, epsilons, loss_grid, poisson
from dp.domain import Number
from dp.guarantee import Bounds, Guarantee


@runtime_checkable
class Mechanism(Protocol):
    """Anything that bounds the probability of reconstruction."""

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return log gamma by the name of the bound; log_kappa of any shape."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gaussian(Guarantee):
    """DP-GD: full-batch steps with Gaussian noise, all iterates released or only one.

    Momentum, Adam, schedules and weight decay are post-processing.

    Attributes:
      noise_multiplier: sigma, > 0; one number, or one per step. Infinite: gamma is
        kappa.
      steps: T, the number of steps; where sigma is one per step, as many.
      relation: "replace_one" doubles the sensitivity. "zero_out" is always available to
        a bound on reconstruction, whatever relation epsilon is published under.
    """

    noise_multiplier: Number | tuple[Number, ...]
    steps: int
    relation: str

    def __post_init__(self) -> None:
        domain.above("noise_multiplier", self.noise_multiplier, 0)
        domain.integer("steps", self.steps, 1)
        domain.choice("relation", self.relation, bounds.RELATIONS)
        if self._sigmas.size not in (1, self.steps):
            raise domain.FieldError(
                "noise_multiplier",
                f"Expected {{}} to be one number or {self.steps}, one a step, got"
                f" {self._sigmas.size}.",
            )

    @property
    def _sigmas(self) -> np.ndarray:
        return np.asarray(self.noise_multiplier, float)

    @property
    def mu(self) -> float:
        """Return mu, the square root of sum 1 / sigma_t^2, doubled for "replace_one".

        Infinite where that overflows: then nothing is promised.
        """
        with np.errstate(over="ignore", divide="ignore"):
            mus = 1 / self._sigmas.ravel()
            most = float(mus.max())
            if not 0 < most < np.inf:
                return most
            total = np.sum((mus / most) ** 2) * (self.steps / mus.size)
            shift = 2.0 if self.relation == "replace_one" else 1.0
            return float(shift * most * np.sqrt(total))

    @property
    def rho(self) -> float:
        """Return rho = mu^2 / 2 of zero-concentrated differential privacy."""
        with np.errstate(over="ignore"):
            return float(np.square(self.mu) / 2)

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return the tight bound, and Corollary 4."""
        return {
            "Gaussian": bounds.gaussian(log_kappa, self.mu),
            "Corollary 4": bounds.corollary_4(log_kappa, self.rho),
        }

    def epsilon(self, delta: Number) -> float:
        """Return the exact epsilon at delta, under the relation."""
        domain.between("delta", delta, 0, 1)
        return epsilons.of_mu(self.mu, delta)

    def delta(self, epsilon: Number) -> float:
        """Return the exact delta at epsilon, under the relation."""
        domain.at_least_0("epsilon", epsilon)
        return epsilons.delta_of_mu(self.mu, epsilon)


def require_sampled(noise_multiplier: Number, steps: int, relation: str) -> None:
    """Refuse fields of a mechanism with sampled batches that are out of range."""
    domain.one("noise_multiplier", noise_multiplier)
    domain.above("noise_multiplier", noise_multiplier, 0)
    domain.integer("steps", steps, 1)
    domain.choice("relation", relation, bounds.RELATIONS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoissonGaussian(Guarantee):
    """DP-SGD: in each step every example takes part with probability q, secretly.

    Amplification by sampling holds only while the adversary isn't told who takes part
    in which step. Where that is public, a record is protected as by `Gaussian` with the
    number of steps that it takes part in.

    Attributes:
      noise_multiplier: sigma, > 0. Infinite: gamma is kappa.
      sampling_probability: q, the probability of a record to be in a step, in (0, 1].
      steps: T, the number of steps.
      relation: under "replace_one" no dominating pair is known for sampled batches; the
        bound is then that of full batches.
      grid: the spacing of the grid of the privacy loss, in nats; a coarser one is
        faster, and its bound higher.
    """

    noise_multiplier: Number
    sampling_probability: Number
    steps: int
    relation: str
    grid: float = poisson.FINE

    def __post_init__(self) -> None:
        require_sampled(self.noise_multiplier, self.steps, self.relation)
        domain.one("sampling_probability", self.sampling_probability)
        domain.share("sampling_probability", self.sampling_probability)
        domain.finite_above("grid", self.grid, 0)

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Bound by the privacy loss, by Renyi divergence, and as full batches."""
        sigma, q, steps = self.noise_multiplier, self.sampling_probability, self.steps
        full = self.full
        if q == 1:
            return full.bounds(log_kappa)
        valid = {f"{name}, full batch": g for name, g in full.bounds(log_kappa).items()}
        if self.relation == "replace_one":
            return valid
        if steps == 1:
            return {"one step": poisson.one_step(log_kappa, sigma, q)} | valid
        valid["never sampled"] = poisson.never_sampled(log_kappa, q, steps)
        valid |= self.renyi(log_kappa).bounds(log_kappa)
        valid["privacy loss"] = bounds.dual(
            log_kappa, *poisson.curve_of(sigma, q, steps, self.grid)
        )
        return valid

    @property
    def full(self) -> Gaussian:
        """The same run with everyone in every step, which protects less."""
        return Gaussian(
            noise_multiplier=self.noise_multiplier,
            steps=self.steps,
            relation=self.relation,
        )

    def epsilon(self, delta: Number) -> float:
        """Return the least epsilon at delta that is certified, under the relation.

        That of full batches is all there is of "replace_one".
        """
        full = self.full.epsilon(delta)
        q = self.sampling_probability
        if q == 1 or self.relation == "replace_one":
            return full
        sigma, steps = self.noise_multiplier, self.steps
        return min(full, epsilons.sampled(sigma, q, steps, delta))

    def delta(self, epsilon: Number) -> float:
        """Return the least delta at epsilon that is certified, under the relation."""
        full, q = self.full.delta(epsilon), self.sampling_probability
        if q == 1 or self.relation == "replace_one" or epsilon == np.inf:
            return full
        sigma, steps = self.noise_multiplier, self.steps
        return min(full, epsilons.sampled_delta(sigma, q, steps, epsilon))

    def renyi(self, log_kappa: np.ndarray) -> "RenyiDP | Gaussian":
        """Return Renyi divergences at orders that suit these baselines, where known."""
        if self.relation == "replace_one" or self.sampling_probability == 1:
            return self.full
        sigma, q = self.noise_multiplier, self.sampling_probability
        (second,) = poisson.renyi(np.array([2]), sigma, q, self.steps)
        orders = poisson.orders_for(log_kappa, second / 2)
        divergences = poisson.renyi(orders, sigma, q, self.steps)
        return RenyiDP(
            orders=tuple(orders.tolist()),
            epsilons=tuple(divergences.tolist()),
            relation=self.relation,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ApproximateDP(Guarantee):
    """(epsilon, delta)-differential privacy; several pairs are a privacy curve."""

    epsilons: Number | tuple[Number, ...]
    deltas: Number | tuple[Number, ...]
    relation: str

    def __post_init__(self) -> None:
        domain.at_least_0("epsilons", self.epsilons)
        domain.probability("deltas", self.deltas)
        domain.choice("relation", self.relation, bounds.RELATIONS)
        pairs = [np.shape(self.epsilons), np.shape(self.deltas)]
        domain.some("epsilons", np.asarray(self.epsilons))
        if pairs[0] != pairs[1]:
            raise domain.FieldError(
                "deltas", f"Expected as many of {{}} as of epsilons, got {pairs[::-1]}."
            )

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

    def epsilon(self, delta: Number) -> float:
        """Return the least epsilon at delta that the pairs imply."""
        domain.between("delta", delta, 0, 1)
        return epsilons.of_pairs(*self._curve, delta)

    def delta(self, epsilon: Number) -> float:
        """Return the least delta at epsilon that the pairs imply."""
        domain.at_least_0("epsilon", epsilon)
        return epsilons.delta_of_pairs(*self._curve, epsilon)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PureDP(Guarantee):
    """The guarantee of eps-differential privacy alone, delta = 0."""

    eps: Number
    relation: str

    def __post_init__(self) -> None:
        domain.one("eps", self.eps)
        domain.at_least_0("eps", self.eps)
        domain.choice("relation", self.relation, bounds.RELATIONS)

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return Corollary 3 as printed, and the sharper bound."""
        return {
            "pure": bounds.pure(log_kappa, self.eps, self.relation),
            "Corollary 3": bounds.corollary_3(log_kappa, self.eps),
        }

    def epsilon(self, delta: Number) -> float:
        """Return the least epsilon at delta that is implied, by randomised response."""
        domain.between("delta", delta, 0, 1)
        return epsilons.of_pairs(np.array([float(self.eps)]), np.zeros(1), delta)

    def delta(self, epsilon: Number) -> float:
        """Return the least delta at epsilon that is implied, by randomised response."""
        domain.at_least_0("epsilon", epsilon)
        return epsilons.delta_of_pairs(
            np.array([float(self.eps)]), np.zeros(1), epsilon
        )


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
        domain.at_least_0("epsilons", self.epsilons)
        domain.choice("relation", self.relation, bounds.RELATIONS)
        if len(self.orders) != len(self.epsilons) or not len(self.orders):
            raise domain.FieldError(
                "epsilons",
                f"Expected one of {{}} an order, got {len(self.epsilons)} for"
                f" {len(self.orders)}.",
            )

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return Theorem 2 and the binary form, each at its best order."""
        log_kappa = np.asarray(log_kappa, float)
        orders, epsilons = np.array(self.orders, float), np.array(self.epsilons, float)
        usable = np.isfinite(epsilons)
        shape = (-1, *[1] * log_kappa.ndim)

        def least(bound: Callable[..., bounds.Logs], of: np.ndarray) -> np.ndarray:
            if not of.any():
                return np.zeros(log_kappa.shape)
            some = orders[of].reshape(shape), epsilons[of].reshape(shape)
            return np.asarray(bound(log_kappa[None], *some).min(axis=0))

        return {
            "binary Renyi": least(bounds.binary_renyi, usable),
            "Theorem 2": least(bounds.renyi, usable & (orders > 1)),
        }

    def epsilon(self, delta: Number) -> float:
        """Return the least epsilon at delta, if the curve is of both directions."""
        domain.between("delta", delta, 0, 1)
        orders, divergences = self._above_1
        if not len(orders):
            return float("inf")
        return epsilons.of_renyi(divergences, delta, orders)

    def delta(self, epsilon: Number) -> float:
        """Return the least delta at epsilon, if the curve is of both directions."""
        domain.at_least_0("epsilon", epsilon)
        orders, divergences = self._above_1
        if not len(orders):
            return 1.0
        return epsilons.delta_of_renyi(divergences, epsilon, orders)

    @property
    def _above_1(self) -> tuple[np.ndarray, np.ndarray]:
        orders, divergences = np.array(self.orders, float), np.array(self.epsilons)
        usable = (orders > 1) & np.isfinite(divergences)
        return orders[usable], divergences[usable]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ZeroConcentratedDP(Guarantee):
    """The guarantee of rho-zero-concentrated differential privacy alone."""

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
        """The curve rho a, at orders a of 1 + 1e-3 to 1e6."""
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
    """One number, released once with Laplace noise of scale sensitivity / eps."""

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return the tight bound, and that of any epsilon."""
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
        at = float(domain.at_least_0("epsilon", epsilon))
        gap = min(0.0, at - float(self.eps)) if at < np.inf else 0.0
        return float(-np.expm1(gap / 2))


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
        # dp-accounting says it of the two parts alone.
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
        return loss_grid.epsilon(self.distribution, delta, 1)

    def delta(self, epsilon: Number) -> float:
        """Return the least delta at epsilon."""
        return loss_grid.delta(self.distribution, epsilon, 1)
