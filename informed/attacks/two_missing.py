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
        return self.inversion.several(release, knowledge, self.labels, key=key)
