"""The whole audit: pre-flight, attacks, records, defences; one document at the end."""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from informed.audit import (
    budget as budgets,
)
from informed.audit import (
    contract,
    defences,
    membership,
    noise,
    playing,
    preflight,
    probe,
    records,
    subject,
    trained,
)
from informed.audit.preflight import Preflight
from informed.metrics import judging
from informed.play import Trial
from informed.report import report, words
from informed.report.report import Report
from shadow import checks, files, limits, sources, tables
from shadow import records as versions
from shadow.data import Examples
from shadow.tables import Table

Progress = Callable[[str], None]
# Of the time, for what comes after everything: judging, pictures, the page.
_LAST = 0.03
# Attacks on the page: the one that is exact for any training comes first.
_FIRST = ("inversion", "kernel", "black box", "reconn")
# Of what is left before the defences, for what tells which records fall: a few
PARTS = ("inversion", "membership", "noise", "defences")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditConfig:
    """What an audit does.

    Attributes:
      targets: records that are attacked, at most.
      fixed: size of the set that the adversary knows; None: half of the data, at most
        1,000.
      minutes: time that the whole audit may take.
      threshold: how often reconstruction may succeed, for the least noise.
      reconn: also train the RecoNN, the reconstructor network of the paper; minutes.
      skip: parts that are left out, of `PARTS`.
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
        if not 1 / noise.CANDIDATES < self.threshold < 1:
            raise checks.FieldError(
                "threshold",
                f"Expected {{}} > 1/{noise.CANDIDATES}, as often as one of"
                f" {noise.CANDIDATES} candidates is guessed, and < 1, got"
                f" {self.threshold}.",
            )
        if self.fixed is not None:
            checks.at_least("fixed", self.fixed, 1)


class AuditStoppedError(ValueError):
    """The pre-flight found what has to be mended first; the message says how."""

    # The status with which the command line ends.
    exit_code = 3


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
    **config: Any,
) -> Report:
    """Could someone who knows the rest read one record out of what this training ships?

        audit = informed.audit(train, "mine.npz", targets=20, minutes=10)
        audit.save("audit.html")

    Args:
      train: train(images, labels, key), or "mine.py:train"; see `contract`.
      data: an .npz file (images and labels, or embeddings and labels), a TFDS name, a
        folder of images a class, a .csv table; or (images, labels), a
        mapping of "images" or "embeddings" and "labels", `shadow.Examples`,
        `shadow.tables.Table`.
      label: the column of labels, of a table.
      data_dir: folder of prepared TFDS data sets; None: TFDS_DATA_DIR.
      predict, privacy: where they aren't in the file of `train`.
      version: of `train`, where its source can't be hashed.
      progress: called with what is done next.
      config: fields of `AuditConfig`.
    Raises: AuditStoppedError: see the message; ValueError: arguments that can't be;
      RuntimeError: the training function raised.
    """
    started = time.monotonic()
    settings = checks.build(AuditConfig, config, "audit")
    limit = 60 * settings.minutes - (time.monotonic() - started)
    given: dict[str, Any] = {"label": label, "data_dir": data_dir}
    given |= {"predict": predict, "privacy": privacy, "version": version}
    given |= {"progress": progress, "settings": settings, "limit": limit}
    checked = check(train, data, **given)
    if checked.stops:
        lines = "; ".join(str(finding) for finding in checked.stops)
        raise AuditStoppedError(f"There is nothing to audit yet: {lines}")
    with probe.threads_beside(checked.busy):
        return _run(checked, settings, progress, started)


def check(
    train: str | Callable,
    data: Any,
    *,
    label: str | None = None,
    data_dir: str | None = None,
    progress: Progress = lambda _: None,
    settings: AuditConfig | None = None,
    limit: float = float("inf"),
    **contract_: Any,
) -> Preflight:
    """The pre-flight alone; arguments as for `audit`.

    Args:
      limit: seconds of the audit that it belongs to.
      contract_: predict, privacy and version; see `contract.load`.
    """
    settings = AuditConfig() if settings is None else settings
    found = contract.load(train, **contract_)
    if found.privacy is not None:
        noise.declared(found.privacy, given=found.noisy, default=found.default_noise)
    examples, table = load(data, label=label, data_dir=data_dir)
    prepared = subject.prepare(
        found,
        examples,
        targets=settings.targets,
        fixed=settings.fixed,
        table=table,
        seed=settings.seed,
    )
    return preflight.check(prepared, progress, limit=limit)


def load(
    source: Any,
    *,
    label: str | None = None,
    data_dir: str | None = None,
) -> tuple[Examples, Table | None]:
    """The data, of whatever kind; see `audit`.

    Raises: ValueError, FileNotFoundError, ImportError: see `shadow.load` and `tables`.
    """
    if isinstance(source, Table):
        return source.examples, source
    if isinstance(source, Examples):
        return source, None
    if isinstance(source, Mapping):
        if tables.EMBEDDINGS in source:
            table = tables.embeddings_of(source, "data")
            return table.examples, table
        if not {"images", "labels"} <= set(source):
            raise ValueError(
                "Expected data to hold labels, and images or embeddings, found"
                f" {', '.join(map(str, source)) or 'nothing'}."
            )
        source = (source["images"], source["labels"])
    if isinstance(source, tuple):
        images, labels = np.asarray(source[0]), np.asarray(source[1])
        if images.ndim == 2:
            names = {f"column {i}": images[:, i] for i in range(images.shape[1])}
            table = tables.table_of({**names, "label": labels}, label="label")
            return table.examples, table
        images = images[..., None] if images.ndim == 3 else images
        if labels.dtype.kind not in "iub" or not labels.size:
            raise checks.FieldError(
                "labels",
                f"Expected {{}} to be whole numbers from 0, one a picture, got"
                f" {labels.size} of type {labels.dtype}.",
            )
        count = int(labels.max()) + 1
        return Examples(images=images, labels=labels, num_classes=count), None
    name = os.fspath(source)
    if tables.holds_embeddings(name):
        table = tables.load_embeddings(name)
        return table.examples, table
    if Path(name).suffix == tables.SUFFIX:
        table = tables.load_table(name, label=label)
        return table.examples, table
    if label is not None:
        raise checks.FieldError(
            "label", f"{{}} is of tables ({tables.SUFFIX}), got {name!r}."
        )
    if Path(name).is_dir():
        name = f"./{name}" if "/" not in name else name
    return sources.load(name, data_dir=data_dir), None


def _run(
    checked: Preflight, settings: AuditConfig, progress: Progress, started: float
) -> Report:
    """Everything after the pre-flight, within what is left of the time."""
    about = checked.subject
    clock = limits.Clock((1 - _LAST) * 60 * settings.minutes, started)
    plan = budgets.plan(
        minutes=settings.minutes,
        passed=clock.passed,
        seconds_a_model=checked.seconds_a_model,
        targets=settings.targets,
        public=len(about.split.shadow),
        params=checked.params,
        features=int(np.prod(about.fixed.image_shape)),
        num_classes=about.fixed.num_classes,
        differentiable=about.engine == "jax",
    )
    secret = about.contract.privacy is not None  # who knows the seed knows the noise
    models = trained.train(
        about, targets=plan.targets, secret=secret, progress=progress
    )
    if why := trained.without_trace(models):
        raise AuditStoppedError(why)
    about = models.subject
    checked = dataclasses.replace(checked, subject=about)
    schedule = budgets.Schedule(clock, _parts(checked, settings, plan))
    models, found = _attacks(checked, models, settings, plan, schedule, progress)
    members: list[dict[str, Any]] = []
    if "membership" in schedule.parts:
        progress("membership")
        limit = schedule.limit("membership")
        members = [membership.of_two(models, checked.seconds_a_model, limit=limit)]
    skipped = "noise" not in schedule.parts
    bounds = noise.measured(
        about,
        threshold=settings.threshold,
        limit=0.0 if skipped else schedule.limit("noise"),
        seconds_a_model=checked.seconds_a_model,
        skipped=skipped,
        progress=progress,
    )
    found = playing.continued(found, models, checked, schedule, progress)
    pool, targets = about.known_to_all(), models.targets
    groups = None if about.table is None else about.table.groups
    baselines = judging.baselines(targets, pool, groups=groups)
    ids = about.split.test_indices
    ranking = records.rank(targets, pool, ids, found, baselines)
    shown = records.pictures(ranking.order, targets, found, baselines)
    stops: list[dict[str, Any]] = []
    if "defences" in schedule.parts:
        progress("trying what stops it")
        bench = defences.Bench(
            models=models,
            checked=checked,
            pool=pool,
            baselines=baselines,
            clock=limits.Clock(schedule.limit("defences")),
        )
        stops = defences.tried(bench, found)
    progress("writing it down")
    judged = [judging.judge(t, targets, pool, baselines) for t in found]
    guesses = [judging.summary(b, targets, pool) for b in baselines]
    values = {
        "schema": report.VERSION,
        "kind": "audit",
        "subject": _about(checked, models, stops),
        "preflight": checked.values,
        "baselines": guesses,
        "attacks": [budgets.with_advice(row) for row in judged],
        "membership": members,
        "records": ranking.rows,
        "defences": stops,
        "bounds": bounds,
        "configuration": dataclasses.asdict(settings),
        "again": "",
        "versions": {**versions.versions(), **versions.packages()},
        "seconds": round(time.monotonic() - started, 1),
    }
    return Report(
        values=files.finite(values),
        pictures={**shown, "table": about.table},
    )


def _parts(
    checked: Preflight, settings: AuditConfig, plan: budgets.Budget
) -> list[str]:
    """The parts of `budget.shares` that are going to run."""
    facts = checked.facts
    running = {
        row.title
        for row in playing.rows()
        if row.title not in settings.skip
        and (settings.reconn or not row.asked)
        and not row.why_not(facts)
    }
    if not plan.inversion_seconds:
        running.discard("inversion")
    learned = {row.title for row in playing.rows() if row.shadows}
    if running & learned and plan.most_shadows:
        running.add("shadow models")
    else:
        running -= learned
    if checked.subject.contract.privacy is not None:
        running.add("noise")
    running |= {"membership", "defences"}
    return [part for part in budgets.shares() if part in running - set(settings.skip)]


def _attacks(
    checked: Preflight,
    models: trained.Models,
    settings: AuditConfig,
    plan: budgets.Budget,
    schedule: budgets.Schedule,
    progress: Progress,
) -> tuple[trained.Models, list[Trial]]:
    """Every row is played, or says why it isn't; models with shadow models."""
    found: list[Trial] = []
    a_record = plan.trainings_an_inversion * checked.seconds_a_model
    for row in playing.rows():
        if row.title in settings.skip:
            left_out = playing.untried(row, models, checked, why_not=words.LEFT_OUT)
            found.append(left_out)
            continue
        if row.asked and not settings.reconn:
            continue
        if row.shadows and "shadow models" in schedule.parts and not models.seconds:
            models = trained.with_shadows(
                models,
                plan.most_shadows,
                limit=schedule.limit("shadow models"),
                fewest=budgets.FEWEST_SHADOWS,
                progress=progress,
            )
        hopeless = row.name == "inversion" and not plan.inversion_seconds
        if hopeless and not row.why_not(checked.facts):
            why = "it would finish no record in its time, which other attacks got"
            found.append(
                playing.untried(row, models, checked, needs=a_record, why_not=why)
            )
            continue  # An attack that isn't among the parts isn't played, and says why.
        limit = 0.0
        if row.title in schedule.parts:
            limit = schedule.limit(row.title)
            if row.name == "inversion" and not models.secret:
                left = schedule.clock.left
                limit = budgets.of_inversion(left, a_record, models.count) or limit
            progress(f"{row.title}, at most {words.seconds(limit)}")
        found.append(playing.attempt(row, models, checked, limit=limit, before=found))
    names = (*_FIRST, *(trial.name for trial in found))
    return models, sorted(found, key=lambda trial: names.index(trial.name))


def _about(
    checked: Preflight, models: trained.Models, stops: list[dict[str, Any]]
) -> dict[str, Any]:
    about = checked.subject
    table = about.table
    # Of all that are judged, where defences are; else of the pre-flight's one model.
    accuracy = stops[0]["accuracy"] if stops else checked.accuracy
    return {
        "train": about.contract.name,
        "version": about.contract.version,
        "takes": about.contract.takes,
        "engine": about.engine,
        "deterministic": about.deterministic,
        "data": about.fixed.name,
        "kind": "table" if table is not None else "images",
        "shape": list(about.fixed.image_shape),
        "columns": None if table is None else list(table.names),
        "classes": about.fixed.num_classes,
        "fixed": len(about.fixed),
        "public": len(about.split.shadow) + len(about.held_out),
        "targets": len(models.targets),
        "params": checked.params,
        "arrays": [[name, list(shape)] for name, shape in checked.arrays],
        "seconds_a_model": checked.seconds_a_model,
        "shadow_models": 0 if models.shadows is None else len(models.shadows),
        "accuracy": accuracy,
    }
