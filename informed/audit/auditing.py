"""Run a whole audit: from a user's training function and data to a `Report`.

Users call `audit` and `check`, and so does `informed audit` (`cli.audit_command`). The
steps are a pre-flight, released and shadow models, the attacks on them, attacks on
noisy training beside their bound, and the comparison with the true records. They train
hundreds of models. If the state's ledger has a folder, finished parts are kept there.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from informed.attacks import registry
from informed.attacks.attack_row import Row
from informed.audit import (
    contract,
    engine,
    noise_game,
    preflight,
    subject,
    timetable,
    trials,
)
from informed.audit.audit_state import AuditState
from informed.audit.findings import AuditStoppedError, Preflight
from informed.report import words
from informed.report.document import Report
from shadow import checks, limits, records, sources, tables
from shadow.data import Examples
from shadow.tables import Table

Progress = Callable[[str], None]
# Share of the time for the last steps: judging, pictures, the page.
_LAST = 0.03
# So many times more shadow models than are kept are worth training them anew.
_MANY_MORE = 2
# Parts that the user may skip.
PARTS = ("inversion", "noise")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditConfig:
    """Size, time limit and parts of an audit.

    Attributes:
      targets: largest number of records to attack.
      fixed: size of the set that the adversary knows; None: half of the data, at most
        1,000.
      minutes: time limit of the whole audit.
      threshold: success rate of reconstruction; the least noise that keeps its bound
        there is reported.
      reconn: also train a network that refines the kernel's guesses; takes minutes.
      skip: parts to leave out, from `PARTS`.
      seed: root of the draw of records and of all other randomness.
    """

    targets: int = 20
    fixed: int | None = None
    minutes: float = 10.0
    threshold: float = 0.5
    reconn: bool = False
    skip: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        for part in self.skip:
            checks.choice("skip", part, PARTS)
        checks.at_least("targets", self.targets, 1)
        checks.at_least("seed", self.seed, 0)
        checks.positive("minutes", self.minutes)
        if not 1 / noise_game.CANDIDATES < self.threshold < 1:
            raise checks.FieldError(
                "threshold",
                f"Expected {{}} > 1/{noise_game.CANDIDATES}, as often as one of"
                f" {noise_game.CANDIDATES} candidates is guessed, and < 1, got"
                f" {self.threshold}.",
            )
        if self.fixed is not None:
            checks.at_least("fixed", self.fixed, 1)


def audit(
    train: str | Callable,
    data: str | os.PathLike | Examples | Table | Mapping[str, np.ndarray] | tuple,
    *,
    label: str | None = None,
    data_dir: str | None = None,
    predict: Callable | None = None,
    privacy: Mapping[str, Any] | None = None,
    version: str | None = None,
    progress: Progress = lambda _: None,
    state: AuditState | None = None,
    **config: Any,
) -> Report:
    """Attack what `train` releases, knowing all records but one; return the report.

        audit = informed.audit(train, "mine.npz", targets=20, minutes=10)
        audit.save("audit.html")

    Args:
      train: train(images, labels, key), or "mine.py:train"; see `contract`.
      data: an .npz file (images and labels), a TFDS name, a folder of images a class, a
        .csv table; or (images, labels), a mapping of "images" and "labels",
        `shadow.Examples`, `shadow.tables.Table`.
      label: for a table, the column of labels.
      data_dir: folder of prepared TFDS data sets; None: TFDS_DATA_DIR.
      predict, privacy: see `contract`; needed if the file of `train` lacks them.
      version: names this version of `train` if its source can't be hashed.
      progress: called with the name of every step as it begins.
      state: filled in step by step, for whoever wants a report before the end.
      config: fields of `AuditConfig`.
    Raises: AuditStoppedError: the training function can't be audited; says why;
      ValueError: invalid arguments; RuntimeError: the training function raised.
    """
    state = AuditState() if state is None else state
    state.settings = settings = checks.build(AuditConfig, config, "audit")
    terms = contract.load_training(
        train, predict=predict, privacy=privacy, version=version
    )
    clock = limits.Clock((1 - _LAST) * 60 * settings.minutes, state.started)
    prepared = _prepared(terms, load(data, label=label, data_dir=data_dir), settings)
    state.subject = prepared
    limit = 60 * settings.minutes - clock.passed
    checked = preflight.check(prepared, progress, limit=limit)
    if checked.stops:
        lines = "; ".join(str(finding) for finding in checked.stops)
        raise AuditStoppedError(f"There is nothing to audit yet: {lines}")
    state.subject, state.checked = checked.subject, checked
    if not checked.subject.deterministic:
        state.ledger.remove()  # nothing shows that parts are of this training
    state.ledger.open(_identity(state))
    with timetable.threads_beside(checked.busy):
        _steps(state, clock, progress)
        progress("writing it down")
        report = state.report()
    if state.complete:
        state.ledger.remove()
    return report


def _identity(state: AuditState) -> dict[str, Any]:
    """Return what decides an audit's results, minutes left out, for the ledger."""
    audited, checked = state.subject, state.checked
    settings = dataclasses.asdict(state.settings)
    assert audited is not None
    assert checked is not None
    del settings["minutes"]
    privacy = audited.contract.privacy
    scores: Any = 0.0
    noisy = None
    if privacy is not None and audited.contract.noisy:  # the default may not run it
        one = audited.split.test.take(np.arange(1))
        noisy = checks.digest(audited.factory("released", noise=1.0).train(one))
    if audited.answering:
        shown = audited.held_out.images
        scores = audited.call(answers=True).answers(checked.returned, shown)
    return {
        "training": audited.factory("released", answers=True).identity,
        "privacy": privacy and {name: float(value) for name, value in privacy.items()},
        "known": audited.fixed.sha256,
        "targets": audited.split.test.sha256,
        "public": audited.split.shadow.sha256,
        "asked": audited.held_out.sha256 if audited.answering else None,
        "position": audited.position,
        # Of this run: they differ if a module that training imports was changed.
        "weights": checks.digest(engine.theta_of(checked.returned)),
        "accuracy": checked.accuracy,
        "scores": checks.digest(np.asarray(scores, np.float64)),
        "noisy": noisy,
        "settings": settings,
        "versions": {**records.versions(), **records.packages()},
    }


def _steps(state: AuditState, clock: limits.Clock, progress: Progress) -> None:
    """Train models, play attacks and the noise game; fill in the state."""
    checked, settings, ledger = state.checked, state.settings, state.ledger
    assert checked is not None
    audited = checked.subject
    try:
        plan = timetable.plan(
            minutes=settings.minutes,
            passed=clock.passed,
            seconds_a_model=checked.seconds_a_model,
            targets=settings.targets,
            public=len(audited.split.shadow),
            params=checked.params,
            features=int(np.prod(audited.fixed.image_shape)),
            num_classes=audited.fixed.num_classes,
            differentiable=audited.engine == "jax",
        )
    except checks.FieldError as error:
        state.too_short = (str(error), 2 * clock.passed / 60)
        return
    noise = audited.contract.private or (
        audited.contract.privacy is not None and audited.contract.noisy
    )
    schedule = timetable.schedule(
        clock,
        plan,
        checked.facts,
        skip=settings.skip,
        reconn=settings.reconn,
        noise=noise,
    )
    kept = ledger.part("noise")
    bounds = noise_game.declared(audited, settings.threshold)
    if "noise" in schedule.parts:  # until it was played
        bounds["why_not"] = "no time for any noise multiplier"
    state.bounds = bounds | (kept[1]["bounds"] if kept else {})
    state.models = _released(state, plan, progress)
    trials.require_trace(state.models)
    state.before = clock.passed
    for row in timetable.rows():
        if not row.asked or settings.reconn:
            _play(state, row, schedule, plan, progress)
    if "noise" in schedule.parts:
        noise_game.measured(
            audited,
            state.bounds,
            limit=schedule.limit("noise"),
            seconds_a_model=checked.seconds_a_model,
            progress=progress,
            keep=state.record_bounds,
        )
    continue_inversion(state, schedule, progress)


def _released(
    state: AuditState, plan: timetable.Budget, progress: Progress
) -> trials.Models:
    """Return released models, kept or new, and kept shadow models."""
    assert state.subject is not None
    kept, count = state.ledger.part("released"), plan.targets
    if kept is not None and len(kept[0]["weights"]) >= count:
        models = trials.Models(subject=state.subject, released=kept[0]["weights"])
        shadows = state.ledger.part("shadows")
        return models if shadows is None else models.shadowed(shadows[0]["weights"])
    models = trials.train(state.subject, targets=count, progress=progress)
    state.ledger.keep("released", {"weights": models.released})
    return models


def _play(
    state: AuditState,
    row: Row,
    schedule: timetable.Schedule,
    plan: timetable.Budget,
    progress: Progress,
) -> None:
    """Run an attack, or go on with it, or record why it does not apply."""
    asked = row.title not in state.settings.skip
    if row.shadows and asked and "shadow models" in schedule.parts:
        _train_shadows(state, schedule, plan, progress)
    models, ledger = state.models, state.ledger
    assert models is not None
    count = len(models.released)
    known: dict[str, Any] = {}
    before = ledger.trial(row.title, row.version)
    if row.shadows and before is not None:  # of other shadow models: played again
        shadows = 0 if models.shadows is None else len(models.shadows)
        before = before if before.trainings == shadows else None
    if before is not None and before.finished is not None:
        if len(before.finished) == count and before.finished.all():
            state.trials[row.title] = before
            return
        before = dataclasses.replace(before, planned=count)
    if not asked:
        known = {"why_not": words.LEFT_OUT}
    elif row.name == "inversion" and not plan.inversion_seconds:
        why = "it would finish no record in its time, which other attacks got"
        known = {"why_not": why, "needs": plan.inversion_of_one, "late": True}
    limit = 0.0  # Attacks without a part don't run; their trial says why.
    if row.title in schedule.parts:
        limit = schedule.limit(row.title)
        progress(f"{row.title}, at most {words.seconds(limit)}")
    if row.name == "inversion" and before is not None and before.reconstruction:
        state.trials[row.title] = known["begun"] = before
    _attempt(state, row, limit=limit, **known)


def _train_shadows(
    state: AuditState,
    schedule: timetable.Schedule,
    plan: timetable.Budget,
    progress: Progress,
) -> None:
    """Train shadow models before the first attack that learns from them.

    Those of an earlier call stay unless the time allows many more.
    """
    models, checked = state.models, state.checked
    assert models is not None
    assert checked is not None
    learning = {row.title for row in timetable.rows() if row.shadows}
    if learning & state.trials.keys():
        return
    limit = schedule.limit("shadow models")
    there = 0 if models.shadows is None else len(models.shadows)
    most = min(plan.most_shadows, limit / max(checked.seconds_a_model, 1e-9))
    if there and most <= _MANY_MORE * there:
        return
    state.models = trials.with_shadows(
        models,
        plan.most_shadows,
        limit=limit,
        fewest=max(there + 1, timetable.FEWEST_SHADOWS),
        progress=progress,
    )
    shadows = state.models.shadows
    if shadows is not None and len(shadows) > there:
        state.ledger.keep("shadows", {"weights": shadows.weights})


def _attempt(state: AuditState, row: Row, **settings: Any) -> None:
    """Run an attack on the state's models and record its trial (`trials.attempt`)."""
    assert state.models is not None
    assert state.checked is not None
    state.playing = row.title
    trial = trials.attempt(
        row, state.models, state.checked, keep=state.record, **settings
    )
    state.playing = ""
    state.record(trial)


def continue_inversion(
    state: AuditState, schedule: timetable.Schedule, progress: Progress
) -> None:
    """Continue an inversion that ran out of time, in the time others didn't use.

    `audit` does so if a target was finished and the time is enough for one more.
    """
    trial, limit = state.trials.get("inversion"), schedule.clock.left
    if trial is None or not trial.reconstruction or not trial.needs:
        return
    if limit >= trial.needs:
        progress(f"inversion goes on, at most {words.seconds(limit)}")
        _attempt(state, registry.find("inversion"), limit=limit, begun=trial)


def _prepared(
    terms: contract.Contract,
    loaded: tuple[Examples, Table | None],
    settings: AuditConfig,
) -> subject.Subject:
    """Return the subject of an audit: the function, and the data split for it."""
    examples, table = loaded
    return subject.prepare(
        terms,
        examples,
        targets=settings.targets,
        fixed=settings.fixed,
        table=table,
        seed=settings.seed,
    )


def check(
    train: str | Callable,
    data: Any,
    *,
    label: str | None = None,
    data_dir: str | None = None,
    progress: Progress = lambda _: None,
    limit: float = float("inf"),
    predict: Callable | None = None,
    privacy: Mapping[str, Any] | None = None,
    version: str | None = None,
    **config: Any,
) -> Preflight:
    """Return the result of the pre-flight alone; arguments as for `audit`.

    Args:
      limit: time limit of the whole audit, in seconds; the pre-flight uses a share.
    """
    settings = checks.build(AuditConfig, config, "audit")
    terms = contract.load_training(
        train, predict=predict, privacy=privacy, version=version
    )
    prepared = _prepared(terms, load(data, label=label, data_dir=data_dir), settings)
    return preflight.check(prepared, progress, limit=limit)


def load(
    source: Any, *, label: str | None = None, data_dir: str | None = None
) -> tuple[Examples, Table | None]:
    """Load data of any kind that `audit` accepts, with its table if it is tabular.

    Raises: ValueError, FileNotFoundError, ImportError: see `shadow.load` and `tables`.
    """
    if isinstance(source, Examples):
        return source, None
    if isinstance(source, Mapping):
        if not {"images", "labels"} <= set(source):
            raise ValueError(
                "Expected data to hold images and labels, found"
                f" {', '.join(map(str, source)) or 'nothing'}."
            )
        source = (source["images"], source["labels"])
    if isinstance(source, tuple | list):
        if len(source) != 2:
            raise ValueError(f"Expected data = (images, labels), got {len(source)}.")
        images, labels = map(np.asarray, source)
        checks.require("labels", labels.shape, labels.ndim == 1, "as one per record")
        if images.ndim != 2:
            images = images[..., None] if images.ndim == 3 else images
            if labels.dtype.kind not in "iub" or not labels.size:
                raise checks.FieldError(
                    "labels",
                    "Expected {} to be whole numbers from 0, one a picture, got"
                    f" {labels.size} of type {labels.dtype}.",
                )
            count = int(labels.max()) + 1
            return Examples(images=images, labels=labels, num_classes=count), None
        names = {f"column {i}": images[:, i] for i in range(images.shape[1])}
        source = tables.table_of({**names, "label": labels}, label="label")
    if not isinstance(source, Table):
        if not isinstance(source, str | os.PathLike):
            raise checks.FieldError(
                "data",
                "Expected {} as (images, labels), Examples, a Table or the name of a"
                f" file or data set, got {type(source).__name__}.",
            )
        name = os.fspath(source)
        if Path(name).suffix == tables.SUFFIX:
            source = tables.load_table(name, label=label)
        elif label is not None:
            raise checks.FieldError(
                "label", f"{{}} is of tables ({tables.SUFFIX}), got {name!r}."
            )
        else:
            if Path(name).is_dir() and "/" not in name:
                name = f"./{name}"
            return sources.load(name, data_dir=data_dir), None
    return source.examples, source
