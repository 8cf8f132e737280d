"""Which record it is: train again with the likeliest records of a gallery.

THREAT: as `attacks.inversion`; and the adversary has a gallery that holds the target.

The guesses of other attacks put the gallery in an order. With each of its first records
the training is run again, and the record whose weights come nearest is named. It is
certified where they come out to the last bit, and those of no other record that was
tried. The premise is that the gallery holds the target.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Array

from informed.attacks.attack_row import (
    Material,
    NoSettings,
    NotApplicableError,
    OneByOne,
)
from informed.attacks.inversion.retraining import Programs, Retraining
from shadow.data import Examples
from shadow.parallel import OtherSizeError
from shadow.threat import Knowledge, Reconstruction, Release

# Records that are trained with for each release, at most: the right one is among the
# first few of some attack's order, or training with more doesn't find it.
_MOST, _FEWEST = 64, 2
# Models trained at once; a matter of speed and memory.
_WIDTH = 16


def make(config: NoSettings, material: Material) -> "GalleryAttack":
    """Make the attack of the registry's row.

    Raises: NotApplicableError: no gallery is given.
    """
    if material.gallery is None:
        raise NotApplicableError("no gallery is given")
    return GalleryAttack(
        gallery=material.gallery,
        guesses=material.guesses,
        trainings=material.affordable(),
    )


@dataclasses.dataclass(kw_only=True, eq=False)
class GalleryAttack(OneByOne):
    """An attack that names every target's record out of a gallery.

    Attributes:
      gallery: records, the targets among them.
      guesses: of each other attack, (attempted, height, width, channels) at the first
        releases; NaN where there is none.
      trainings: of all releases together, at most; None: as many as it likes.
      note: what was left out for lack of guesses or time.
    """

    gallery: Examples
    guesses: Sequence[np.ndarray]
    trainings: int | None = None
    note: str = ""

    def each(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Iterator[Reconstruction]:
        """Yield one record of the gallery per release; NaN where no attack has a guess.

        Args:
          release: all weights.
          knowledge: D_- (`fixed`) and A (`algorithm`) are needed.
        """
        knowledge.require(release, "fixed", "algorithm")
        most = min(_MOST, len(self.gallery))
        tried = most
        if self.trainings is not None:
            tried = min(most, self.trainings // len(release))
        if tried < most:
            self.note = f"time for {max(tried, 0)} of {most} records for each target"
        training = Retraining(Programs(knowledge, width=_WIDTH, draws=1, key=key))
        for i in range(len(release)):
            rows = self._likeliest(i, tried) if tried >= _FEWEST else np.arange(0)
            if not len(rows):
                self.note = self.note or "no attack has a guess by which to search"
                yield Reconstruction(
                    images=np.full((1, *self.gallery.image_shape), np.nan, np.float32),
                    labels=np.array([-1]),
                    certified=np.array([False]),
                    trainings=np.array([0]),
                )
                continue
            records = self.gallery.take(rows)
            apart = _apart(training.at(i), records, release.weights[i])
            nearest = int(apart.argmin())
            # Copies of one record are one record.
            copies = records.images == records.images[nearest]
            same = copies.reshape(len(rows), -1).all(axis=1)
            certified = bool(apart[nearest] == 0 and not (apart[~same] == 0).any())
            yield Reconstruction(
                images=records.images[nearest][None].astype(np.float32),
                labels=np.array([int(records.labels[nearest])]),
                certified=np.array([certified]),
                trainings=np.array([len(rows)]),
            )

    def _likeliest(self, release: int, count: int) -> np.ndarray:
        """Return positions in the gallery, nearest first, in turns by each guess."""
        guesses = [
            of_attack[release]
            for of_attack in self.guesses
            if release < len(of_attack) and np.isfinite(of_attack[release]).all()
        ]
        if not guesses:
            return np.arange(0)
        flat = self.gallery.images.reshape(len(self.gallery), -1)
        apart = [np.sum((flat - guess.ravel()) ** 2, axis=1) for guess in guesses]
        merged = np.argsort(apart, axis=1, kind="stable")[:, :count].T.ravel()
        _, first = np.unique(merged, return_index=True)
        return merged[np.sort(first)][:count]


def _apart(training: Retraining, records: Examples, released: np.ndarray) -> np.ndarray:
    """Measure how far each record's weights lie from the released ones.

    Infinitely far where training diverges, and where the model has another size, as
    with a class that no known record has: it can't be the released one.
    """
    try:
        thetas = training.thetas(records.images[:, None], records.labels[:, None])
    except OtherSizeError:
        if len(records) == 1:
            return np.array([np.inf])
        # Halves, so that the records of the released size are trained side by side.
        cut = len(records) // 2
        halves = records.take(slice(None, cut)), records.take(slice(cut, None))
        return np.concatenate([_apart(training, half, released) for half in halves])
    apart = np.linalg.norm(thetas.astype(np.float64) - released[None], axis=1)
    return np.where(np.isfinite(apart), apart, np.inf)
