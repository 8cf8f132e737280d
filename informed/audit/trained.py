"""Released and shadow models of a training function, which its attacks share."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from informed.audit.findings import AuditStoppedError
from informed.audit.subject import WEIGHTS, Subject
from informed.play import stopped_with
from shadow import limits, released
from shadow.data import Examples
from shadow.models import ShadowModels
from shadow.threat import Knowledge, Release, publish

Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Models:
    """Trained models that attacks share.

    Attributes:
      subject: who trained them.
      released: (targets, values), weights, and answers after them.
      shadows: models of public records, weights and answers likewise; None: there are
        none.
      secret: the key was told to nobody.
      seconds: that the shadow models took.
      why_no_shadows: why there are none.
    """

    subject: Subject
    released: np.ndarray
    secret: bool
    shadows: ShadowModels | None = None
    seconds: float = 0.0
    why_no_shadows: str = "no shadow models in this time"

    @property
    def targets(self) -> Examples:
        """The records of the released models."""
        return self.subject.split.test.take(np.arange(len(self.released)))

    @property
    def weights(self) -> Release:
        """The weights alone, as a release of all of theta."""
        return publish(self.subject.only(WEIGHTS)(self.released))

    def knowledge(self) -> Knowledge:
        """Return what the adversary of Definition 1 is told."""
        factory = self.subject.factory("released", secret=self.secret)
        return factory.knowledge(public=self.subject.split.shadow)


@dataclasses.dataclass(frozen=True, eq=False)
class Estimators(Sequence):
    """Fitted estimators, one a target, with the released weights in their arrays.

    Each is fitted when it is asked for. What an estimator stores beside weights, such
    as the steps that its solver took, is its own.

    Attributes:
      models: whose targets they are of.
    """

    models: Models

    def __len__(self) -> int:
        return len(self.models.released)

    def __getitem__(self, i: Any) -> Any:
        if not 0 <= i < len(self):
            raise IndexError(i)
        subject = self.models.subject
        fitted = subject.call().train(*subject.training_set(i), subject.seed + i)
        return released.with_theta(fitted, self.models.weights.weights[i])


def train(
    subject: Subject,
    *,
    targets: int,
    secret: bool = False,
    progress: Progress = lambda _: None,
) -> Models:
    """Train one released model for each of the first targets."""
    progress(f"training {targets} released models")
    factory = subject.factory("released", answers=True, secret=secret)
    weights = factory.train(subject.split.test.take(np.arange(targets)))
    return Models(subject=subject, released=weights, secret=secret)


def require_trace(models: Models) -> None:
    """Refuse released models of which none holds a trace of its target.

    Attacks on such models fail, which says nothing of a record that training takes.

    Raises: AuditStoppedError: all of them are the same.
    """
    weights = models.released
    if models.secret or len(weights) < 2 or not weights.size:
        return
    if not np.ptp(weights, axis=0).any():
        raise AuditStoppedError(
            f"There is nothing to audit: {len(weights)} released models, each with"
            " another record, are the same number by number. Training leaves these"
            " records out, by its seed or a validation split, or doesn't use its"
            " arguments: let it use them, or take another --seed. Records that are left"
            " out aren't protected: another seed takes them."
        )


def with_shadows(
    models: Models,
    count: int,
    *,
    limit: float = float("inf"),
    fewest: int = 1,
    progress: Progress = lambda _: None,
) -> Models:
    """Add shadow models, as many as can be trained in a time.

    Args:
      models: the released models.
      count: of shadow models, at most.
      limit: seconds; what would end after them isn't begun.
      fewest: with fewer there are none.
      progress: called with what is done next.
    """
    if not count or not models.released.shape[1]:
        return models
    public = models.subject.split.shadow
    factory = models.subject.factory("shadow", answers=True, secret=models.secret)
    progress(f"training up to {count} shadow models")
    batches: list[np.ndarray] = []
    clock, last, stopped = limits.Clock(limit), 0.0, ""
    together = factory.models_at_once
    for start in range(0, count, together):
        if batches and last >= clock.left:
            break
        began = clock.passed
        ids = np.arange(start, min(start + together, count))
        try:
            weights = factory.train(public.take(ids), ids=ids)
        except Exception as error:  # the user's own function
            stopped = f"no shadow models: {stopped_with(error)}"
            break
        batches.append(np.asarray(weights, np.float32))
        # The first batch compiles; those after it tell how long a batch takes.
        last = clock.passed - began if start else 0.0
    models = dataclasses.replace(models, seconds=models.seconds + clock.passed)
    if stopped and len(batches) * together < fewest:
        return dataclasses.replace(models, why_no_shadows=stopped)
    weights = np.concatenate(batches)
    if len(weights) < fewest:
        why = f"no shadow models: only {len(weights)} in their time"
        return dataclasses.replace(models, why_no_shadows=why)
    shadows = ShadowModels.of(weights, public.take(np.arange(len(weights))))
    return dataclasses.replace(models, shadows=shadows)
