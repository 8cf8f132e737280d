"""A fitted estimator as it is shipped: everything that it stores, not weights alone.

Scalers store means and counts, neighbours rows, forests seeds: most of what an
estimator of scikit-learn's gives away isn't in its coefficients. A pickle or skops file
holds all of it.
"""

import collections
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from artefacts import reconstruct, sanitise
from informed.audit import limits
from informed.audit.subject import Call, Subject
from informed.audit.trained import Models
from informed.audit.trials import ALL_BUT_ONE, Trial, scaled

# Fields that are named on the page; more of them don't help anybody to decide.
_NAMED = 3


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Row:
    """What was read of one target.

    Attributes:
      image: (height, width, channels); NaN: nothing was.
      label: or -1.
      certified: whether the artefact itself confirms every feature.
      fields: stored fields that gave features away.
      why: what it stumbled over, or "".
    """

    image: np.ndarray
    label: int
    certified: bool
    fields: tuple[str, ...] = ()
    why: str = ""


def blank(secret: bool = False) -> Trial:
    """The attack without a result."""
    del secret  # it needs no seed
    return Trial(
        name="artefact",
        about="what a fitted estimator stores: moments, rows, seeds, counts",
        sees="the fitted estimator, as a file of it holds it",
        knows=ALL_BUT_ONE,
    )


def artefact(
    models: Models,
    *,
    limit: float,
    shipped: Callable[[Any, np.ndarray], Any] = lambda estimator, known: estimator,
) -> Trial:
    """Read the target out of estimators that are fitted on D_- and one target each.

    Args:
      limit: seconds; targets that weren't begun by then aren't counted.
      shipped: (estimator, known rows) -> what is released of it.
    """
    trial, subject = blank(), models.subject
    trial = dataclasses.replace(trial, planned=models.count)
    call, clock = subject.call(), limits.Clock(limit)
    known = np.asarray(call.inputs(subject.fixed.images))
    known = known.reshape(len(known), -1)
    found: list[_Row] = []
    cut, started = False, time.monotonic()
    try:
        with limits.seconds(limit):
            for i in range(models.count):
                if found and clock.passed / len(found) > clock.left:
                    cut = True
                    break
                data = subject.training_set(i)
                estimator = call.train(*data, subject.seed + i)
                found.append(_read(subject, call, shipped(estimator, known), known))
    except limits.OutOfTimeError:
        cut = True
    if not found:
        return dataclasses.replace(trial, why_not=f"not one target in {limit:.0f} s")
    told = [row for row in found if np.isfinite(row.image).all()]
    why = ""
    if cut:
        each = clock.passed / len(found)
        why = f"out of time after {len(found)} of {models.count} targets"
        trial = dataclasses.replace(trial, needs=each)
    elif not told:
        why = next((row.why for row in found if row.why), "")
    return dataclasses.replace(
        trial,
        images=np.stack([row.image for row in found]),
        labels=np.array([row.label for row in found]),
        certified=np.array([row.certified for row in found]),
        # What was read to the end and tells nothing is finished too.
        finished=np.ones(len(found), bool),
        seconds=time.monotonic() - started,
        trainings=len(found),
        remedy=_remedy(told),
        why_not=why,
    )


def stripped(estimator: Any, known: np.ndarray) -> Any:
    """What is left if it is stripped, its scaler folded into a linear model."""
    return sanitise(estimator, known, known=known, fold=True).estimator


def _read(subject: Subject, call: Call, estimator: Any, known: np.ndarray) -> _Row:
    """What an estimator tells; where that is nothing, the mean of the known rows."""
    fixed = subject.fixed
    mean = scaled(subject, np.nan_to_num(known.mean(axis=0)))
    try:
        answer = reconstruct(estimator, known, fixed.labels)
    except ValueError as error:  # nothing in this one tells anything
        line = str(error).splitlines()[0].rstrip(".")
        return _Row(image=mean.astype(np.float32), label=-1, certified=False, why=line)
    value = np.asarray(answer.value, np.float64)
    with np.errstate(invalid="ignore"):  # an interval without ends
        middle = (answer.lower + answer.upper) / 2
    value = np.where(np.isfinite(value), value, middle)
    value = np.where(np.isfinite(value), value, known.mean(axis=0))
    label = -1
    if answer.y is not None and np.size(answer.y) == 1:
        label = int(np.ravel(answer.y)[0])
    told = zip(answer.sources, answer.determined, strict=True)
    return _Row(
        image=scaled(subject, value).astype(np.float32),
        label=label,
        certified=bool(answer.certified and answer.exact),
        fields=tuple(sorted({field for field, whole in told if field and whole})),
    )


def _remedy(found: list[_Row]) -> str:
    """Which stored fields gave rows away, and what to ship instead."""
    fields = collections.Counter(field for row in found for field in row.fields)
    if not fields:
        return ""
    named = [field for field, _ in fields.most_common(_NAMED)]
    more = f" and {len(fields) - _NAMED} more" if len(fields) > _NAMED else ""
    return (
        f"{', '.join(named)}{more} gave it away: ship informed.sanitise(model,"
        " fold=True).estimator, which leaves out what predictions don't need, or a"
        " table of coefficients"
    )
