"""The RecoNN attack: Section IV of Balle et al. 2022.

THREAT: knows D_-, A and, where it is shared, the initialisation, all by way of the
shadow models it trained itself; has public images to train them on. Any release: all
weights, some layers, logits.
"""

import dataclasses
from collections.abc import Callable

from jaxtyping import Array

from reconn.trainer import Reconstructor
from shadow import checks
from shadow.models import ShadowModels
from shadow.threat import Knowledge, Reconstruction, Release, publish


@dataclasses.dataclass(frozen=True, eq=False)
class ReconnAttack:
    """phi(theta). Deterministic; all knowledge went into training phi.

    Attributes:
      reconstructor: phi.
      held_out: gives shadow models that phi wasn't trained on. They tell how its errors
        at known pixels and at the others go together; None: pixels can't be told.
    """

    reconstructor: Reconstructor
    held_out: Callable[[], ShadowModels] | None = None

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """Reconstruct the target of every release, and its label where phi tells it.

        Uses known pixels.

        Raises: FieldError: the release shows something else of theta, or is of another
          victim, than the shadow models.
        """
        del key
        knowledge.require(release)
        images, labels = self.reconstructor.labelled(release)
        if knowledge.known is not None:
            if self.held_out is None:
                raise checks.FieldError(
                    "held_out", "{} shadow models are needed where pixels are known."
                )
            seen = self.held_out()
            guesses = self.reconstructor(publish(seen.weights, release.view))
            errors = seen.images - guesses
            images = knowledge.known.completed(images, errors)
        return Reconstruction(images=images, labels=labels)
