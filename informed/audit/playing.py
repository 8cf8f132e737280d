"""The attacks of an audit: which are played, on what, and what comes of each.

The attacks are rows of `informed.attacks.registry`; nothing else decides which of them
applies. Each is played by `informed.play` on the same released models. What an attack
can't do on a training function of the user's is said in its trial, never raised.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from informed.attacks import registry
from informed.attacks.attack_row import Material, Row
from informed.audit import budget
from informed.audit.findings import Preflight
from informed.audit.subject import ANSWERS, WEIGHTS
from informed.audit.trained import Models
from informed.play import Trial, blank, play, stopped_with
from informed.report import words
from shadow import limits
from shadow.models import ShadowModels
from shadow.views import EVERYTHING, Layers


def rows() -> list[Row]:
    """The attacks that audits play, in the order in which they are played."""
    return [row for row in registry.rows().values() if row.audited]


def listed(checked: Preflight) -> list[dict[str, Any]]:
    """Every attack for the pre-flight: name, applies, why_not."""
    found = []
    for row in rows():
        why = row.why_not(checked.facts)
        if not why and row.asked:
            why = "only where it is asked for: --reconn"
        found.append({"name": row.title, "applies": not why, "why_not": why})
    return found


def untried(row: Row, models: Models, checked: Preflight, **known: Any) -> Trial:
    """The trial of an attack that isn't played, though it may apply.

    Args:
      known: why_not, and other fields of the trial.
    """
    why = row.why_not(checked.facts)
    if why:
        known = {"why_not": why, "applies": _by_accident(row, checked)}
    return dataclasses.replace(_blank(row, models), **known)


def _by_accident(row: Row, checked: Preflight) -> bool:
    """Whether an attack doesn't apply for what is wrong with the training alone.

    A seed that was forgotten, or a predict that raises, protects nobody: the attack is
    one that wasn't tried, not one that doesn't apply.
    """
    facts = checked.facts
    withheld = dict(facts.withheld)
    if checked.subject.unasked:
        del withheld["answers"]
    mended = dataclasses.replace(
        facts, deterministic=facts.deterministic or not facts.secret, withheld=withheld
    )
    return not row.why_not(mended)


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
      checked: what the pre-flight found of their training.
      limit: seconds that the attack may take.
      begun: the trial of an inversion that time cut off, and that goes on; None: it
        begins.
      view: what is released of weights and answers; None: what the attack sees.
      release: of these models, if it isn't their weights as they are.
      before: attacks that were played before, for those that begin at their guesses.
    """
    if row.why_not(checked.facts):
        return untried(row, models, checked)
    trial = begun or _blank(row, models)
    if row.shadows and models.shadows is None:
        return dataclasses.replace(trial, why_not=models.why_no_shadows)
    if view is None and (row.shadows or row.sees in ("view", "answers")):
        view = models.subject.only(ANSWERS if row.sees == "answers" else WEIGHTS)
    if row.shadows and models.shadows is not None and view is not None:
        weights = np.asarray(models.shadows.weights)
        if not np.ptp(view(weights), axis=0).any():
            return _without_trace(trial, models, models.shadows)
    clock = limits.Clock(limit)
    try:
        with tempfile.TemporaryDirectory() as folder:
            material = Material(
                shadows=models.shadows,
                view=EVERYTHING if view is None else view,
                workdir=Path(folder),
                key=models.key,
                seconds_a_model=checked.seconds_a_model,
                table=models.subject.table,
                gallery=models.gallery() if row.names else None,
                guesses=[
                    each.images
                    for each in before
                    if row.names and each.reads_one and each.images is not None
                ],
            )
            if release is None:
                release = models.shown(row.sees, view)
            found = play(
                row,
                material,
                release,
                models.knowledge(),
                key=models.key,
                limit=clock.left,
                trial=trial,
                stumbling=True,
            )
    except limits.OutOfTimeError:
        what = f"not one release in {limit:.0f} s"
        return dataclasses.replace(trial, why_not=what)
    except Exception as error:
        # Models and training are the user's; other attacks go on, whatever these raise.
        return dataclasses.replace(trial, why_not=stopped_with(error))
    if row.shadows:
        found = dataclasses.replace(found, seconds=found.seconds + models.seconds)
    return found


def continued(
    trials: Sequence[Trial],
    models: Models,
    checked: Preflight,
    schedule: budget.Schedule,
    progress: Callable[[str], None],
) -> list[Trial]:
    """The same trials; an inversion that time cut off goes on with what others left.

    It does so where it had finished a target and the time is enough for one more.
    """
    done = []
    for trial in trials:
        if trial.name == "inversion" and trial.found and trial.needs:
            limit = schedule.again("inversion")
            if limit >= trial.needs:
                progress(f"inversion goes on, at most {words.seconds(limit)}")
                row = registry.find("inversion")
                trial = attempt(row, models, checked, limit=limit, begun=trial)
        done.append(trial)
    return done


def _blank(row: Row, models: Models) -> Trial:
    """The trial of an attack before it is played on the models of an audit."""
    asked = len(models.subject.held_out)
    views = {
        "answers": f"scores for {asked} public records",
        "estimator": "the fitted model",
        "nothing": "nothing",
    }
    sees = views.get(row.sees, "all weights")
    # Where equal seeds give other weights, to know the seed is to know nothing.
    secret = models.secret or not models.subject.deterministic
    return blank(row, sees=sees, secret=secret, planned=models.count)


def _without_trace(trial: Trial, models: Models, shadows: ShadowModels) -> Trial:
    """Every shadow model shows the same, so nothing but the mean image is left."""
    mean = np.asarray(shadows.images).mean(axis=0, dtype=np.float64)
    return dataclasses.replace(
        trial,
        images=np.stack([mean] * models.count).astype(np.float32),
        finished=np.ones(models.count, bool),
        seconds=models.seconds,
        trainings=len(shadows),
        why_not="what it sees is the same for every model, so it guesses the mean",
    )
