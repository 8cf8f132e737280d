"""Settings of the attack on stationary points."""

import dataclasses

from shadow import checks


@dataclasses.dataclass(frozen=True, kw_only=True)
class StationaryConfig:
    """How hard to try.

    Attributes:
      models: number of models of the adversary's own, which tell how much training
        leaves unconverged; 0: the closed form alone.
      labels_tried: number of labels that are tried to the end, the most likely first.
      steps: Gauss-Newton steps per label, at most.
      most_params: number of parameters up to which a victim's Hessian is computed; this
        takes 16 bytes x params^2.
    """

    models: int = 16
    labels_tried: int = 3
    steps: int = 20
    most_params: int = 12000

    def __post_init__(self) -> None:
        checks.at_least("models", self.models, 0)
        for field in ("labels_tried", "steps", "most_params"):
            checks.at_least(field, getattr(self, field), 1)
