"""Private steps whose noise or sampling changes, one after the other.

Checked: tests/dp/test_histories.py (dp-accounting's accountants, closed forms).
"""

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from dp import bounds, domain, epsilons, loss_grid, poisson
from dp.domain import Number
from dp.guarantee import Bounds, Guarantee
from dp.mechanisms import Gaussian, PoissonGaussian, RenyiDP

if TYPE_CHECKING:
    from dp_accounting.pld import privacy_loss_distribution

_TAIL = 1e-15


@dataclasses.dataclass(frozen=True, kw_only=True)
class Composition(Guarantee):
    """Runs of Poisson sampling or full batches, in any order, all released.

    Attributes:
      parts: the runs, all under one relation; secret sampling counts in each.
    """

    parts: tuple[PoissonGaussian | Gaussian, ...]

    def __post_init__(self) -> None:
        relations = {part.relation for part in self.parts}
        domain.require(
            "parts", sorted(relations), len(relations) == 1, "of one relation"
        )

    @property
    def relation(self) -> str:
        """Return the neighbouring relation of all parts."""
        return self.parts[0].relation

    @property
    def full(self) -> Gaussian:
        """The same noise with everyone in every step, which protects less."""
        mus = [_full(part).mu for part in self.parts]
        double = 2.0 if self.relation == "replace_one" else 1.0
        total = math.hypot(*mus) / double
        sigma = 1 / total if total else math.inf
        return Gaussian(noise_multiplier=sigma, steps=1, relation=self.relation)

    @property
    def _hidden(self) -> bool:
        sampled = any(_rate(part) < 1 for part in self.parts)
        return sampled and self.relation != "replace_one"

    @property
    def _steps(self) -> int:
        return sum(part.steps for part in self.parts)

    @property
    def _losses(self) -> "privacy_loss_distribution.PrivacyLossDistribution":
        """Compose the privacy losses of all parts on the coarsest of their grids."""
        grid = poisson.FINE
        made = [_losses(part, grid) for part in self.parts]
        spacings = [loss_grid.grids(one)[0].spacing for one in made]
        if len(set(spacings)) > 1:
            made = [_losses(part, max(spacings)) for part in self.parts]
        total = made[0]
        for one in made[1:]:
            total = total.compose(one, tail_mass_truncation=_TAIL)
        return total

    def bounds(self, log_kappa: np.ndarray) -> Bounds:
        """Bound by the composed privacy loss, by Renyi divergence, and in full."""
        full = self.full.bounds(log_kappa)
        if not self._hidden:
            return full
        valid = {f"{name}, full batch": value for name, value in full.items()}
        orders = np.array(epsilons.ORDERS)
        curve = RenyiDP(
            orders=epsilons.ORDERS,
            epsilons=tuple(np.sum([_renyi(p, orders) for p in self.parts], 0).tolist()),
            relation=self.relation,
        )
        losses = loss_grid.curve(self._losses, self._steps, removal=True)
        dual = bounds.dual(log_kappa, *losses)
        return valid | curve.bounds(log_kappa) | {"privacy loss": dual}

    def epsilon(self, delta: Number) -> float:
        """Return the least epsilon at delta that is certified, under the relation."""
        full = self.full.epsilon(delta)
        if not self._hidden:
            return full
        return min(full, loss_grid.epsilon(self._losses, delta, self._steps))

    def delta(self, epsilon: Number) -> float:
        """Return the least delta at epsilon that is certified, under the relation."""
        full = self.full.delta(epsilon)
        if not self._hidden:
            return full
        return min(full, loss_grid.delta(self._losses, epsilon, self._steps))


def _full(part: PoissonGaussian | Gaussian) -> Gaussian:
    return part if isinstance(part, Gaussian) else part.full


def _rate(part: PoissonGaussian | Gaussian) -> float:
    return 1.0 if isinstance(part, Gaussian) else float(part.sampling_probability)


def _losses(
    part: PoissonGaussian | Gaussian, grid: float
) -> "privacy_loss_distribution.PrivacyLossDistribution":
    if isinstance(part, Gaussian):
        mu = max(part.mu, 1 / np.finfo(float).max)
        return poisson.losses(1 / mu, 1.0, 1, grid)
    return poisson.losses(part.noise_multiplier, _rate(part), part.steps, grid)


def _renyi(part: PoissonGaussian | Gaussian, orders: np.ndarray) -> np.ndarray:
    if isinstance(part, Gaussian):
        return orders * part.rho
    return poisson.renyi(orders, part.noise_multiplier, _rate(part), part.steps)
