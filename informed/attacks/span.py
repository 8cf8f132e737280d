"""The target off the span of D_-, where inputs first meet a dense layer.

THREAT: knows D_- and sees the weights of that layer, converged or not. Of a linear
model of scikit-learn's that is all: its weights begin at zero. Where a layer begins
elsewhere, two trainings of D_- and a public record each take the beginning off, and
tell what rounding leaves; for these A, its initialisation and its own key are needed.

The direction off the span is a fact of any training whose updates are sums of
gradients; whether A is of that kind, those two trainings tell. A row is guessed only
where levels or sparsity complete the direction; else the guess is the mean of D_-.

Source: ours; `artefacts.span`, docs/span.md.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from artefacts import span
from artefacts.findings import PRECISION, ReconstructionImpossibleError
from artefacts.span import probe
from artefacts.span.basis import Basis
from informed.attacks.artefact import as_image, features
from informed.attacks.row import Facts, Material
from informed.threat import Knowledge, Reconstruction, own_runs, require_told
from shadow import released
from shadow.release import Release
from shadow.tables import Table
from shadow.victims import Slice

# Of what training changed: training in single precision leaves 1e-5 off the span of all
# rows, Adam more than a tenth.
_OFF = 1e-3
# A release's rounding against that of the two trainings: on the networks of
# tests/informed/attacks/test_span.py at most three times as much, where activations lay
# elsewhere.
_SPREAD = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpanConfig:
    """It has no settings."""


def applies(facts: Facts) -> str:
    """A linear estimator needs nothing; anything else is trained again."""
    if released.is_estimator(facts.returned):
        if hasattr(facts.returned, "coef_"):
            return ""
        return "it is for linear models, and for layers whose training can be run again"
    if facts.secret:
        return "the seed is secret"
    if not facts.deterministic:
        return "equal arguments give other weights; see what the pre-flight found"
    return ""


@dataclasses.dataclass(kw_only=True, eq=False)
class _Layer:
    """Weights that inputs meet first, and what they were without the target.

    Attributes:
      part: where they lie in theta.
      start: (units, features), after training on D_- and the public record.
      known: (rows, features), D_- and the public record.
      deviation: (features,), what rounding leaves on the weights of each column.
    """

    part: Slice
    start: np.ndarray
    known: np.ndarray
    deviation: np.ndarray


@dataclasses.dataclass(kw_only=True, eq=False)
class SpanAttack:
    """Read the direction of each target, and complete it.

    Attributes:
      template: an estimator as training returns it, whose copies take each release's
        coefficients; None: the release is of another training.
      table: the table whose rows the records are; None: they are features as they are.
      stumbles: why nothing was read of a release, one line each; grows meanwhile.
    """

    template: Any = None
    table: Table | None = None
    stumbles: list[str] = dataclasses.field(default_factory=list)

    @classmethod
    def made(cls, config: SpanConfig, material: Material) -> "SpanAttack":
        """As a row of the registry makes it."""
        template = material.template
        linear = released.is_estimator(template) and hasattr(template, "coef_")
        return cls(template=template if linear else None, table=material.table)

    def __call__(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Reconstruction:
        """See `each`."""
        return Reconstruction.joined(list(self.each(release, knowledge, key=key)))

    def each(
        self, release: Release, knowledge: Knowledge, *, key: Array
    ) -> Iterator[Reconstruction]:
        """One target after the other.

        Args:
          release: weights, all of them.
          knowledge: D_- (`fixed`) is needed; for layers that don't begin at zero the
            algorithm and what it begins at, and a public record.
        """
        require_told(knowledge, "fixed")
        assert knowledge.fixed is not None
        fixed = knowledge.fixed
        known = features(self.table, fixed.images).astype(np.float64)
        layers: list[_Layer] = []
        # One fit gives the template, which all releases share.
        why, trainings = "", 1
        if self.template is None:
            layers, why = self._layers(knowledge, known, key)
            trainings = 2 if layers else 0
        for theta in release.weights:
            row = None
            try:
                row = self._row(theta, known, layers, why)
            except ReconstructionImpossibleError as error:
                self.stumbles.append(str(error).rstrip("."))
            certified = row is not None and row.certified and row.error <= PRECISION
            value = row.row if row is not None else known.mean(axis=0)
            image = as_image(self.table, value, fixed.image_shape)
            yield Reconstruction(
                images=image.astype(np.float32)[None],
                certified=np.array([certified]),
                trainings=np.array([trainings]),
            )
            trainings = 0

    @property
    def note(self) -> str:
        """Why no target was read, where none was."""
        return self.stumbles[0] if self.stumbles else ""

    def _row(
        self, theta: np.ndarray, known: np.ndarray, layers: list[_Layer], why: str
    ) -> span.Completion | None:
        """A certified row, or the best there is; None: nothing completes it.

        Raises: ReconstructionImpossibleError: nothing can be read.
        """
        if self.template is not None:
            model = released.with_theta(self.template, theta)
            direction = span.read(model.coef_, known)
            lost = probe.of_estimator(model)
            if lost:
                raise ReconstructionImpossibleError(lost)
            return span.complete(direction, known)
        if not layers:
            raise ReconstructionImpossibleError(why)
        best = None
        for layer in layers:
            direction = span.read(
                _weights(layer.part, theta, known.shape[1]),
                layer.known,
                start=layer.start,
                deviation=layer.deviation,
            )
            # The public record joins the span, and is no unknown row.
            found = span.complete(direction, layer.known)
            if found is not None and (best is None or found.certified):
                best = found
        return best

    def _layers(
        self, knowledge: Knowledge, known: np.ndarray, key: Array
    ) -> tuple[list[_Layer], str]:
        """Layers in the span of the rows, by two trainings; or why there are none."""
        public, fixed = knowledge.public, knowledge.fixed
        assert fixed is not None
        if knowledge.algorithm is None or public is None or len(public) < 2:
            return [], "A, or two public records, aren't told"
        if known.shape[0] + 3 >= known.shape[1]:
            return [], (
                f"D_- has {known.shape[0]} rows of {known.shape[1]} features: no"
                " dimension is left off their span"
            )
        start = knowledge.initialisation
        if start is not None and np.ndim(start) != 1:
            return [], "every release begins elsewhere"
        parts = [
            part
            for part in knowledge.algorithm.layout(fixed)
            if len(part.shape) == 2 and known.shape[1] in part.shape
        ]
        if not parts:
            return [], "no dense layer meets the records"
        two = public.take(np.arange(2))
        runs = own_runs(knowledge, jax.random.fold_in(key, 1), width=2)
        made = runs(two.images[:, None], two.labels[:, None], np.zeros(2, int))
        others = features(self.table, two.images).astype(np.float64)
        layers = []
        for part in parts:
            first, second = (_weights(part, row, known.shape[1]) for row in made)
            change = first.astype(np.float64) - second
            rows = np.vstack([known, others])
            if probe.of_weights(change, rows, off_most=_OFF):
                continue
            basis = Basis(rows)
            off = basis.off(change / basis.scale)
            left = max(1, rows.shape[1] - len(basis))
            deviation = np.sqrt((off**2).sum() / (len(off) * left))
            layers.append(
                _Layer(
                    part=part,
                    start=first,
                    known=np.vstack([known, others[:1]]),
                    deviation=_SPREAD * deviation * basis.scale,
                )
            )
        if layers:
            return layers, ""
        return [], (
            "its training leaves the span of its rows, as Adam's updates by coordinate"
            " do: two trainings with other public records differ off the span of both"
        )


def _weights(part: Slice, theta: np.ndarray, width: int) -> np.ndarray:
    """(units, features), a layer's weights; dense layers are stored either way."""
    weights = np.asarray(part.of(theta))
    return weights.T if weights.shape[0] == width else weights
