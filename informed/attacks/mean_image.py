"""Guess the mean image: the baseline that an attack must beat to show anything.

THREAT: knows the known records D_-, and public images, label and pixels if given. Sees
nothing. Runs play it as `mean_image`.
"""

import numpy as np
from jaxtyping import Array

from informed.attacks.attack_row import Material, NoSettings
from shadow.threat import Knowledge, Reconstruction, Release


def make(config: NoSettings, material: Material) -> "MeanImage":
    """Build the attack for the registry."""
    return MeanImage()


class MeanImage:
    """Guesses the mean known image, of the target's label if the label is known.

    The mean has the least expected squared error of all guesses. If a part of the
    target is known, the guess is the best one that is linear in this part.
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
