"""Settings of the attack on stationary points."""

import dataclasses

from shadow import checks

REVISION = 3  # of the attack; see `shadow.records`


@dataclasses.dataclass(frozen=True, kw_only=True)
class StationaryConfig:
    """How hard to try.

    Attributes:
      models: of the adversary's own, from which the spread of what isn't converged is
        learned; 0: the closed form alone.
      labels_tried: labels that are tried to the end, best first.
      steps: Gauss-Newton steps per label, at most.
      levels: where all public pixels lie on at most 256 evenly spaced values, the
        answer is moved onto them, if it lies near them already.
      most_params: of a victim whose Hessian is computed; it takes 16 bytes x params^2.
    """

    models: int = 16
    labels_tried: int = 3
    steps: int = 20
    levels: bool = True
    most_params: int = 12000

    def __post_init__(self) -> None:
        checks.at_least("models", self.models, 0)
        for field in ("labels_tried", "steps", "most_params"):
            checks.at_least(field, getattr(self, field), 1)
