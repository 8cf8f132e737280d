"""The attacks of an audit: which are played, on what, and what comes of each.

The attacks are rows of `informed.attacks.registry`; nothing else decides which of them
applies. Each is played by `informed.play` on the same released models. What an attack
can't do on a training function of the user's is said in its trial, never raised.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from informed.attacks import registry
from informed.attacks.attack_row import Material, Row
from informed.audit import timetable, trained
from informed.audit.findings import Preflight
from informed.audit.subject import ANSWERS, WEIGHTS
from informed.audit.trained import Models
from informed.play import Trial, blank, play, stopped_with
from informed.report import words
from shadow import limits
from shadow.threat import publish
from shadow.views import EVERYTHING, Layers

# Attacks on the page: the one that is exact for any training comes first.
_FIRST = ("inversion", "kernel", "black box", "reconn")


def rows() -> list[Row]:
    """Return the attacks that audits play, in the order in which they are played."""
    return [row for row in registry.rows().values() if row.audited]


def listed(checked: Preflight) -> list[dict[str, Any]]:
    """List every attack for the pre-flight: name, applies, why_not."""
    attacks = []
    for row in rows():
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
    """Play every attack, or say why it isn't played.

    Returns: the models, with shadow models if an attack needed them; a trial an attack.
    """
    trials: list[Trial] = []
    a_record = plan.trainings_an_inversion * checked.seconds_a_model
    for row in rows():
        if row.title in skip:
            trials.append(untried(row, models, checked, why_not=words.LEFT_OUT))
            continue
        if row.asked and not reconn:
            continue
        if row.shadows and "shadow models" in schedule.parts and not models.seconds:
            models = trained.with_shadows(
                models,
                plan.most_shadows,
                limit=schedule.limit("shadow models"),
                fewest=timetable.FEWEST_SHADOWS,
                progress=progress,
            )
        hopeless = row.name == "inversion" and not plan.inversion_seconds
        if hopeless and not row.why_not(checked.facts):
            why = "it would finish no record in its time, which other attacks got"
            trial = untried(row, models, checked, needs=a_record, why_not=why)
            trials.append(trial)
            continue
        limit = 0.0  # An attack that isn't among the parts isn't played, and says why.
        if row.title in schedule.parts:
            limit = schedule.limit(row.title)
            if row.name == "inversion" and not models.secret:
                seconds, count = schedule.clock.left, len(models.released)
                limit = timetable.of_inversion(seconds, a_record, count) or limit
            progress(f"{row.title}, at most {words.seconds(limit)}")
        trials.append(attempt(row, models, checked, limit=limit, before=trials))
    names = (*_FIRST, *(trial.name for trial in trials))
    return models, sorted(trials, key=lambda trial: names.index(trial.name))


def untried(row: Row, models: Models, checked: Preflight, **known: Any) -> Trial:
    """Return the trial of an attack that isn't played, though it may apply.

    An attack that doesn't apply for what is wrong with the training alone counts as not
    tried: a seed that was forgotten, or a predict that raises, protects nobody.

    Args:
      known: why_not, and other fields of the trial.
    """
    facts = checked.facts
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
    return dataclasses.replace(_blank(row, models), **known)


def attempt(
    row: Row,
    models: Models,
    checked: Preflight,
    *,
    limit: float,
    begun: Trial | None = None,
    view: Layers | None = None,
    release: Any = None,
    before: Sequence[Trial] = (),
) -> Trial:
    """Play an attack on the models of an audit, within a time.

    Args:
      row: the attack's row in the registry.
      models: the released models, and shadow models where there are some.
      checked: the pre-flight of their training.
      limit: seconds that the attack may take.
      begun: the trial of an inversion that time cut off, and that goes on; None: it
        begins.
      view: what is released of weights and answers; None: what the attack sees.
      release: of these models, if it isn't their weights as they are.
      before: attacks that were played before, for those that begin at their guesses.
    """
    if row.why_not(checked.facts):
        return untried(row, models, checked)
    trial, subject = begun or _blank(row, models), models.subject
    shadows = models.shadows if row.shadows else None
    if row.shadows and shadows is None:
        return dataclasses.replace(trial, why_not=models.why_no_shadows)
    if view is None and (row.shadows or row.sees in ("view", "answers")):
        view = subject.only(ANSWERS if row.sees == "answers" else WEIGHTS)
    shown = EVERYTHING if view is None else view
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
            gallery, guesses = None, []
            if row.names:  # all public records and all targets, in random order
                gallery = subject.known_to_all().joined(subject.split.test)
                rng = np.random.default_rng(subject.seed)
                gallery = gallery.take(rng.permutation(len(gallery)))
                alone = [t.images for t in before if t.reads_one]
                guesses = [images for images in alone if images is not None]
            if release is None and row.sees == "estimator":
                release = trained.Estimators(models)
            elif release is None and (view is None or row.sees == "weights"):
                release = models.weights
            elif release is None:
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
                    gallery=gallery,
                    guesses=guesses,
                ),
                release,
                models.knowledge(),
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
    """Let an inversion that time cut off go on with what other attacks left.

    It does so where it had finished a target and the time is enough for one more.
    """
    outcomes = []
    for trial in trials:
        if trial.name == "inversion" and trial.reconstruction and trial.needs:
            limit = schedule.again("inversion")
            if limit >= trial.needs:
                progress(f"inversion goes on, at most {words.seconds(limit)}")
                row = registry.find("inversion")
                trial = attempt(row, models, checked, limit=limit, begun=trial)
        outcomes.append(trial)
    return outcomes


def _blank(row: Row, models: Models) -> Trial:
    """Return the trial of an attack before it is played on the models of an audit."""
    asked = len(models.subject.held_out)
    views = {
        "answers": f"scores for {asked} public records",
        "estimator": "the fitted model",
        "nothing": "nothing",
    }
    sees = views.get(row.sees, "all weights")
    # Where equal seeds give other weights, to know the seed is to know nothing.
    secret = models.secret or not models.subject.deterministic
    return blank(row, sees=sees, secret=secret, planned=len(models.released))
