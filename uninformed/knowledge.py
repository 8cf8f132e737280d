"""Types for attacks on weights alone: what they know and return.

`kkt.descent` takes an `Architecture` and returns `Candidates`; `weights_file` makes an
`Architecture` of a file's network.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

from shadow.victims import Victim


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Architecture:
    """The knowledge of an adversary who sees weights alone; None: it isn't known.

    Attributes:
      victim: the architecture of a homogeneous network, and the layout of its weights
        (`uninformed.homogeneous.victim`).
      mean: the mean training point, which was subtracted from all of them, (inputs,).
    """

    victim: Victim | None = None
    mean: Float[np.ndarray, " inputs"] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """The points that attacks on weights alone return for each release, in no order.

    Attributes:
      points: (releases, candidates, inputs), as the network sees points.
      scores: (releases, candidates), larger for those that explain more of the weights.
    """

    points: Float[np.ndarray, "releases candidates inputs"]
    scores: Float[np.ndarray, "releases candidates"]
