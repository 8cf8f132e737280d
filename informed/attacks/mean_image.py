"""The best guess without the release: what every attack has to beat.

THREAT: knows D_-, and public images where it has them. Sees nothing.
"""

import numpy as np
from jaxtyping import Array

from informed.threat import Knowledge, Reconstruction
from shadow.release import Release


class MeanImage:
    """The mean of all images that the adversary knows, of the label where it is told.

    Among all guesses it has the least expected squared error; where a part of the
    target is known, among those that are linear in it.
    """

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """One image per release; needs fixed, uses public, labels and known."""
        del key
        knowledge.require(release, "fixed")
        assert knowledge.fixed is not None
        images, labels = knowledge.fixed.images, knowledge.fixed.labels
        if knowledge.public is not None:
            images = np.concatenate([images, knowledge.public.images])
            labels = np.concatenate([labels, knowledge.public.labels])
        mean = images.mean(axis=0)
        if knowledge.labels is None:
            guesses = np.stack([mean] * len(release))
            if knowledge.known is not None:
                guesses = knowledge.known.completed(guesses, images - mean)
            return Reconstruction(images=guesses)
        of_label = {
            int(label): images[labels == label].mean(axis=0)
            for label in np.unique(labels)
        }
        told = [of_label.get(int(label), mean) for label in knowledge.labels]
        guesses = np.stack(told)
        if knowledge.known is not None:
            errors = images - np.stack([of_label[int(label)] for label in labels])
            guesses = knowledge.known.completed(guesses, errors)
        return Reconstruction(images=guesses, labels=knowledge.labels)
