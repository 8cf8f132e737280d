"""The attacks of an audit as rows: when each applies, how it is played, what stops it.

The pre-flight lists these rows, the audit plays them, the page describes them; nothing
else decides which attack applies. It is decided from what training really returned.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from artefacts.glm.estimators import SUPPORTED
from informed.audit import budget, fitted, limits, trials
from informed.audit.findings import Preflight
from informed.audit.probe import first_line
from informed.audit.trained import Models
from informed.audit.trials import Trial

# What an attack may stumble over in models that hold no trace of a record.
STUMBLES = (ValueError, ArithmeticError, RuntimeError)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditRow:
    """One attack.

    Attributes:
      name: of it; also of its share of the time (`budget.SHARES`).
      blank: (whether the seed is secret) -> the trial without a result: about, sees,
        knows.
      applies: pre-flight -> "", or why it doesn't.
      play: (models, pre-flight, seconds) -> the trial. It keeps its time, and gives
        what it found until then; or raises OutOfTimeError, where that is nothing.
      remedy: what a developer does about it, in a phrase.
      shadows: whether it needs shadow models.
      asked: whether it runs only where it is asked for (`AuditConfig.reconn`).
    """

    name: str
    blank: Callable[[bool], Trial]
    applies: Callable[[Preflight], str]
    play: Callable[[Models, Preflight, float], Trial]
    remedy: str
    shadows: bool = False
    asked: bool = False


def _weights(checked: Preflight) -> str:
    """Attacks on weights need models whose weights can be compared."""
    if checked.subject.comparable:
        return ""
    return "the weights of two models have other shapes"


def _answers(checked: Preflight) -> str:
    if checked.subject.answering:
        return ""
    return "models can't be asked: no predict(released, images)"


def _exact(checked: Preflight) -> str:
    if not checked.subject.deterministic:
        return "equal arguments give other weights; see what the pre-flight found"
    return _weights(checked)


def _linear(checked: Preflight) -> str:
    if type(checked.returned).__name__ in SUPPORTED and checked.is_estimator:
        return _weights(checked)
    return f"it is for estimators of type {', '.join(SUPPORTED)}"


def _estimator(checked: Preflight) -> str:
    return "" if checked.is_estimator else "training returns no fitted estimator"


def _two(checked: Preflight) -> str:
    about = checked.subject
    if about.contract.privacy is not None:
        return "the seed is secret"
    if about.engine != "jax":
        return "it needs derivatives through JAX"
    if len(about.split.test) < 2:
        return "it needs two targets"
    return _exact(checked)


_NOISE = (
    "only noise in training bounds it (DP-SGD, `informed calibrate`); a seed that"
    " nobody is told makes it inexact, and is no guarantee"
)


def _at_once(attack: Callable[[Models, Preflight], Trial]) -> Callable:
    """An attack on all targets together, which finds nothing unless it is finished."""

    def play(models: Models, checked: Preflight, limit: float) -> Trial:
        with limits.seconds(limit):
            return attack(models, checked)

    return play


ROWS: tuple[AuditRow, ...] = (
    AuditRow(
        name="artefact",
        blank=fitted.blank,
        applies=_estimator,
        play=lambda models, checked, limit: fitted.artefact(models, limit=limit),
        remedy="ship what informed.sanitise(model, fold=True) leaves, or a table of"
        " coefficients",
    ),
    AuditRow(
        name="closed form",
        blank=trials.blank_closed_form,
        applies=_linear,
        play=_at_once(
            lambda models, checked: trials.closed_form(models, checked.returned)
        ),
        remedy="only noise in training bounds it (`informed calibrate`); fewer digits"
        " of the coefficients make it inexact",
    ),
    AuditRow(
        name="inversion",
        blank=trials.blank_inversion,
        applies=_exact,
        play=lambda models, checked, limit: trials.inversion(
            models, checked.seconds_a_model, limit=limit
        ),
        remedy=_NOISE,
    ),
    AuditRow(
        name="kernel",
        blank=lambda secret: trials.blank_learned("kernel", secret),
        applies=_weights,
        play=_at_once(lambda models, checked: trials.learned(models)),
        remedy=_NOISE,
        shadows=True,
    ),
    AuditRow(
        name="black box",
        blank=trials.blank_black_box,
        applies=_answers,
        play=_at_once(lambda models, checked: trials.black_box(models)),
        remedy="only noise in training bounds it; labels without scores tell less",
        shadows=True,
    ),
    AuditRow(
        name="reconn",
        blank=lambda secret: trials.blank_learned("reconn", secret),
        applies=_weights,
        play=_at_once(lambda models, checked: trials.learned(models, "reconn")),
        remedy=_NOISE,
        shadows=True,
        asked=True,
    ),
    AuditRow(
        name="two missing",
        blank=trials.blank_several,
        applies=_two,
        play=lambda models, checked, limit: trials.several(models, limit=limit),
        remedy=_NOISE,
    ),
)


def applying(checked: Preflight, skip: Sequence[str], *, reconn: bool) -> list[str]:
    """Names of the rows that are going to be played."""
    return [
        row.name
        for row in ROWS
        if wanted(row, skip, reconn=reconn) and not row.applies(checked)
    ]


def wanted(row: AuditRow, skip: Sequence[str], *, reconn: bool) -> bool:
    """Whether a row isn't left out, and asked for if it has to be.

    Args:
      skip: `AuditConfig.skip`.
      reconn: `AuditConfig.reconn`.
    """
    return row.name not in skip and (reconn or not row.asked)


def play(row: AuditRow, models: Models, checked: Preflight, *, limit: float) -> Trial:
    """Play an attack within a time; what it can't do is in the trial, never raised.

    Args:
      limit: seconds.
    """
    blank = dataclasses.replace(
        row.blank(models.secret), planned=models.count, remedy=row.remedy
    )
    why = row.applies(checked)
    if not why and row.shadows and models.shadows is None:
        why = models.why_no_shadows
    if why:
        return dataclasses.replace(blank, why_not=why)
    clock = limits.Clock(limit)
    try:
        found = row.play(models, checked, limit)
    except limits.OutOfTimeError:
        return trials.cut_off(blank, models, clock.passed)
    except STUMBLES as error:
        what = f"it stopped with {type(error).__name__}: {first_line(error)}"
        return dataclasses.replace(blank, why_not=what.rstrip("."))
    return dataclasses.replace(
        found,
        planned=found.planned or models.count,
        remedy=found.remedy or row.remedy,
    )


def not_begun(row: AuditRow, models: Models, a_record: float) -> Trial:
    """The trial of an inversion that would finish no record in its time.

    Args:
      a_record: seconds that it needs for one, about.
    """
    return dataclasses.replace(
        row.blank(models.secret),
        planned=models.count,
        remedy=row.remedy,
        needs=a_record,
        why_not="it would finish no record in its time, which other attacks got",
    )


def find(name: str) -> AuditRow:
    """The row of a name."""
    return next(row for row in ROWS if row.name == name)


def listed(checked: Preflight, plan: budget.Budget) -> list[dict[str, Any]]:
    """Every row for the pre-flight: name, applies, why_not.

    Args:
      plan: how the time is divided.
    """
    found = []
    for row in ROWS:
        why = row.applies(checked)
        if not why and row.name == "inversion" and not plan.inversion_seconds:
            a_record = plan.trainings_an_inversion * checked.seconds_a_model
            why = (
                "not one target in this time; --minutes"
                f" {budget.advised(a_record, plan.targets)}"
            )
        if not why and row.shadows and not plan.most_shadows:
            why = "no shadow models in this time"
        if not why and row.asked:
            why = "only where it is asked for: --reconn"
        found.append({"name": row.name, "applies": not why, "why_not": why})
    return found
