"""Fewer bits of the released weights: what they leave to attacks, and their cost.

Rounding is no guarantee: that the attacks here find less doesn't say that none
finds more. Noise in training has a bound beside it (`noise`).
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from informed.attacks import registry
from informed.audit import budget
from informed.audit.findings import Preflight
from informed.audit.playing import attempt
from informed.audit.subject import WEIGHTS, Subject
from informed.audit.trained import Models
from informed.metrics import judging
from informed.play import Trial
from shadow import checks, limits, released, rounding
from shadow.data import Examples
from shadow.threat import Release
from shadow.views import Layers

# The rows of a defence, one by one, as they are made.
Rows = Iterator[dict[str, Any]]
_PRECISIONS = tuple(rounding.FORMATS)
# Attacks that defences are held against: those that can be played on what is changed.
_HELD_AGAINST = ("inversion", "kernel", "closed form")
# Targets whose inversion is tried again under each precision: it takes longest.
_INVERTED = 3
# Models whose accuracy is measured under each defence.
_JUDGED = 8


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Bench:
    """What defences are tried on.

    Attributes:
      models: the released and shadow models, undefended.
      checked: what the pre-flight found of their training.
      pool: all that is known to everyone.
      baselines: guesses at the targets without a release; see `judging`.
      clock: what is left of the time for all defences.
    """

    models: Models
    checked: Preflight
    pool: Examples
    baselines: list[judging.Baseline]
    clock: limits.Clock

    def attempt(self, name: str, models: Models | None = None, **named: Any) -> Trial:
        """Play an attack within what is left; see `playing.attempt`.

        Args:
          name: the attack's name in the registry.
          models: None: the undefended ones.
        """
        models = self.models if models is None else models
        named.setdefault("limit", self.clock.left)
        return attempt(registry.find(name), models, self.checked, **named)

    @property
    def subject(self) -> Subject:
        """What is audited."""
        return self.models.subject


def tried(bench: Bench, undefended: Sequence[Trial]) -> list[dict[str, Any]]:
    """Rounding to each format, the undefended release first, until the time is over.

    Returns: rows of name, about, attacks (judged), accuracy, why_not.
    """
    whole = [t for t in undefended if t.name in _HELD_AGAINST and t.images is not None]
    rows = [
        _row(bench, "as it is", "all that is released", whole, bench.models.accuracy)
    ]
    try:
        with limits.seconds(bench.clock.left):
            rows.extend(fewer_bits(bench, undefended))
    except limits.OutOfTimeError:
        rows.append(_not_tried("the remaining formats", "", "out of time"))
    except Exception as error:
        # As in `playing.attempt`; what was measured before is kept.
        why = f"an attack stopped with {checks.named(error)}".rstrip(".")
        rows.append(_not_tried("fewer bits", "", why))
    return rows


def fewer_bits(bench: Bench, undefended: Sequence[Trial]) -> Rows:
    """The weights rounded."""
    subject, layout = bench.subject, bench.subject.layout()
    inversion = next((t for t in undefended if t.name == "inversion"), None)
    for precision in _PRECISIONS:
        view = dataclasses.replace(
            subject.only(WEIGHTS), precision=precision, layout=layout
        )
        about = f"weights rounded to {precision}"
        with np.errstate(over="ignore"):
            rounded = view(np.asarray(bench.models.released, np.float32))
        if not np.isfinite(rounded).all():
            yield _not_tried(precision, about, "weights overflow this format")
            continue
        found = [bench.attempt("kernel", view=view)]
        if inversion is not None and _affordable(bench, inversion):
            found.append(_inverted(bench, rounded, precision))
        if _solved(undefended):
            found.append(bench.attempt("closed_form", _changed(bench, rounded)))
        yield _row(bench, precision, about, found, _accuracy_of(bench, rounded))


def _solved(undefended: Sequence[Trial]) -> bool:
    """Whether the closed form applies; then it costs next to nothing."""
    return any(t.name == "closed form" and t.images is not None for t in undefended)


def _changed(bench: Bench, weights: np.ndarray) -> Models:
    """The released models with other weights, and no answers.

    Args:
      weights: (models, weights).
    """
    return dataclasses.replace(
        bench.models,
        subject=dataclasses.replace(bench.subject, answering=False),
        released=weights,
        shadows=None,
        seconds=0.0,
    )


def _affordable(bench: Bench, inversion: Trial) -> bool:
    """Whether a few more inversions fit in a share of the time."""
    if inversion.finished is None or not inversion.finished.any():
        return False
    each = inversion.seconds / len(inversion.finished)
    return each * _INVERTED < bench.clock.left / (2 * len(_PRECISIONS))


def _inverted(bench: Bench, rounded: np.ndarray, precision: str) -> Trial:
    """Inversion of the first targets' rounded weights."""
    view = Layers(precision=precision, layout=bench.subject.weights_layout)
    theta = bench.subject.only(WEIGHTS)(bench.models.released)[:_INVERTED]
    release = Release(
        values=rounded[:_INVERTED],
        view=view,
        deviations=view.deviations(np.asarray(theta, np.float32)),
    )
    few = dataclasses.replace(bench.models, released=bench.models.released[:_INVERTED])
    return bench.attempt("inversion", few, limit=bench.clock.left / 4, release=release)


def _row(
    bench: Bench,
    name: str,
    about: str,
    found: Sequence[Trial],
    accuracy: float | None,
) -> dict[str, Any]:
    attacks = [
        budget.with_advice(
            judging.judge(t, bench.models.targets, bench.pool, bench.baselines)
        )
        for t in found
    ]
    return _not_tried(name, about, "") | {"attacks": attacks, "accuracy": accuracy}


def _not_tried(name: str, about: str, why: str) -> dict[str, Any]:
    return {
        "name": name,
        "about": about,
        "attacks": [],
        "accuracy": None,
        "why_not": why,
    }


def _accuracy_of(bench: Bench, weights: np.ndarray) -> float | None:
    """Of models with these weights, put back where train had them."""
    subject = bench.subject
    template = bench.checked.returned
    if not subject.answering or template is None:
        return None
    call, right = subject.call(), []
    for theta in weights[:_JUDGED]:
        model = released.with_theta(template, theta)
        try:
            with np.errstate(all="ignore"):
                scores = np.asarray(call.answers(model, subject.held_out.images))
        except (ValueError, ArithmeticError):
            right.append(0.0)  # so changed that it answers no more
            continue
        right.append(np.mean(scores.argmax(axis=1) == subject.held_out.labels))
    return float(np.mean(right))
