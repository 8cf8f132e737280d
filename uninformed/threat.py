"""The threat model of an adversary who has weights alone: no D_-, no seed.

Such an attack is a callable `attack(release, architecture, *, key) -> Candidates`: it
gives many candidates for training points, and can't say which of them are right. What
it is not told is an explicit None. The metrics of many candidates, with their control,
are `uninformed.candidates`.
"""

import dataclasses
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float

from informed.threat import require_told
from shadow.release import Release
from shadow.victims import Victim


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Architecture:
    """What an adversary is told who sees weights alone; no D_-. None: not told.

    Attributes:
      victim: the architecture; homogeneous (`uninformed.homogeneous.victim`).
      lower: the victim's training problem, `attacks.bilevel.Lower`.
      targets: (points,), labels of the training points.
      mean: (inputs,), what was subtracted from them.
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
      points: (releases, candidates, inputs).
      scores: (releases, candidates), larger for those that explain more of theta.
    """

    points: Float[np.ndarray, "releases candidates inputs"]
    scores: Float[np.ndarray, "releases candidates"]


@runtime_checkable
class CandidateAttack(Protocol):
    """An attack on weights alone."""

    def __call__(
        self, release: Release, architecture: Architecture, *, key: Array
    ) -> Candidates:
        """Candidates for training points of every release."""
        ...
