"""A fitted estimator as it is shipped: everything that it stores, not weights alone.

Scalers store means and counts, neighbours rows, forests seeds: most of what an
estimator of scikit-learn's gives away isn't in its coefficients. A pickle or skops file
holds all of it.
"""

import dataclasses
import time

import numpy as np

from informed.attacks.artefacts import reconstruct
from informed.audit import limits, released
from informed.audit.subject import Call, Subject
from informed.audit.trials import ALL_BUT_ONE, Models, Trial, scaled


def artefact(models: Models, *, limit: float) -> Trial:
    """Read the target out of estimators that are fitted on D_- and one target each.

    Args:
      limit: seconds; targets that weren't begun by then aren't counted.
    """
    trial = Trial(
        name="artefact",
        about="what a fitted estimator stores: moments, rows, seeds, counts",
        sees="the fitted estimator, as a file of it holds it",
        knows=ALL_BUT_ONE,
    )
    subject, targets = models.subject, models.targets
    if subject.engine != "processes":
        return dataclasses.replace(trial, why_not="training gives no fitted estimator")
    call, started = subject.call(), time.monotonic()
    shape = subject.fixed.image_shape
    images = np.full((len(targets), *shape), np.nan, np.float32)
    labels = np.full(len(targets), -1)
    certified, finished = np.zeros((2, len(targets)), bool)
    trainings, why = 0, ""
    try:
        with limits.seconds(limit):
            for i in range(len(targets)):
                estimator = _fit(subject, call, models, i)
                trainings += 1
                if not released.is_estimator(estimator):
                    return dataclasses.replace(
                        trial, why_not="training gives no fitted estimator"
                    )
                images[i], labels[i], certified[i] = _read(subject, call, estimator)
                finished[i] = np.isfinite(images[i]).all()
    except limits.OutOfTimeError:
        why = f"out of time after {trainings} of {len(targets)} targets"
    except ValueError as error:  # nothing in it tells anything, of no target
        if not trainings or not finished.any():
            line = str(error).splitlines()[0]
            return dataclasses.replace(trial, why_not=line.rstrip("."))
        why = f"target {trainings} could not be read"
    begun = slice(max(trainings, 1))  # what was begun and not finished isn't found
    return dataclasses.replace(
        trial,
        images=images[begun],
        labels=labels[begun],
        certified=certified[begun],
        finished=finished[begun],
        seconds=time.monotonic() - started,
        trainings=trainings,
        why_not=why,
    )


def _fit(subject: Subject, call: Call, models: Models, i: int) -> object:
    """The estimator that is fitted on D_- and a target, with a seed of its own."""
    fixed, targets = subject.fixed, models.targets
    images = np.concatenate([fixed.images, targets.images[i : i + 1]])
    labels = np.append(fixed.labels, targets.labels[i]).astype(np.int32)
    return call.train(images, labels, subject.seed + i)


def _read(
    subject: Subject, call: Call, estimator: object
) -> tuple[np.ndarray, int, bool]:
    """The image, its label or -1, and whether the row is certain."""
    fixed = subject.fixed
    known = np.asarray(call.inputs(fixed.images)).reshape(len(fixed), -1)
    answer = reconstruct(estimator, known, fixed.labels)
    value = np.asarray(answer.value, np.float64)
    middle = (answer.lower + answer.upper) / 2
    value = np.where(np.isfinite(value), value, middle)
    value = np.where(np.isfinite(value), value, known.mean(axis=0))
    label = -1
    if answer.y is not None and np.size(answer.y) == 1:
        label = int(np.ravel(answer.y)[0])
    return scaled(subject, value), label, bool(answer.certified and answer.exact)
