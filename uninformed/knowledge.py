"""The threat model of an adversary who has weights alone: no D_-, no seed.

Such an attack is a callable `attack(release, architecture, *, key) -> Candidates`: it
gives many candidates for training points, and can't say which of them are right. The
metrics of many candidates, with their control, are `uninformed.candidates`.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from shadow.threat import require_told
from shadow.victims import Victim


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Architecture:
    """What an adversary is told who sees weights alone; None for what it isn't told.

    Attributes:
      victim: the architecture of a homogeneous network, and the layout of its theta
        (`uninformed.homogeneous.victim`).
      lower: the victim's training problem (`uninformed.bilevel.Lower`).
      targets: labels of the training points as numbers, (points,).
      mean: the mean training point, which was subtracted from all of them, (inputs,).
    """

    victim: Victim | None = None
    lower: Any = None
    targets: Float[np.ndarray, " points"] | None = None
    mean: Float[np.ndarray, " inputs"] | None = None

    def require(self, *needed: str) -> None:
        """Raise FieldError unless all of these fields are told."""
        require_told(self, *needed)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """What attacks on weights alone give: many points for each release, in no order.

    Attributes:
      points: candidates for training points, (releases, candidates, inputs), as the
        network sees points.
      scores: (releases, candidates), larger for candidates that explain more of theta.
    """

    points: Float[np.ndarray, "releases candidates inputs"]
    scores: Float[np.ndarray, "releases candidates"]
