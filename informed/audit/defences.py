"""Fewer bits of the released weights: what they leave to attacks, and their cost.

Rounding is no guarantee: that the attacks here find less doesn't say that none
finds more. Noise in training has a bound beside it (`noise_game`).
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from informed.attacks import registry
from informed.audit import timetable
from informed.audit.findings import Preflight
from informed.audit.subject import WEIGHTS
from informed.audit.trained import Models
from informed.audit.trials import attempt
from informed.metrics import judging
from informed.play import Trial
from shadow import checks, limits, released, rounding
from shadow.data import Examples
from shadow.threat import Release
from shadow.views import Layers

# Attacks that defences are held against: those that can be played on what is changed.
_HELD_AGAINST = ("inversion", "kernel", "closed form")
# Targets whose inversion is tried again under each precision: it takes longest.
_INVERTED = 3
# Models whose accuracy is measured under each defence.
_JUDGED = 8
_ROW: dict[str, Any] = {"about": "", "attacks": [], "accuracy": None, "why_not": ""}


def tried(
    models: Models,
    checked: Preflight,
    undefended: Sequence[Trial],
    pool: Examples,
    baselines: list[judging.Baseline],
    clock: limits.Clock,
) -> list[dict[str, Any]]:
    """Round to each format, the undefended release first, until the time is over.

    Args:
      models: the released and shadow models, undefended.
      checked: the pre-flight of their training.
      undefended: attacks on the models as they are.
      pool: all that is known to everyone.
      baselines: guesses at the targets without a release; see `judging`.
      clock: what is left of the time for all defences.
    Returns: rows of name, about, attacks (judged), accuracy, why_not.
    """
    held = [t for t in undefended if t.name in _HELD_AGAINST and t.images is not None]
    subject, targets = models.subject, models.targets
    rows = [
        _ROW
        | {
            "name": "as it is",
            "about": "all that is released",
            "attacks": _judged(held, targets, pool, baselines),
            "accuracy": subject.accuracy(models.released),
        }
    ]
    try:
        with limits.seconds(clock.left):
            for precision in rounding.FORMATS:
                row = _ROW | {"name": precision}
                row["about"] = f"weights rounded to {precision}"
                view = dataclasses.replace(
                    subject.only(WEIGHTS), precision=precision, layout=subject.layout()
                )
                with np.errstate(over="ignore"):
                    weights = view(np.asarray(models.released, np.float32))
                if not np.isfinite(weights).all():
                    rows.append(row | {"why_not": "weights overflow this format"})
                    continue
                trials = _attacked(models, checked, undefended, view, weights, clock)
                row["attacks"] = _judged(trials, targets, pool, baselines)
                row["accuracy"] = _accuracy(models, checked, weights)
                rows.append(row)
    except limits.OutOfTimeError:
        rows.append(_ROW | {"name": "the remaining formats", "why_not": "out of time"})
    except Exception as error:
        # As in `trials.attempt`; what was measured before is kept.
        why = f"an attack stopped with {checks.named(error)}".rstrip(".")
        rows.append(_ROW | {"name": "fewer bits", "why_not": why})
    return rows


def _judged(
    trials: Iterable[Trial],
    targets: Examples,
    pool: Examples,
    baselines: list[judging.Baseline],
) -> list[dict[str, Any]]:
    """Judge attacks, and say in what time they would have finished."""
    rows = [judging.judge(trial, targets, pool, baselines) for trial in trials]
    return [timetable.with_advice(row) for row in rows]


def _attacked(
    models: Models,
    checked: Preflight,
    undefended: Sequence[Trial],
    view: Layers,
    weights: np.ndarray,
    clock: limits.Clock,
) -> Iterator[Trial]:
    """Play on rounded weights the attacks that apply to them and fit the time."""
    subject = models.subject
    kernel = registry.find("kernel")
    yield attempt(kernel, models, checked, view=view, limit=clock.left)
    inversion = next((t for t in undefended if t.name == "inversion"), None)
    finished = None if inversion is None else inversion.finished
    if inversion is not None and finished is not None and finished.any():
        a_record = inversion.seconds / len(finished)
        if a_record * _INVERTED < clock.left / (2 * len(rounding.FORMATS)):
            few = dataclasses.replace(models, released=models.released[:_INVERTED])
            layers = Layers(precision=view.precision, layout=subject.weights_layout)
            release = Release(
                values=weights[:_INVERTED],
                view=layers,
                deviations=layers.deviations(
                    np.asarray(few.weights.weights, np.float32)
                ),
            )
            row = registry.find("inversion")
            yield attempt(row, few, checked, limit=clock.left / 4, release=release)
    # Where the closed form applies it costs next to nothing.
    if any(t.name == "closed form" and t.images is not None for t in undefended):
        changed = Models(
            subject=dataclasses.replace(subject, answering=False),
            released=weights,
            secret=models.secret,
        )
        row = registry.find("closed_form")
        yield attempt(row, changed, checked, limit=clock.left)


def _accuracy(models: Models, checked: Preflight, weights: np.ndarray) -> float | None:
    """Measure the accuracy of models with these weights, put where train had them."""
    subject, template = models.subject, checked.returned
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
