"""Fewer bits of the released weights: what they leave to attacks, and their cost.

Rounding is no guarantee: that the attacks here find less doesn't say that none
finds more. Noise in training has a bound beside it (`noise_game`).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from informed.audit.findings import Preflight
from informed.audit.subject import WEIGHTS
from informed.audit.trials import Models, attempt_rounded
from informed.play import Trial
from shadow import checks, limits, rounding

# Attacks that defences are held against: those that can be played on what is changed.
_HELD_AGAINST = ("inversion", "kernel", "closed form")
# Models whose accuracy is measured under each defence.
_JUDGED = 8
_ROW: dict[str, Any] = {"about": "", "attacks": [], "accuracy": None, "why_not": ""}


def tried(
    models: Models,
    checked: Preflight,
    undefended: Sequence[Trial],
    clock: limits.Clock,
) -> list[dict[str, Any]]:
    """Round to each format, the undefended release first, until the time is over.

    Args:
      models: the released and shadow models, undefended.
      checked: the pre-flight of their training.
      undefended: attacks on the models as they are.
      clock: what is left of the time for all defences.
    Returns: rows of name, about, attacks (trials), accuracy, why_not.
    """
    subject = models.subject
    played = {t.name: t for t in undefended if t.images is not None}
    rows = [
        _ROW
        | {
            "name": "as it is",
            "about": "all that is released",
            "attacks": [t for name, t in played.items() if name in _HELD_AGAINST],
            "accuracy": subject.accuracy(models.released),
        }
    ]
    try:
        with limits.seconds(clock.left):
            for precision in rounding.FORMATS:
                row = _ROW | {"name": precision}
                row["about"] = f"weights rounded to {precision}"
                view = dataclasses.replace(
                    subject.only(WEIGHTS),
                    precision=precision,
                    layout=subject.layout(),
                )
                with np.errstate(over="ignore"):
                    weights = view(np.asarray(models.released, np.float32))
                if not np.isfinite(weights).all():
                    rows.append(row | {"why_not": "weights overflow this format"})
                    continue
                theta = weights[:_JUDGED]
                row["accuracy"] = subject.accuracy_of(checked.returned, theta)
                row["attacks"] = attempt_rounded(
                    models, checked, played, view, weights, clock
                )
                rows.append(row)
    except limits.OutOfTimeError:
        rows.append(_ROW | {"name": "the remaining formats", "why_not": "out of time"})
    except Exception as error:
        # As in `trials.attempt`; what was measured before is kept.
        why = f"an attack stopped with {checks.named(error)}".rstrip(".")
        rows.append(_ROW | {"name": "fewer bits", "why_not": why})
    return rows
