"""Two unknown records at once: the adversary knows all but two, and their labels.

THREAT: as `attacks.inversion`, with one record less, and the labels of both.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Array, Int

from informed.attacks.inversion import InversionConfig, TrainingInversion
from informed.attacks.row import Material
from informed.threat import Knowledge, Reconstruction
from shadow.release import Release


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TwoMissing:
    """Inversion of two unknown records together.

    Attributes:
      inversion: how it is done.
      labels: (releases, 2), the labels of the unknown records, which are told.
    """

    inversion: TrainingInversion
    labels: Int[np.ndarray, "releases 2"]

    @classmethod
    def made(cls, config: InversionConfig, material: Material) -> "TwoMissing":
        """As a row of the registry makes it."""
        assert material.labels is not None
        return cls(
            inversion=TrainingInversion(config=config, progress=material.progress),
            labels=material.labels,
        )

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """See `each`."""
        return Reconstruction.joined(list(self.each(release, knowledge, key=key)))

    def each(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Iterator[Reconstruction]:
        """Two records of one release after the other, in any order within a label."""
        knowledge.require(release, "fixed", "algorithm")
        for i in range(len(release)):
            here = slice(i, i + 1)
            deviations = release.deviations
            one = dataclasses.replace(
                release,
                values=release.weights[here],
                deviations=None if deviations is None else deviations[here],
            )
            start, told = knowledge.initialisation, knowledge
            if start is not None and np.ndim(start) == 2:  # one for each release
                told = dataclasses.replace(knowledge, initialisation=start[here])
            yield from self.inversion.several(one, told, self.labels[here], key=key)
