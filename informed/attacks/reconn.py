"""The RecoNN attack: Section IV of Balle et al. 2022.

THREAT: knows D_-, A and, where it is shared, the initialisation, all by way of the
shadow models it trained itself; has public images to train them on. Any release: all
weights, some layers, logits.
"""

import dataclasses

from jaxtyping import Array

from informed.threat import Knowledge, Reconstruction
from reconn.trainer import Reconstructor
from shadow.release import Release


@dataclasses.dataclass(frozen=True, eq=False)
class ReconnAttack:
    """phi(theta). Deterministic; all knowledge went into training phi."""

    reconstructor: Reconstructor

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """Reconstruct the target of every release, and its label where phi tells it.

        Raises: FieldError: the release shows something else of theta, or is of another
          victim, than the shadow models.
        """
        del key
        knowledge.require(release)
        images, labels = self.reconstructor.labelled(release)
        return Reconstruction(images=images, labels=labels)
