"""Train the models of an audit, run an attack on them, and return its trial.

The attacks are rows of `informed.attacks.registry`, which also say when they apply.
`informed.play` runs each on the same released models. `auditing` gets a `Trial` per
attack. If an attack can't run on the user's training function, or fails, its trial says
why and nothing is raised. `audit_state` uses `untried`, and `informed audit --check`
prints `listed`. No attack reads a target; guesses are judged elsewhere.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from informed.attacks.attack_row import Material, Row
from informed.audit import timetable
from informed.audit.findings import AuditStoppedError, Preflight
from informed.audit.subject import ANSWERS, WEIGHTS, Subject
from informed.play import Trial, blank, play, stopped_with
from shadow import limits, released
from shadow.data import Examples
from shadow.models import ShadowModels
from shadow.threat import Knowledge, Release, publish
from shadow.views import EVERYTHING, View

Progress = Callable[[str], None]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Models:
    """Released and shadow models, which all attacks of an audit share.

    Attributes:
      subject: the training function and data.
      released: (targets, values), weights, then predictions if models give them.
      shadows: models on public records, weights followed by predictions; None: there
        are none.
      seconds: seconds that training the shadow models took.
      why_no_shadows: why there are no shadow models.
    """

    subject: Subject
    released: np.ndarray
    shadows: ShadowModels | None = None
    seconds: float = 0.0
    why_no_shadows: str = "no shadow models in this time"

    @property
    def targets(self) -> Examples:
        """The records of the released models."""
        return self.subject.split.test.take(np.arange(len(self.released)))

    def shadowed(self, weights: np.ndarray) -> "Models":
        """Return these models with shadow models of the first public records."""
        subject = self.subject
        public = subject.split.shadow.take(np.arange(len(weights)))
        layout = subject.layout()
        shadows = ShadowModels.of(weights, public, layout)
        return dataclasses.replace(self, shadows=shadows)

    @property
    def weights(self) -> Release:
        """The weights alone, as a release of all of theta."""
        return publish(self.subject.only(WEIGHTS)(self.released))

    @property
    def knowledge(self) -> Knowledge:
        """What the adversary of Definition 1 of Balle et al. 2022 knows."""
        secret = self.subject.contract.private
        factory = self.subject.factory("released", secret=secret)
        return factory.knowledge(public=self.subject.split.shadow)


@dataclasses.dataclass(frozen=True, eq=False)
class Estimators(Sequence):
    """A fitted estimator per target, holding the weights that were released.

    Each is fitted on access. Attributes that aren't weights, such as the number of
    iterations, come from this fit.

    Attributes:
      models: the released models.
    """

    models: Models

    def __len__(self) -> int:
        return len(self.models.released)

    def __getitem__(self, i: Any) -> Any:
        if not 0 <= i < len(self):
            raise IndexError(i)
        subject = self.models.subject
        seed = subject.seed + i
        if not subject.contract.private:  # the seed of the released models is known
            seed = subject.factory("released").public_key
        fitted = subject.call().train(*subject.training_set(i), seed)
        return released.with_theta(fitted, self.models.weights.weights[i])


def train(
    subject: Subject, *, targets: int, progress: Progress = lambda _: None
) -> Models:
    """Return newly trained released models, one for each of the first targets."""
    progress(f"training {targets} released models")
    # Whoever knows the seed knows the noise, so private training has a secret one.
    secret = subject.contract.private
    factory = subject.factory("released", answers=True, secret=secret)
    weights = factory.train(subject.split.test.take(np.arange(targets)))
    return Models(subject=subject, released=weights)


def require_trace(models: Models) -> None:
    """Refuse released models if no target has an effect on its weights.

    Attacks on such models fail, which says nothing about records that have an effect.

    Raises: AuditStoppedError: all models are the same, though the key is known.
    """
    weights = models.released
    private = models.subject.contract.private
    if private or len(weights) < 2 or not weights.size:
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
    """Return the models with shadow models, as many as a time limit allows.

    Args:
      models: the released models.
      count: largest number of shadow models.
      limit: seconds; a batch that would end later isn't begun.
      fewest: smallest useful number; with fewer, none are added.
      progress: called with the name of the step.
    """
    if not count or not models.released.shape[1]:
        return models
    subject, public = models.subject, models.subject.split.shadow
    secret = subject.contract.private
    factory = subject.factory("shadow", answers=True, secret=secret)
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
        # The first batch includes compilation, so its time isn't typical.
        last = clock.passed - began if start else 0.0
    models = dataclasses.replace(models, seconds=models.seconds + clock.passed)
    if (trained := sum(map(len, batches))) < fewest:
        why = stopped or f"no shadow models: only {trained} in their time"
        return dataclasses.replace(models, why_no_shadows=why)
    return models.shadowed(np.concatenate(batches))


def listed(checked: Preflight) -> list[dict[str, Any]]:
    """Return name, applies and why_not of every attack, for the pre-flight."""
    attacks = []
    for row in timetable.rows():
        why = row.why_not(checked.facts)
        if not why and row.asked:
            why = "only where it is asked for: --reconn"
        attacks.append({"name": row.title, "applies": not why, "why_not": why})
    return attacks


def untried(row: Row, checked: Preflight, planned: int, **known: Any) -> Trial:
    """Return the trial of an attack that has not run, or will not run.

    If only a fault of the training function rules the attack out, it counts as not
    tried rather than inapplicable: a forgotten seed or a failing predict protects
    nobody.

    Args:
      known: why_not, and other fields of the trial.
    """
    facts, subject = checked.facts, checked.subject
    if why := row.why_not(facts):
        withheld = dict(facts.withheld)
        if subject.unasked:
            del withheld["answers"]
        mended = dataclasses.replace(
            facts,
            deterministic=True,
            withheld=withheld,
        )
        known = {"why_not": why, "applies": not row.why_not(mended)}
    views = {
        "answers": f"scores for {len(subject.held_out)} public records",
        "estimator": "the fitted model",
        "nothing": "nothing",
    }
    trial = blank(
        row,
        sees=views.get(row.sees, "all weights"),
        # If equal seeds give different weights, knowing the seed doesn't help.
        secret=facts.secret or not subject.deterministic,
        planned=planned,
    )
    return dataclasses.replace(trial, **known)


def attempt(
    row: Row,
    models: Models,
    checked: Preflight,
    *,
    limit: float,
    begun: Trial | None = None,
    keep: Callable[[Trial], None] = lambda _: None,
    **known: Any,
) -> Trial:
    """Run one attack on the models of an audit within a time limit; return its trial.

    Args:
      row: the attack's row in the registry.
      models: the released models, and shadow models if there are any.
      checked: the pre-flight of the training function.
      limit: seconds that the attack may take.
      begun: the trial of an inversion that ran out of time, to continue; None: start.
      keep: called with the trial so far after each target but the last, by attacks that
        go target by target.
      known: why_not, and other fields of the trial, if the attack must not run.
    """
    trial = begun or untried(row, checked, len(models.released), **known)
    subject = models.subject
    if known or row.why_not(checked.facts):
        return trial if begun is None else dataclasses.replace(begun, **known)
    shadows = models.shadows if row.shadows else None
    if row.shadows and shadows is None:
        late = models.seconds > 0  # they had their time
        return dataclasses.replace(trial, why_not=models.why_no_shadows, late=late)
    shown: View = EVERYTHING
    if row.shadows or row.sees in ("view", "answers"):
        shown = subject.only(ANSWERS if row.sees == "answers" else WEIGHTS)
    if shadows is not None and not np.ptp(shown(shadows.weights), axis=0).any():
        count = len(models.released)
        mean = np.asarray(shadows.images).mean(axis=0, dtype=np.float64)
        return dataclasses.replace(
            trial,
            images=np.stack([mean] * count).astype(np.float32),
            finished=np.ones(count, bool),
            seconds=models.seconds,
            trainings=len(shadows),
            why_not="what it sees is the same for every model, so it guesses the mean",
        )
    clock = limits.Clock(limit)
    try:
        with tempfile.TemporaryDirectory() as folder:
            release: Any = models.weights
            if row.sees == "estimator":
                release = Estimators(models)
            elif row.sees in ("view", "answers"):
                release = publish(np.asarray(models.released, np.float32), shown)
            trial = play(
                row,
                Material(
                    shadows=models.shadows,
                    view=shown,
                    workdir=Path(folder),
                    key=subject.key,
                    seconds_a_model=checked.seconds_a_model,
                    table=subject.table,
                ),
                release,
                models.knowledge,
                key=subject.key,
                limit=clock.left,
                trial=trial,
                stumbling=True,
                keep=keep,
            )
    except limits.OutOfTimeError:
        why = f"not one release in {limit:.0f} s"
        return dataclasses.replace(trial, why_not=why, late=True)
    except Exception as error:
        # The user's function may raise anything; the other attacks still run.
        return dataclasses.replace(trial, why_not=stopped_with(error))
    if row.shadows:
        trial = dataclasses.replace(trial, seconds=trial.seconds + models.seconds)
    return trial
