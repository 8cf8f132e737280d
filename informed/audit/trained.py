"""Released and shadow models of a training function, which its attacks share."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from informed.audit.subject import WEIGHTS, Subject
from informed.play import stopped_with
from shadow import limits, released
from shadow.data import Examples
from shadow.models import ShadowModels
from shadow.threat import Knowledge, Release, publish
from shadow.views import Layers

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
    shadows: ShadowModels | None
    secret: bool
    seconds: float
    why_no_shadows: str = "no shadow models in this time"

    @property
    def count(self) -> int:
        """Released models, and targets."""
        return len(self.released)

    @property
    def targets(self) -> Examples:
        """Of the released models."""
        return self.subject.split.test.take(np.arange(self.count))

    @property
    def weights(self) -> Release:
        """The weights alone, as a release of all of theta."""
        return publish(self.subject.only(WEIGHTS)(self.released))

    @property
    def key(self) -> Any:
        """The adversary's own randomness."""
        return jax.random.key(self.subject.seed)

    @property
    def accuracy(self) -> float | None:
        """Of the released models on public records; None: they can't be asked."""
        return self.subject.accuracy(self.released)

    @property
    def why_incomparable(self) -> str:
        """Why to train again and compare tells nothing; "" where it tells."""
        if self.subject.deterministic or self.secret:
            return ""
        return (
            "equal arguments give other weights, so that training again tells nothing"
        )

    def gallery(self) -> Examples:
        """All public records and all targets, in random order."""
        whole = self.subject.known_to_all().joined(self.subject.split.test)
        rng = np.random.default_rng(self.subject.seed)
        return whole.take(rng.permutation(len(whole)))

    def shown(self, sees: str, view: Layers | None) -> Any:
        """What an attack is shown of these models.

        Args:
          sees: what it sees; see `informed.attacks.attack_row.Row`.
          view: what is released of weights and answers; None: all weights.
        Returns: a release; or fitted estimators, see `Estimators`.
        """
        if sees == "estimator":
            return Estimators(self)
        if view is None or sees == "weights":
            return self.weights
        return publish(np.asarray(self.released, np.float32), view)

    def knowledge(self) -> Knowledge:
        """What the adversary of Definition 1 is told."""
        factory = self.subject.factory("released", secret=self.secret)
        return factory.knowledge(public=self.subject.split.shadow)


def without_trace(models: Models) -> str:
    """That no target left a trace in its released model; "" where one did.

    Attacks on such models fail, which says nothing of a record that training takes.
    """
    weights = models.released
    if models.secret or models.count < 2 or not weights.size:
        return ""
    if np.ptp(weights, axis=0).any():
        return ""
    return (
        f"There is nothing to audit: {models.count} released models, each with another"
        " record, are the same number by number. Training leaves these records out, by"
        " its seed or a validation split, or doesn't use its arguments: let it use"
        " them, or take another --seed. Records that are left out aren't protected:"
        " another seed takes them."
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Estimators(Sequence):
    """Fitted estimators, one a target, with the released weights in their arrays.

    Each is fitted when it is asked for: what it stores beside weights, such as the
    steps that its solver took, is its own.

    Attributes:
      models: whose targets they are of.
    """

    models: Models

    def __len__(self) -> int:
        return self.models.count

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
    shadows: int = 0,
    secret: bool = False,
    progress: Progress = lambda _: None,
) -> Models:
    """Train released models, and shadow models if they are asked for."""
    progress(f"training {targets} released models")
    factory = subject.factory("released", answers=True, secret=secret)
    made = factory.train(subject.split.test.take(np.arange(targets)))
    models = Models(
        subject=subject, released=made, shadows=None, secret=secret, seconds=0.0
    )
    return with_shadows(models, shadows, progress=progress)


def with_shadows(
    models: Models,
    count: int,
    *,
    limit: float = float("inf"),
    fewest: int = 1,
    progress: Progress = lambda _: None,
) -> Models:
    """The same with shadow models, as many as are made in a time.

    Args:
      count: of them, at most.
      limit: seconds; what would end after them isn't begun.
      fewest: with fewer there are none.
    """
    if not count or not models.released.shape[1]:
        return models
    subject = models.subject
    factory = subject.factory("shadow", answers=True, secret=models.secret)
    progress(f"training up to {count} shadow models")
    made: list[np.ndarray] = []
    clock, last, stopped = limits.Clock(limit), 0.0, ""
    together = factory.models_at_once
    for start in range(0, count, together):
        if made and last >= clock.left:
            break
        began = clock.passed
        ids = np.arange(start, min(start + together, count))
        try:
            weights = factory.train(subject.split.shadow.take(ids), ids=ids)
        except Exception as error:  # the user's own function
            stopped = f"no shadow models: {stopped_with(error)}"
            break
        made.append(np.asarray(weights, np.float32))
        # The first batch compiles; those after it tell how long a batch takes.
        last = clock.passed - began if start else 0.0
    seconds = models.seconds + clock.passed
    if stopped and len(made) * together < fewest:
        return dataclasses.replace(models, seconds=seconds, why_no_shadows=stopped)
    weights = np.concatenate(made)
    if len(weights) < fewest:
        why = f"no shadow models: only {len(weights)} in their time"
        return dataclasses.replace(models, seconds=seconds, why_no_shadows=why)
    public = subject.split.shadow.take(np.arange(len(weights)))
    return dataclasses.replace(
        models, shadows=ShadowModels.of(weights, public), seconds=seconds
    )
