"""Guess the mean image: the baseline that an attack must beat to show anything.

THREAT: knows the known records D_-, and public images, label and pixels if given. Sees
nothing. Runs play it as `mean_image`.
"""

import numpy as np
from jaxtyping import Array

from informed.attacks.attack_row import Material, NoSettings
from shadow.threat import Attack, Knowledge, Reconstruction, Release


def make(config: NoSettings, material: Material) -> Attack:
    """Build the attack for the registry."""
    return mean_image


def mean_image(release: Release, knowledge: Knowledge, *, key: Array) -> Reconstruction:
    """Guess the mean known image, of the target's label if the label is known.

    The mean has the least expected squared error of all guesses. If a part of the
    target is known, the guess is the best one that is linear in this part.
    """
    knowledge.require(release, "fixed")
    assert knowledge.fixed is not None
    everything, labels = knowledge.fixed.joined(knowledge.public), knowledge.labels
    if labels is None:
        mean = everything.images.mean(axis=0)
        guesses, means = np.stack([mean] * len(release)), mean
    else:
        guesses, means = everything.means(labels), everything.means(everything.labels)
    if knowledge.known is not None:
        guesses = knowledge.known.completed(guesses, everything.images - means)
    return Reconstruction(images=guesses, labels=labels)
