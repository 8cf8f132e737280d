"""Settings of a run's training, from which `pipeline` and `stored` build algorithms.

`settings.Experiment` holds them as `training`. Nothing is trained here.
"""

import dataclasses

import optax

from dp.gradient import PrivacyConfig
from shadow import checks
from shadow.training.gradient_descent import GradientDescent, require_schedule
from shadow.victims import Victim

OPTIMISERS = ("adam", "sgd")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Gradient descent of a configuration, which can only name its optimiser.

    Attributes:
      optimiser: "sgd" (gradient descent, with momentum) or "adam".
      learning_rate: step size, > 0.
      momentum: the momentum of "sgd", in [0, 1); v <- momentum v + g, theta <- theta -
        lr v.
      epochs, batch_size, weight_decay, initialisation, shuffling, privacy: as in
        `shadow.GradientDescent`.
    """

    optimiser: str = "sgd"
    learning_rate: float = 0.2
    momentum: float = 0.9
    epochs: int = 100
    batch_size: int | None = None
    weight_decay: float = 0.0
    initialisation: str = "shared"
    shuffling: str = "auto"
    privacy: PrivacyConfig = dataclasses.field(default_factory=PrivacyConfig)

    def __post_init__(self) -> None:
        checks.choice("optimiser", self.optimiser, OPTIMISERS)
        checks.positive("learning_rate", self.learning_rate)
        checks.within("momentum", self.momentum, 0, 1)
        require_schedule(self)

    def algorithm(self, victim: Victim, *, form: str | None = None) -> GradientDescent:
        """Return the algorithm that trains a network; see `shadow.GradientDescent`."""
        if self.optimiser == "sgd":
            optimiser = optax.sgd(self.learning_rate, momentum=self.momentum or None)
        else:
            # eps_root keeps the derivative of Adam at zero gradients from being NaN,
            # and is too small to change a weight.
            optimiser = optax.adam(self.learning_rate, eps_root=1e-30)
        names = {field.name for field in dataclasses.fields(self)}
        names -= {"optimiser", "learning_rate", "momentum"}
        fields = {name: getattr(self, name) for name in names}
        return GradientDescent(victim=victim, optimiser=optimiser, form=form, **fields)
