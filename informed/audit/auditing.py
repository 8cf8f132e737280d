"""Run a whole audit: from a user's training function and data to a `Report`.

The steps are a pre-flight, released and shadow models, the attacks on them, attacks on
noisy training beside their bound, and the comparison with the true records.
"""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from informed.audit import (
    contract,
    noise_game,
    preflight,
    ranked_records,
    subject,
    timetable,
    trials,
)
from informed.audit.findings import AuditStoppedError, Preflight
from informed.metrics import judging
from informed.report import document
from informed.report.document import Report
from shadow import checks, files, limits, records, sources, tables
from shadow.data import Examples
from shadow.tables import Table

Progress = Callable[[str], None]
# Share of the time for the last steps: judging, pictures, the page.
_LAST = 0.03
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
    **config: Any,
) -> Report:
    """Attack models that `train` releases, with knowledge of all records but one.

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
      config: fields of `AuditConfig`.
    Raises: AuditStoppedError: the training function can't be audited; says why;
      ValueError: invalid arguments; RuntimeError: the training function raised.
    """
    started = time.monotonic()
    settings = checks.build(AuditConfig, config, "audit")
    checked = check(
        train,
        data,
        label=label,
        data_dir=data_dir,
        progress=progress,
        settings=settings,
        limit=60 * settings.minutes - (time.monotonic() - started),
        predict=predict,
        privacy=privacy,
        version=version,
    )
    if checked.stops:
        lines = "; ".join(str(finding) for finding in checked.stops)
        raise AuditStoppedError(f"There is nothing to audit yet: {lines}")
    audited, table = checked.subject, checked.subject.table
    with timetable.threads_beside(checked.busy):
        clock = limits.Clock((1 - _LAST) * 60 * settings.minutes, started)
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
        schedule = timetable.schedule(
            clock, plan, checked.facts, skip=settings.skip, reconn=settings.reconn
        )
        models = trials.train(
            audited,
            targets=plan.targets,
            # Whoever knows the seed knows the noise.
            secret=audited.contract.privacy is not None,
            progress=progress,
        )
        trials.require_trace(models)
        models, played = trials.play_all(
            checked,
            models,
            schedule,
            plan,
            skip=settings.skip,
            reconn=settings.reconn,
            progress=progress,
        )
        bounds = noise_game.measured(
            audited,
            threshold=settings.threshold,
            limit=schedule.limit("noise") if "noise" in schedule.parts else None,
            seconds_a_model=checked.seconds_a_model,
            progress=progress,
        )
        played = trials.continued(played, models, checked, schedule, progress)
        # Compare the attacks' guesses with the true records.
        progress("writing it down")
        pool, targets = audited.known_to_all, models.targets
        groups = None if table is None else table.groups
        baselines = judging.baselines(targets, pool, groups=groups)
        verdicts = [judging.verdict(t, targets, pool, baselines) for t in played]
        least = judging.thresholds(baselines)
        attacks = [judging.judge(t, targets, pool, baselines) for t in played]
        guesses = [judging.summary(b) for b in baselines]
        ids = audited.split.test_indices
        rows, order = ranked_records.rank(targets, ids, played, verdicts, least)
        pictures = ranked_records.pictures(order, targets, played, baselines)
    values = {
        "schema": document.VERSION,
        "kind": "audit",
        "subject": {
            "train": audited.contract.name,
            "version": audited.contract.version,
            "takes": audited.contract.takes,
            "engine": audited.engine,
            "deterministic": audited.deterministic,
            "data": audited.fixed.name,
            "kind": "table" if table is not None else "images",
            "shape": list(audited.fixed.image_shape),
            "columns": None if table is None else list(table.names),
            "classes": audited.fixed.num_classes,
            "fixed": len(audited.fixed),
            "public": len(audited.split.shadow) + len(audited.held_out),
            "targets": len(targets),
            "params": checked.params,
            "arrays": [[name, list(shape)] for name, shape in checked.arrays],
            "seconds_a_model": checked.seconds_a_model,
            "shadow_models": 0 if models.shadows is None else len(models.shadows),
            "accuracy": audited.accuracy(models.released),
        },
        "preflight": checked.values,
        "baselines": guesses,
        "attacks": [timetable.with_advice(row) for row in attacks],
        "records": rows,
        "bounds": bounds,
        "configuration": dataclasses.asdict(settings),
        "again": "",
        "versions": {**records.versions(), **records.packages()},
        "seconds": round(time.monotonic() - started, 1),
    }
    return Report(values=files.finite(values), pictures={**pictures, "table": table})


def check(
    train: str | Callable,
    data: Any,
    *,
    label: str | None = None,
    data_dir: str | None = None,
    progress: Progress = lambda _: None,
    settings: AuditConfig | None = None,
    limit: float = float("inf"),
    predict: Callable | None = None,
    privacy: Mapping[str, Any] | None = None,
    version: str | None = None,
) -> Preflight:
    """Run the pre-flight alone; arguments as for `audit`.

    Args:
      limit: time limit of the whole audit, in seconds; the pre-flight uses a share.
    """
    settings = AuditConfig() if settings is None else settings
    terms = contract.load_training(
        train, predict=predict, privacy=privacy, version=version
    )
    examples, table = load(data, label=label, data_dir=data_dir)
    prepared = subject.prepare(
        terms,
        examples,
        targets=settings.targets,
        fixed=settings.fixed,
        table=table,
        seed=settings.seed,
    )
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
    if isinstance(source, tuple):
        images, labels = np.asarray(source[0]), np.asarray(source[1])
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
