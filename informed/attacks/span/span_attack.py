"""The attack on networks that reads the target from a first layer, as a registry row.

Runs and audits play it as `span`. THREAT: knows D_-, sees all weights, and reads those
of a dense first layer; see docs/span.md. Two trainings on D_- with one record
duplicated test the updates, measure rounding, and give the layer's weights without the
target, to be subtracted. These trainings need the code, and its initial weights and
seed unless the layer starts at zero.

If columns take few values (*levels*), these complete the direction to a row. Otherwise,
or if that fails, a search by training on guesses (`guess_search`) looks for the n + 1
numbers that n known records leave open. There is no search for tables, nor if the layer
shows several directions. Without a row the guess is the mean of D_-. Source: ours.
"""

import dataclasses
from collections.abc import Iterator

import jax
import numpy as np
from jaxtyping import Array

from informed.adversary_runs import adversary_runs
from informed.attacks.attack_row import Facts, Material, NotApplicableError, OneByOne
from informed.attacks.closed_form import pipelines
from informed.attacks.closed_form.estimator_attack import as_image, features
from informed.attacks.impossible import (
    LimitError,
    NoTraceError,
    ReconstructionImpossibleError,
)
from informed.attacks.span import columns, first_layers, lattice
from informed.attacks.span.completion import PRECISION, Completion
from informed.attacks.span.direction import read as read_direction
from informed.attacks.span.guess_search import Trained, search
from shadow import checks, released
from shadow.tables import Table
from shadow.threat import Knowledge, Reconstruction, Release, require_told

# Trainings at once: in a compiled program, as many as a step tries; in processes, as
# many as one call may ask for.
_TOGETHER, _MANY = 2, 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanConfig:
    """Settings of the span attack.

    Attributes:
      trainings: largest number of trainings per target, used if levels don't
        complete the direction; 0: none. A network of 32 units on letters of
        784 pixels, 300 of them known, needed 100 to 500.
    """

    trainings: int = 1000

    def __post_init__(self) -> None:
        checks.at_least("trainings", self.trainings, 0)


def applies(facts: Facts) -> str:
    """Return why the attack does not apply to a training function; "" if it does."""
    if released.is_estimator(facts.returned):
        if hasattr(facts.returned, "coef_"):
            if pipelines.supported(facts.returned):
                return "closed form reads linear models off their span as well"
        elif not hasattr(facts.returned, "coefs_"):
            return "it is for networks"
    if facts.known is not None and (why := first_layers.spanned(*facts.known)):
        return why
    return "the seed is secret" if facts.secret else facts.why_not_again


def make(config: SpanConfig, material: Material) -> "SpanAttack":
    """Build the attack for the registry."""
    return SpanAttack(config=config, table=material.table)


@dataclasses.dataclass(kw_only=True, eq=False)
class SpanAttack(OneByOne):
    """Read the direction of each target, and complete it to a row."""

    config: SpanConfig = dataclasses.field(default_factory=SpanConfig)
    table: Table | None = None  # that records are rows of; None: plain features
    # A reason for every release without a trace; grows during the attack.
    stumbles: list[str] = dataclasses.field(default_factory=list)

    def each(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Iterator[Reconstruction]:
        """Yield the target of one release after the other; needs fixed and algorithm.

        Layers that don't start at zero also need the initialisation. Uses labels.

        Raises: NotApplicableError: no first layer of such models can be read.
          LimitError: this tool can't read them, but another might.
        """
        require_told(knowledge, "fixed")
        assert knowledge.fixed is not None
        shape = knowledge.fixed.image_shape
        known = features(self.table, knowledge.fixed.images)
        layers, why = first_layers.find(knowledge, known, key)
        if not layers:
            raise NotApplicableError(why)
        # `first_layers` took three trainings.
        trainings = 3
        self.stumbles.clear()
        trained = self._trainer(knowledge, key)
        for i, theta in enumerate(release.weights):
            row = None
            try:
                row, more = self._of_layers(layers, theta, known, knowledge, trained, i)
                trainings += more
            except NoTraceError as error:
                # The release doesn't hold this target; others may hold theirs.
                self.stumbles.append(str(error).rstrip("."))
            except LimitError:
                raise
            except ReconstructionImpossibleError as error:
                # This depends on known rows and training only, so on no release.
                raise NotApplicableError(str(error).rstrip(".")) from error
            certified = row is not None and row.certified and row.error <= PRECISION
            value = row.row if row is not None else known.mean(axis=0)
            image = as_image(self.table, value, shape)
            yield Reconstruction(
                images=image.astype(np.float32)[None],
                certified=np.array([certified]),
                exact_if_levels=np.array([certified and bool(row and row.premise)]),
                trainings=np.array([trainings]),
            )
            trainings = 0

    @property
    def note(self) -> str:
        """Return why the first release without a trace was not read; "": none was."""
        return self.stumbles[0] if self.stumbles else ""

    def _of_layers(
        self,
        layers: list[first_layers.Layer],
        theta: np.ndarray,
        known: np.ndarray,
        knowledge: Knowledge,
        trained: Trained | None,
        number: int,
    ) -> tuple[Completion | None, int]:
        """Read the row from one of the first layers; count the trainings it took."""
        best: Completion | None = None
        missing, directions = NoTraceError(), []
        for layer in (layer.released(theta) for layer in layers):
            try:
                direction = read_direction(
                    layer.of(theta), known, start=layer.start, deviation=layer.deviation
                )
            except NoTraceError as error:  # another layer may hold one
                missing = error
                continue
            completed = lattice.complete(direction, known)
            if completed is not None and layer.blind.any():
                completed = dataclasses.replace(
                    completed,
                    certified=False,
                    determined=completed.determined & ~layer.blind,
                    why="training overlooks or overwrites some columns",
                )
            if completed is not None and completed.certified:
                return completed, 0
            best = best or completed
            directions.append((direction, layer))
        if not directions:
            raise missing
        direction, layer = min(directions, key=lambda pair: pair[0].error)
        if trained is None or not self.config.trainings or direction.rank != 1:
            return best, 0
        assert knowledge.fixed is not None
        labels = list(range(knowledge.fixed.num_classes))
        if knowledge.labels is not None:
            labels = [int(knowledge.labels[number])]
        return search(
            direction,
            layer,
            theta,
            (known, knowledge.fixed.labels),
            labels,
            trained,
            columns.of(known),
            self.config.trainings,
        )

    def _trainer(self, knowledge: Knowledge, key: Array) -> Trained | None:
        """Return a function that trains A on guesses; None: records aren't features."""
        fixed = knowledge.fixed
        assert fixed is not None
        assert knowledge.algorithm is not None
        if self.table is not None:
            return None
        batched = knowledge.algorithm.capabilities.batched
        runs = adversary_runs(
            knowledge, jax.random.fold_in(key, 1), width=_TOGETHER if batched else _MANY
        )

        def trained(rows: np.ndarray, label: int) -> np.ndarray:
            images = rows.astype(np.float32).reshape(-1, 1, *fixed.image_shape)
            labels = np.full((len(rows), 1), label, fixed.labels.dtype)
            return runs(images, labels, np.zeros(len(rows), int))

        return trained
