"""Composition of DP-SGD runs: a training whose noise or sampling rate changed.

Without it the least noise and the largest sampling rate would count for all steps.
"""

import dataclasses
import functools
import math

import numpy as np

from dp import domain, loss_grid, poisson
from dp.guarantee import DpEvent
from dp.loss_grid import Distribution
from dp.mechanisms import Amplified, Gaussian, PoissonGaussian


@dataclasses.dataclass(frozen=True, kw_only=True)
class Composition(Amplified):
    """A mechanism of several runs, by Poisson sampling or full batches (q = 1).

    Attributes:
      parts: the runs, in any order, all under one relation.
    """

    parts: tuple[PoissonGaussian, ...]

    def __post_init__(self) -> None:
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

    def losses(self) -> tuple[Distribution, int]:
        """Compose the privacy losses of all parts on the coarsest of their grids."""
        return _composed(self.parts), self.steps

    def divergences(self, log_kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return orders that suit these baselines, and sums of Renyi divergences."""
        orders = poisson.orders_for(log_kappa, self.full.rho)
        orders = np.union1d(orders, np.arange(2, 65))
        curves = [
            poisson.renyi(orders, p.noise_multiplier, p.sampling_probability, p.steps)
            for p in self.parts
        ]
        return orders, np.sum(curves, axis=0)

    def event(self) -> DpEvent:
        """Return dp-accounting's event: those of the parts, in their order."""
        from dp_accounting import dp_event

        return dp_event.ComposedDpEvent([part.event() for part in self.parts])


@functools.lru_cache(maxsize=8)
def _composed(parts: tuple[PoissonGaussian, ...]) -> Distribution:
    losses = [part.losses()[0] for part in parts]
    coarsest = max(loss_grid.grids(one)[0].spacing for one in losses)
    again = [dataclasses.replace(part, grid=coarsest) for part in parts]
    total, *rest = [part.losses()[0] for part in again]
    for one in rest:
        total = total.compose(one, tail_mass_truncation=loss_grid.TAIL)
    return total
