"""What the pre-flight finds before an audit: faults of training, and measurements.

A faulty function would make every attack's answer worthless. So `preflight` makes
`Finding`s, most with a remedy, and returns a `Preflight`; `auditing` stops on findings
of level "stops". `of_returned`, `of_estimator` and `fault_of` judge what training and
predict returned; nothing is trained here.
"""

import dataclasses
from typing import Any

import numpy as np

from informed.attacks.attack_row import Facts
from informed.attacks.closed_form import pipelines
from informed.audit.engine import theta_of
from informed.audit.subject import Subject
from informed.report import words
from shadow import released
from shadow.data import Examples

LEVELS = ("stops", "weakens", "note")


class AuditStoppedError(ValueError):
    """The audit stops; the message says what the user must fix."""

    # Exit code of the command line.
    exit_code = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """A fault or a remark about the training function, with its remedy.

    Attributes:
      level: "stops" (no audit until the user fixes it), "weakens" (the audit goes on
        but finds or says less), "note".
      what: the finding, in one line.
      remedy: what to do, or "".
    """

    level: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.level}: {self.what}" + (
            f" - {self.remedy}" if self.remedy else ""
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Preflight:
    """The result of a pre-flight; `subject` says how the audit trains models.

    Attributes:
      subject: the audit's subject; the pre-flight has set its engine, deterministic,
        position and answering.
      returned: what training returned for the first target; decides which attacks
        apply.
      findings: most serious first.
      params: length of theta, the weights.
      arrays: names and shapes of what is released.
      seconds_a_model: seconds per model when `at_once` models are trained in parallel:
        the time of all, divided by their number.
      seconds_each: how long one of these models takes.
      at_once: number of models trained in parallel.
      busy: share of the cores used by other jobs when times were measured; None:
        unknown.
      order_matters, key_matters: whether the order of records, and the key, change the
        weights; None: not tried.
      accuracy: one model's accuracy on public records; None: it gives no predictions.
    """

    subject: Subject
    returned: Any
    findings: tuple[Finding, ...]
    params: int
    arrays: tuple[tuple[str, tuple[int, ...]], ...]
    seconds_a_model: float
    seconds_each: float
    at_once: int
    busy: float | None
    order_matters: bool | None
    key_matters: bool | None
    accuracy: float | None

    @property
    def stops(self) -> tuple[Finding, ...]:
        """The findings that stop the audit."""
        return tuple(f for f in self.findings if f.level == "stops")

    @property
    def values(self) -> dict[str, Any]:
        """The findings as JSON values, for the audit's document."""
        return {
            "findings": [dataclasses.asdict(f) for f in self.findings],
            "order_matters": self.order_matters,
            "key_matters": self.key_matters,
            "seconds_each": self.seconds_each,
        }

    @property
    def facts(self) -> Facts:
        """The facts that decide which attacks apply."""
        about = self.subject
        unasked = "models can't be asked: "
        unasked += about.unasked or "no predict(released, images)"
        is_estimator = released.is_estimator(self.returned)
        fitted = "" if is_estimator else "training returns no fitted estimator"
        known = about.call().inputs(about.fixed.images).reshape(len(about.fixed), -1)
        return Facts(
            withheld={
                "answers": "" if about.answering else unasked,
                "estimator": fitted,
            },
            deterministic=about.deterministic,
            secret=about.contract.private,
            returned=self.returned,
            known=known.shape,
        )


def of_returned(returned: Any) -> list[Finding]:
    """Return findings about returned arrays: unusual ones, and ones that are absent."""
    theta, findings = theta_of(returned), []
    if not theta.size:
        findings.append(
            Finding(
                level="stops",
                what=f"{type(returned).__name__} has no arrays of floats, and no attack"
                " here looks at anything else; it may store training records",
                remedy="release coefficients or predictions, not the estimator",
            )
        )
    elif unread := released.unread(returned):
        what = (
            f"no attack here reads the model of {', '.join(unread)}: it isn't arrays of"
            " floats, and may store training records"
        )
        remedy = "release predictions, not the estimator; or make its arrays dense"
        findings.append(Finding(level="stops", what=what, remedy=remedy))
    if bad := int(np.sum(~np.isfinite(theta))):
        what = f"{bad} weights are NaN or infinite"
        remedy = "lower the learning rate, or train for fewer steps"
        findings.append(Finding(level="stops", what=what, remedy=remedy))
    if dropped := released.left_out(returned):
        more = f" and {len(dropped) - 4} more" if len(dropped) > 4 else ""
        what = f"{words.UNREAD} {', '.join(dropped[:4])}{more}"
        remedy = (
            "look yourself whether they hold anything of a record, such as words or"
            " rows"
        )
        findings.append(Finding(level="weakens", what=what, remedy=remedy))
    return findings


def of_estimator(returned: Any) -> Finding | None:
    """Return a warning if an estimator may store data that no attack here reads."""
    if not released.is_estimator(returned) or pipelines.supported(returned):
        return None
    name = type(returned).__name__
    if name in ("MLPClassifier", "MLPRegressor"):
        return Finding(
            level="note",
            what=f"{name} keeps the state of its optimiser beside coefs_ and"
            " intercepts_, and no attack here looks at it",
            remedy="release coefs_ and intercepts_, not the estimator",
        )
    return Finding(
        level="weakens",
        what=f"{words.UNREAD} more of {name} than its arrays of floats; it may store"
        " training records or statistics of them",
        remedy="release coefficients or predictions, not the estimator",
    )


def fault_of(scores: np.ndarray, asked: Examples) -> tuple[str, str]:
    """Return what is wrong with a model's scores, and the remedy; "" if nothing is.

    Args:
      scores: the scores that `predict` returned.
      asked: the records that were queried.
    """
    count, classes = len(asked), asked.num_classes
    if scores.ndim != 2 or len(scores) != count:
        what = f"predict gave an array of shape {scores.shape}"
        return what, f"expected ({count}, classes)"
    if scores.dtype.kind not in "fiub" or not np.isfinite(scores).all():
        remedy = "give scores or probabilities, not the logarithm of zero"
        return "predict gave scores that aren't finite numbers", remedy
    if scores.shape[1] < classes:
        what = f"predict gave {scores.shape[1]} scores for {classes} classes"
        return what, f"expected a column for every label from 0 to {classes - 1}"
    return "", ""
