"""Theorem 1 on scikit-learn's linear models, from their coefficients alone.

THREAT: knows D_- and the estimator's settings, and sees the coefficients. Needs neither
the training code nor its seed, because the optimum doesn't depend on them.

Source: Balle et al. 2022, Theorem 1; `artefacts.glm`.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Array

from artefacts.glm.estimators import reconstruct
from informed.attacks.artefact import as_image, features
from informed.attacks.row import Material, NoSettings
from informed.threat import Knowledge, Reconstruction, require_told
from shadow import released
from shadow.release import Release
from shadow.tables import Table


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LinearEstimatorAttack:
    """Solve the equations of the optimum for the missing record.

    Attributes:
      template: an estimator as training returns it, of a type in
        `artefacts.glm.estimators.SUPPORTED`; a copy takes each release's coefficients.
      table: the table whose rows the records are; None: records are features as they
        are.
    """

    template: Any
    table: Table | None = None

    @classmethod
    def made(cls, config: NoSettings, material: Material) -> "LinearEstimatorAttack":
        """As a row of the registry makes it."""
        return cls(template=material.template, table=material.table)

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """One record per release; NaN where the equations have no solution.

        Args:
          release: weights as the template has them.
          knowledge: D_- (`fixed`) is needed.
        """
        del key
        require_told(knowledge, "fixed")
        assert knowledge.fixed is not None
        fixed = knowledge.fixed
        known = features(self.table, fixed.images)
        images, labels = [], []
        for theta in release.weights:
            model = released.with_theta(self.template, theta)
            try:
                guess: Any = reconstruct(model, known, fixed.labels)
            except (ValueError, ArithmeticError):
                images.append(np.full(fixed.image_shape, np.nan))
                labels.append(-1)
                continue
            guess = guess[0] if isinstance(guess, tuple) else guess
            images.append(as_image(self.table, np.asarray(guess.x), fixed.image_shape))
            # An output of a regression is the label but for rounding.
            labels.append(round(float(guess.y)) if guess.y is not None else -1)
        return Reconstruction(
            images=np.stack(images).astype(np.float32),
            labels=np.array(labels),
            # One fit gives the template, which all releases share.
            trainings=np.eye(1, len(images), dtype=int)[0],
        )
