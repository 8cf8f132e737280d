"""Mechanisms: private training by Gaussian noise, with or without Poisson sampling.

Bounds hold under the mechanism's neighbouring relation (see `bounds`). Theorems are
those of Balle, Cherubin and Hayes 2022. `sampling`, `histories`, `calibration`,
`shadow.factory` and audits make mechanisms; `rero` asks for their bounds. sigma, the
noise multiplier, is the standard deviation of the noise on the *sum* of clipped
gradients over the clipping norm. The number that a sum is divided by has to be public.
No bound holds if the divisor is the realised size of a batch, if statistics computed
from the target are used, or with batch normalisation. No field may be NaN.
"""

import abc
import dataclasses
import functools
import math
from typing import Protocol, runtime_checkable

import numpy as np
from scipy import special

from dp import bounds, domain, loss_grid, poisson
from dp.domain import Number
from dp.guarantee import Bounds, Guarantee
from dp.loss_grid import Distribution
from dp.published import RenyiDP

LARGE = 1e5  # mu or epsilon up to which solvers for Gaussian noise still converge


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
        """Return the exact epsilon at delta, under the relation.

        Where mu is too large for the solver, it is that of Phi(mu / 2 - eps / mu),
        which exceeds delta(eps) by less than 1e-5 of it. The bits are those of
        dp-accounting's get_epsilon_gaussian, a slow import.
        """
        domain.between("delta", delta, 0, 1)
        mu = self.mu
        if mu == 0 or np.isinf(1 / mu):
            return 0.0
        if mu >= LARGE:
            with np.errstate(over="ignore"):
                upper = np.multiply(mu, mu / 2 - special.ndtri(delta))
            return float(np.maximum(0.0, upper))
        from scipy import optimize

        sigma, log_delta = 1 / mu, np.log(delta)

        def excess(epsilon: float) -> float:
            """Compute log(delta(epsilon) / delta): Balle and Wang 2018, Theorem 8."""
            middle = epsilon * sigma + 1 / (2 * sigma)
            x = special.log_ndtr(1 / sigma - middle)
            y = epsilon + special.log_ndtr(-middle)
            with np.errstate(divide="ignore"):
                at = float(x + np.log1p(-np.exp(y - x))) if y <= x else -math.inf
            return at - log_delta

        if excess(0.0) < 0:
            return 0.0
        low, high = 0.0, 1.0
        while excess(high) > 0:
            low, high = high, high * 10
        return float(optimize.brentq(excess, low, high, xtol=1e-12))

    def delta(self, epsilon: Number) -> float:
        """Return the exact delta at epsilon, under the relation.

        A difference of two terms, rounded up by what it may lose to cancellation.
        """
        epsilon = domain.one_epsilon(epsilon)
        mu = self.mu
        if mu == 0 or np.isinf(1 / mu):
            return 0.0
        if mu >= LARGE:
            return float(special.ndtr(mu / 2 - epsilon / mu))
        x = float(special.log_ndtr(mu / 2 - epsilon / mu))
        if x == -math.inf:
            return 0.0
        y = float(epsilon + special.log_ndtr(-mu / 2 - epsilon / mu))
        slack = 8 * np.finfo(float).eps * (1 + abs(x) + float(epsilon))
        return float(min(1.0, np.exp(x) * (-np.expm1(min(0.0, y - x)) + slack)))


def require_sampled(noise_multiplier: Number, steps: int, relation: str) -> None:
    """Raise FieldError unless in range; for `participation` and `allocation` too."""
    domain.one("noise_multiplier", noise_multiplier)
    domain.above("noise_multiplier", noise_multiplier, 0)
    domain.integer("steps", steps, 1)
    domain.choice("relation", relation, bounds.RELATIONS)


class Amplified(Guarantee):
    """Base class of runs amplified by a secret: which steps a record takes part in."""

    noise_multiplier: Number
    steps: int
    relation: str
    _unhidden = "full batch"  # ends the names of `full`'s bounds
    # Whether Renyi divergences from training without the target to training with it are
    # no less than those back. Epsilon and delta cover both directions.
    _larger_divergences = True

    @property
    def full(self) -> Gaussian:
        """The same run where the adversary knows the steps, which protects less."""
        return Gaussian(
            noise_multiplier=self.noise_multiplier,
            steps=self.steps,
            relation=self.relation,
        )

    @property
    @abc.abstractmethod
    def hidden(self) -> bool:
        """Whether the bounds count the secret as protection."""

    @abc.abstractmethod
    def losses(self) -> tuple[Distribution, int] | None:
        """Return (privacy losses, steps or epochs that they cover); None: too many."""

    @abc.abstractmethod
    def divergences(self, log_kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return orders that suit these baselines, and Renyi divergences."""

    def renyi(self, log_kappa: np.ndarray) -> RenyiDP | Gaussian:
        """Return Renyi divergences as a mechanism, or `full` if not `hidden`."""
        if not self.hidden:
            return self.full
        orders, divergences = (v.tolist() for v in self.divergences(log_kappa))
        return RenyiDP(
            orders=tuple(orders), epsilons=tuple(divergences), relation=self.relation
        )

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return bounds by privacy loss, by Renyi divergence, and those of `full`."""
        valid = self._of_full(log_kappa)
        if not self.hidden:
            return valid
        valid |= self.renyi(log_kappa).bounds(log_kappa)
        losses = self.losses()
        if losses is not None:
            curve = loss_grid.curve(*losses, removal=True)
            valid["privacy loss"] = bounds.dual(log_kappa, *curve)
        return valid

    def _of_full(self, log_kappa: np.ndarray) -> Bounds:
        full = self.full.bounds(log_kappa)
        return {f"{name}, {self._unhidden}": value for name, value in full.items()}

    def epsilon(self, delta: Number) -> float:
        """Return the least epsilon at delta that is certified, under the relation."""
        full = self.full.epsilon(delta)
        if not self.hidden or not full:
            return full
        certified, losses = [full], self.losses()
        if self._larger_divergences:
            certified.append(self.renyi(np.asarray(np.log(delta))).epsilon(delta))
        if losses is not None:
            certified.append(loss_grid.epsilon(*losses, delta))
        return min(certified)

    def delta(self, epsilon: Number) -> float:
        """Return the least delta at epsilon that is certified, under the relation."""
        full = self.full.delta(epsilon)
        if not self.hidden or not full:
            return full
        certified, losses = [full], self.losses()
        if self._larger_divergences:
            certified.append(self.renyi(np.asarray(np.log(full))).delta(epsilon))
        if losses is not None:
            certified.append(loss_grid.delta(*losses, epsilon))
        return min(certified)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoissonGaussian(Amplified):
    """DP-SGD: in each step every example takes part with probability q, secretly.

    Amplification by sampling holds only while the adversary doesn't learn who takes
    part in which step. Where the batches are public, a record is protected as by
    `Gaussian` with the number of steps that it takes part in.

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
        for name in ("noise_multiplier", "sampling_probability"):  # perhaps arrays
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def hidden(self) -> bool:
        """Whether the bounds count sampling as protection."""
        return self.sampling_probability < 1 and self.relation != "replace_one"

    def losses(self) -> tuple[Distribution, int]:
        """Return the distribution of privacy losses, and the number of steps."""
        sigma, q = self.noise_multiplier, self.sampling_probability
        return poisson.losses(sigma, q, self.steps, self.grid), self.steps

    def divergences(self, log_kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return orders that suit these baselines, and Renyi divergences."""
        run = self.noise_multiplier, self.sampling_probability, self.steps
        (second,) = poisson.renyi(np.array([2]), *run)
        orders = poisson.orders_for(log_kappa, second / 2)
        return orders, poisson.renyi(orders, *run)

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Return the bounds of `Amplified`, of one step, and of never being sampled."""
        q, steps = self.sampling_probability, self.steps
        if q == 1:
            return self.full.bounds(log_kappa)
        if self.hidden and steps == 1:
            one = poisson.one_step(log_kappa, self.noise_multiplier, q)
            return {"one step": one} | self._of_full(log_kappa)
        valid = super().bounds(log_kappa)
        if self.hidden:
            valid["never sampled"] = poisson.never_sampled(log_kappa, q, steps)
        return valid


@dataclasses.dataclass(frozen=True, kw_only=True)
class Composition(Amplified):
    """DP-SGD whose noise or sampling rate changed: several runs, full batches as q = 1.

    Attributes:
      parts: the runs, in any order, all under one relation.
    """

    parts: tuple[PoissonGaussian, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        for part in self.parts:
            if not isinstance(part, PoissonGaussian):
                raise domain.FieldError(
                    "parts",
                    "Expected {} to be PoissonGaussian, which full batches are with"
                    f" sampling_probability=1; got {type(part).__name__}.",
                )
        names = sorted({part.relation for part in self.parts})
        domain.require("parts", names, len(names) == 1, "of one relation")

    @property
    def relation(self) -> str:  # type: ignore[override]
        """The neighbouring relation of all parts."""
        return self.parts[0].relation

    @property
    def steps(self) -> int:  # type: ignore[override]
        """The number of steps of all parts."""
        return sum(part.steps for part in self.parts)

    @property
    def full(self) -> Gaussian:
        """The same noise with every record in every step, which protects less."""
        mu = math.hypot(*(part.full.mu for part in self.parts))
        mu /= 2.0 if self.relation == "replace_one" else 1.0
        sigma = 1 / mu if mu else math.inf
        return Gaussian(noise_multiplier=sigma, steps=1, relation=self.relation)

    @property
    def hidden(self) -> bool:
        """Whether the bounds count the sampling of some part as protection."""
        return any(part.hidden for part in self.parts)

    def losses(self) -> tuple[Distribution, int] | None:
        """Compose the parts' losses on the coarsest grid; None: one is certain."""
        composed = _composed(self.parts)
        return None if composed is None else (composed, self.steps)

    def divergences(self, log_kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return orders that suit these baselines, and sums of Renyi divergences."""
        orders = poisson.orders_for(log_kappa, self.full.rho)
        orders = np.union1d(orders, np.arange(2, 65))
        curves = [
            poisson.renyi(orders, p.noise_multiplier, p.sampling_probability, p.steps)
            for p in self.parts
        ]
        return orders, np.sum(curves, axis=0)


@functools.lru_cache(maxsize=8)
def _composed(parts: tuple[PoissonGaussian, ...]) -> Distribution | None:
    grids = [loss_grid.grids(part.losses()[0])[0] for part in parts]
    if any(grid.infinite >= 1 for grid in grids):
        return None
    coarsest = max(grid.spacing for grid in grids)
    again = [dataclasses.replace(part, grid=coarsest) for part in parts]
    total, *rest = [part.losses()[0] for part in again]
    for one in rest:
        total = total.compose(one, tail_mass_truncation=loss_grid.TAIL)
    return total
