"""The best guess without the release: what every attack has to beat.

THREAT: knows D_-, and public images where it has them. Sees nothing.
"""

import numpy as np
from jaxtyping import Array

from informed.attacks.attack_row import Material, NoSettings
from shadow.threat import Knowledge, Reconstruction, Release


def make(config: NoSettings, material: Material) -> "MeanImage":
    """Make the attack of the registry's row."""
    return MeanImage()


class MeanImage:
    """An attack that guesses the mean known image, of the label where that is told.

    Among all guesses it has the least expected squared error; where a part of the
    target is known, among those that are linear in it.
    """

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """Guess one image per release; needs fixed, uses public, labels and known."""
        del key
        knowledge.require(release, "fixed")
        assert knowledge.fixed is not None
        everything = knowledge.fixed.joined(knowledge.public)
        images, mean = everything.images, everything.images.mean(axis=0)
        if knowledge.labels is None:
            guesses = np.stack([mean] * len(release))
            if knowledge.known is not None:
                guesses = knowledge.known.completed(guesses, images - mean)
            return Reconstruction(images=guesses)
        guesses = everything.means(knowledge.labels)
        if knowledge.known is not None:
            errors = images - everything.means(everything.labels)
            guesses = knowledge.known.completed(guesses, errors)
        return Reconstruction(images=guesses, labels=knowledge.labels)
