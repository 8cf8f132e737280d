"""The closed-form attack on fitted scikit-learn models, as audits play it.

It is the registry's row `closed_form`. Audits hold records in [0, 1] but the model was
fitted in the units of table columns; `features` and `as_image` convert them, for
`span_attack` too. THREAT: knows the known records D_- with their labels, and sees the
fitted model. Needs neither the training code nor its seed. It calls
`reconstruct_sklearn` for every model.

Source: Balle et al. 2022, Theorem 1; the scaler's means and the span are ours.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array

from informed.attacks.attack_row import Facts, Material, NoSettings, OneByOne
from informed.attacks.closed_form import pipelines
from informed.attacks.impossible import LimitError, ReconstructionImpossibleError
from shadow import released
from shadow.tables import Table
from shadow.threat import Knowledge, Reconstruction, require_told


def applies(facts: Facts) -> str:
    """Return why the attack does not apply to what training returns; "" if it does."""
    fitted = released.is_estimator(facts.returned)
    if fitted and pipelines.supported(facts.returned):
        return ""
    return f"it is for {pipelines.SUPPORTED}"


def make(config: NoSettings, material: Material) -> "EstimatorAttack":
    """Build the attack for the registry."""
    return EstimatorAttack(table=material.table)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class EstimatorAttack(OneByOne):
    """Reconstruct the target of each fitted model."""

    table: Table | None = None  # that records are rows of; None: plain features
    # A reason for every model that gave no row; grows during the attack.
    failures: list[str] = dataclasses.field(default_factory=list)

    def each(
        self, release: Sequence[Any], knowledge: Knowledge, *, key: Array
    ) -> Iterator[Reconstruction]:
        """Yield the target of one fitted model after the other; needs fixed.

        It is the mean known row if a model does not determine its target, and NaN if
        this tool cannot read the model.
        """
        del key
        require_told(knowledge, "fixed")
        assert knowledge.fixed is not None
        fixed = knowledge.fixed
        known = features(self.table, fixed.images)
        self.failures.clear()
        for model in release:
            value, label, certified = known.mean(axis=0), -1, False
            try:
                row = pipelines.reconstruct_sklearn(model, known, fixed.labels)
            except ValueError as error:
                self.failures.append(str(error).rstrip("."))
                impossible = isinstance(error, ReconstructionImpossibleError)
                if isinstance(error, LimitError) or not impossible:
                    # The tool could not look, so the attack did not fail.
                    value = np.full_like(value, np.nan)
            else:
                value, certified = row.value, row.certified
                if row.y is not None and np.size(row.y) == 1:
                    # A regression's output equals the label up to rounding.
                    label = round(float(np.ravel(row.y)[0]))
            image = as_image(self.table, value, fixed.image_shape)
            yield Reconstruction(
                images=image.astype(np.float32)[None],
                labels=np.array([label]),
                certified=np.array([certified]),
                trainings=np.array([1]),
            )

    @property
    def note(self) -> str:
        """Return how many models gave no reconstruction, and why the first did not."""
        count = len(self.failures)
        return f"{count} models gave no target: {self.failures[0]}" if count else ""


def features(table: Table | None, images: np.ndarray) -> np.ndarray:
    """Convert records of [0, 1] to the units in which the model was fitted."""
    rows = images if table is None else table.features(images, np)
    return np.asarray(rows, np.float64).reshape(len(images), -1)


def as_image(table: Table | None, row: np.ndarray, shape: tuple) -> np.ndarray:
    """Convert a row in the model's units to a record of [0, 1]."""
    if table is not None:
        row = table.scaled(row.reshape(1, -1))
    return row.reshape(shape)
