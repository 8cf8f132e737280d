"""Play the attacks of an audit on its models, and record what each achieved.

The attacks are rows of `informed.attacks.registry`; nothing else decides which of them
apply. Each is played by `informed.play` on the same released models. If an attack can't
be played on the user's training function, its trial says why; nothing is raised.
"""

import dataclasses
import tempfile
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from informed.attacks import registry
from informed.attacks.attack_row import Material, Row
from informed.audit import timetable
from informed.audit.findings import AuditStoppedError, Preflight
from informed.audit.subject import ANSWERS, WEIGHTS, Subject
from informed.play import Trial, blank, play, stopped_with
from informed.report import words
from shadow import limits, released
from shadow.data import Examples
from shadow.models import ShadowModels
from shadow.threat import Knowledge, Release, publish
from shadow.views import EVERYTHING, View

Progress = Callable[[str], None]
# Attacks on the page: the one that is exact for any training comes first.
_FIRST = ("inversion", "refined", "kernel", "black box")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Models:
    """Trained models that attacks share.

    Attributes:
      subject: who trained them.
      released: (targets, values), weights followed by predictions.
      shadows: models of public records, weights and predictions likewise; None: there
        are none.
      secret: whether the key was secret.
      seconds: seconds that the shadow models took.
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

    @property
    def knowledge(self) -> Knowledge:
        """What the adversary of Definition 1 of Balle et al. 2022 knows."""
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
    """Refuse released models if none contains a trace of its target.

    Attacks on such models fail, which says nothing of a record that training takes.

    Raises: AuditStoppedError: all of them are the same, though the key is known.
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
    layout = factory.algorithm.layout(factory.fixed)
    shadows = ShadowModels.of(weights, public.take(np.arange(len(weights))), layout)
    return dataclasses.replace(models, shadows=shadows)


def listed(checked: Preflight) -> list[dict[str, Any]]:
    """List every attack for the pre-flight: name, applies, why_not."""
    attacks = []
    for row in timetable.rows():
        why = row.why_not(checked.facts)
        if not why and row.asked:
            why = "only where it is asked for: --reconn"
        attacks.append({"name": row.title, "applies": not why, "why_not": why})
    return attacks


def play_all(
    checked: Preflight,
    models: Models,
    schedule: timetable.Schedule,
    plan: timetable.Budget,
    *,
    skip: Collection[str],
    reconn: bool,
    progress: Callable[[str], None],
) -> tuple[Models, list[Trial]]:
    """Play every attack, or say why it does not apply.

    Returns: the models, with shadow models if an attack needed them; a trial an attack.
    """
    trials: list[Trial] = []
    for row in timetable.rows():
        known: dict[str, Any] = {}
        if row.title in skip:
            known = {"why_not": words.LEFT_OUT}
        elif row.asked and not reconn:
            continue
        elif row.name == "inversion" and not plan.inversion_seconds:
            why = "it would finish no record in its time, which other attacks got"
            known = {"why_not": why, "needs": plan.inversion_of_one}
        elif row.shadows and "shadow models" in schedule.parts and not models.seconds:
            models = with_shadows(
                models,
                plan.most_shadows,
                limit=schedule.limit("shadow models"),
                fewest=timetable.FEWEST_SHADOWS,
                progress=progress,
            )
        limit = 0.0  # An attack that isn't among the parts isn't played, and says why.
        if row.title in schedule.parts:
            limit = schedule.limit(row.title)
            progress(f"{row.title}, at most {words.seconds(limit)}")
        trial = attempt(row, models, checked, limit=limit, known=known)
        trials.append(trial)
    names = (*_FIRST, *(trial.name for trial in trials))
    return models, sorted(trials, key=lambda trial: names.index(trial.name))


def untried(row: Row, models: Models, checked: Preflight, **known: Any) -> Trial:
    """Return the trial of an attack before it is played, or that isn't.

    An attack that doesn't apply for what is wrong with the training alone counts as not
    tried: a seed that was forgotten, or a predict that raises, protects nobody.

    Args:
      known: why_not, and other fields of the trial.
    """
    facts, subject = checked.facts, models.subject
    if why := row.why_not(facts):
        withheld = dict(facts.withheld)
        if checked.subject.unasked:
            del withheld["answers"]
        mended = dataclasses.replace(
            facts,
            deterministic=facts.deterministic or not facts.secret,
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
        # Where equal seeds give other weights, to know the seed is to know nothing.
        secret=models.secret or not subject.deterministic,
        planned=len(models.released),
    )
    return dataclasses.replace(trial, **known)


def attempt(
    row: Row,
    models: Models,
    checked: Preflight,
    *,
    limit: float,
    begun: Trial | None = None,
    known: Mapping[str, Any] = types.MappingProxyType({}),
) -> Trial:
    """Play an attack on the models of an audit, within a time, or say why not.

    Args:
      row: the attack's row in the registry.
      models: the released models, and shadow models where there are some.
      checked: the pre-flight of their training.
      limit: seconds that the attack may take.
      begun: the trial of an inversion that time cut off, and that goes on; None: it
        begins.
      known: why_not, and other fields of the trial of an attack that isn't played.
    """
    trial, subject = begun or untried(row, models, checked, **known), models.subject
    if known or row.why_not(checked.facts):
        return trial
    shadows = models.shadows if row.shadows else None
    if row.shadows and shadows is None:
        return dataclasses.replace(trial, why_not=models.why_no_shadows)
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
            )
    except limits.OutOfTimeError:
        why = f"not one release in {limit:.0f} s"
        return dataclasses.replace(trial, why_not=why)
    except Exception as error:
        # Models and training are the user's; other attacks go on, whatever these raise.
        return dataclasses.replace(trial, why_not=stopped_with(error))
    if row.shadows:
        trial = dataclasses.replace(trial, seconds=trial.seconds + models.seconds)
    return trial


def continued(
    trials: Sequence[Trial],
    models: Models,
    checked: Preflight,
    schedule: timetable.Schedule,
    progress: Callable[[str], None],
) -> list[Trial]:
    """Continue an inversion that ran out of time, in the time others didn't use.

    It does so where it had finished a target and the time is enough for one more.
    """
    outcomes = []
    for trial in trials:
        if trial.name == "inversion" and trial.reconstruction and trial.needs:
            limit = schedule.clock.left
            if limit >= trial.needs:
                progress(f"inversion goes on, at most {words.seconds(limit)}")
                row = registry.find("inversion")
                trial = attempt(row, models, checked, limit=limit, begun=trial)
        outcomes.append(trial)
    return outcomes
