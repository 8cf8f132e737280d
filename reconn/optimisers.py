"""Optimisers for `Network` and `Refined`: Adam with a cosine schedule, and RMSProp.

`adam_cosine` is the default of both; users pass others, and
`informed.experiment.reconn_settings` builds them for the configurations of runs.
"""

import dataclasses
import functools
from collections.abc import Callable

import optax

from shadow import checks


@dataclasses.dataclass(frozen=True)
class Scheduled:
    """An optimiser whose learning rate rises from zero, then falls to zero or stays.

    Attributes:
      rule: schedule of the learning rate -> optimiser.
      learning_rate: the largest rate.
      warmup_epochs: the length of the linear rise; may be a fraction.
      decays: whether the rate then falls as a cosine, to zero at the end.
    """

    rule: Callable[[optax.Schedule], optax.GradientTransformation]
    learning_rate: float
    warmup_epochs: float
    decays: bool

    def __post_init__(self) -> None:
        checks.positive("learning_rate", self.learning_rate)
        checks.at_least("warmup_epochs", self.warmup_epochs, 0)

    def __call__(
        self, total_steps: int, steps_per_epoch: int
    ) -> optax.GradientTransformation:
        """Return the optimiser for a training of this length."""
        warmup = round(self.warmup_epochs * steps_per_epoch)
        rest = optax.constant_schedule(self.learning_rate)
        if self.decays:
            falling = max(total_steps - warmup, 1)
            rest = optax.cosine_decay_schedule(self.learning_rate, falling)
        rise = optax.linear_schedule(0.0, self.learning_rate, warmup)
        return self.rule(optax.join_schedules([rise, rest], [warmup]))


def adam_cosine(
    *,
    learning_rate: float = 5e-4,
    warmup_epochs: float = 1.0,
    weight_decay: float = 0.0,
) -> Scheduled:
    """Return Adam with decoupled weight decay, warm-up and a cosine schedule."""
    checks.at_least("weight_decay", weight_decay, 0)
    rule = functools.partial(optax.adamw, weight_decay=weight_decay)
    return Scheduled(rule, learning_rate, warmup_epochs, decays=True)


def rmsprop(*, learning_rate: float = 1e-3, warmup_epochs: float = 0.0) -> Scheduled:
    """Return RMSProp at a constant rate, as in Table V of Balle et al. 2022.

    Its second moments begin at 1: from 0 the first steps are so large that ReLUs die.
    """
    rule = functools.partial(optax.rmsprop, initial_scale=1.0)
    return Scheduled(rule, learning_rate, warmup_epochs, decays=False)
