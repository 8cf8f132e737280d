"""The RecoNN attack: Section IV of Balle et al. 2022.

THREAT: knows D_-, A and, where it is shared, the initialisation, all by way of the
shadow models it trained itself; has public images to train them on. White-box release.
"""

import dataclasses

from jaxtyping import Array

from informed.threat import Knowledge, Reconstruction, Release
from reconn.trainer import Reconstructor


@dataclasses.dataclass(frozen=True, eq=False)
class ReconnAttack:
    """phi(theta). Deterministic; all knowledge went into training phi."""

    reconstructor: Reconstructor

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """Reconstruct the target of every release, and its label where phi tells it.

        Raises: ValueError: weights of another victim than the shadow models.
        """
        del key
        release.require(knowledge)
        images, labels = self.reconstructor.labelled(release.weights)
        return Reconstruction(images=images, labels=labels)
