"""The whole audit: pre-flight, attacks, records, defences; one document at the end."""

import dataclasses
import json
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
    fitted,
    judging,
    limits,
    membership,
    noise,
    preflight,
    records,
    subject,
    trials,
)
from informed.audit.document import Document, finite
from informed.audit.preflight import Preflight
from shadow import checks, data, tables
from shadow import records as versions
from shadow.data import Examples
from shadow.tables import Table

Progress = Callable[[str], None]
_SEVERAL, _NOISE = 0.05, 0.3  # shares of the time
_DEFENCES = 0.1  # at least
_READING = 0.25  # at most, for fitted estimators
_SHOWN = 12


PARTS = ("inversion", "two missing", "membership", "noise", "defences")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditConfig:
    """What an audit does.

    Attributes:
      targets: records that are attacked, at most.
      fixed: size of the set that the adversary knows; None: half of the data, at most
        1,000.
      minutes: for everything.
      threshold: how often reconstruction may succeed, for the least noise.
      reconn: also train the RecoNN, the reconstructor network of the paper; minutes.
      skip: parts that are left out, of `PARTS`.
      seed: of the draw of records and of all randomness.
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
        checks.positive("minutes", self.minutes)
        checks.positive("threshold", self.threshold)
        if self.fixed is not None:
            checks.at_least("fixed", self.fixed, 1)


class AuditStoppedError(ValueError):
    """The pre-flight found what has to be mended first; the message says how."""


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
) -> Document:
    """Could someone who knows the rest read one record out of what this training ships?

        audit = informed.audit(train, "mine.npz", targets=20, minutes=10)
        audit.save("audit.html")

    Args:
      train: train(images, labels, key), or "mine.py:train"; see `contract`.
      data: an .npz file, a TFDS name, a folder of images a class, a .csv or .parquet
        table; or arrays (images, labels), `shadow.Examples`, `shadow.tables.Table`.
      label: the column of labels, of a table.
      data_dir: TFDS folder.
      predict, privacy: where they aren't in the file of `train`.
      version: of `train`, where its source can't be hashed.
      progress: called with what is done next.
      config: fields of `AuditConfig`.
    Raises: AuditStoppedError: see the message; ValueError: arguments that can't be;
      RuntimeError: the training function raised.
    """
    started = time.monotonic()
    settings = checks.build(AuditConfig, config, "audit")
    checked = check(
        train,
        data,
        label=label,
        data_dir=data_dir,
        predict=predict,
        privacy=privacy,
        version=version,
        progress=progress,
        settings=settings,
    )
    if checked.stops:
        lines = "; ".join(str(finding) for finding in checked.stops)
        raise AuditStoppedError(f"There is nothing to audit yet: {lines}")
    return _run(checked, settings, progress, started)


def check(
    train: str | Callable,
    data: Any,
    *,
    label: str | None = None,
    data_dir: str | None = None,
    predict: Callable | None = None,
    privacy: Mapping[str, Any] | None = None,
    version: str | None = None,
    progress: Progress = lambda _: None,
    settings: AuditConfig | None = None,
) -> Preflight:
    """The pre-flight alone; arguments as for `audit`."""
    settings = AuditConfig() if settings is None else settings
    found = contract.load(train, version=version, predict=predict, privacy=privacy)
    if found.privacy is not None:
        noise.refuse(found.privacy, given=found.noisy)
    examples, table = load(data, label=label, data_dir=data_dir)
    prepared = subject.prepare(
        found,
        examples,
        targets=settings.targets,
        fixed=settings.fixed,
        table=table,
        seed=settings.seed,
    )
    return preflight.check(prepared, progress)


def load(
    source: Any, *, label: str | None = None, data_dir: str | None = None
) -> tuple[Examples, Table | None]:
    """The data, of whatever kind; see `audit`.

    Raises: ValueError, FileNotFoundError, ImportError: see `shadow.load` and `tables`.
    """
    if isinstance(source, Table):
        return source.examples, source
    if isinstance(source, Examples):
        return source, None
    if isinstance(source, Mapping):
        source = (source["images"], source["labels"])
    if isinstance(source, tuple):
        images, labels = np.asarray(source[0]), np.asarray(source[1])
        if images.ndim == 2:
            names = {f"column {i}": images[:, i] for i in range(images.shape[1])}
            table = tables.table_of({**names, "label": labels}, label="label")
            return table.examples, table
        images = images[..., None] if images.ndim == 3 else images
        count = int(labels.max()) + 1
        return Examples(images=images, labels=labels, num_classes=count), None
    name = os.fspath(source)
    if Path(name).suffix in tables.SUFFIXES:
        table = tables.load_table(name, label=label)
        return table.examples, table
    if label is not None:
        raise checks.FieldError(
            "label", f"{{}} is of tables ({', '.join(tables.SUFFIXES)}), got {name!r}."
        )
    if Path(name).is_dir():
        name = f"./{name}" if "/" not in name else name
    return data.load(name, data_dir=data_dir), None


def _budget(checked: Preflight, settings: AuditConfig) -> budgets.Budget:
    about = checked.subject
    return budgets.plan(
        minutes=settings.minutes,
        seconds_a_model=checked.seconds_a_model,
        targets=settings.targets,
        public=len(about.split.shadow),
        params=checked.params,
        features=int(np.prod(about.fixed.image_shape)),
        num_classes=about.fixed.num_classes,
        differentiable=about.engine == "jax",
    )


def estimate(checked: Preflight, settings: AuditConfig) -> dict[str, Any]:
    """What the audit will do and take; for people who decide."""
    about, plan = checked.subject, _budget(checked, settings)
    each = checked.seconds_a_model
    bytes_a_model = 4 * checked.params
    inversion = plan.trainings_an_inversion * each
    return {
        "seconds_a_model": each,
        "targets": plan.targets,
        "shadow_models": plan.shadows,
        "seconds_of_models": each * (plan.targets + 2 * plan.shadows),
        "seconds_an_inversion": inversion,
        "seconds_at_most": plan.seconds,
        "memory_bytes": bytes_a_model * (plan.targets + 2 * plan.shadows),
        "disk_bytes": bytes_a_model * plan.shadows,
        "attacks": applicable(checked, plan),
        "why": list(plan.why),
        "fixed": len(about.fixed),
        "public": len(about.split.shadow),
    }


def applicable(checked: Preflight, plan: budgets.Budget) -> list[dict[str, Any]]:
    """Which attacks apply, and why not the others."""
    about = checked.subject
    shadows = "" if plan.shadows else "no shadow models in this time"
    asked = "" if about.answering else "models can't be asked: no predict"
    slow = (
        plan.trainings_an_inversion * checked.seconds_a_model > plan.inversion_seconds
    )
    exact = "" if about.deterministic else "equal arguments give other weights"
    if not exact and slow:
        exact = "perhaps not one target in this time; more --minutes"
    jax_only = "" if about.engine == "jax" else "it needs derivatives through JAX"
    rows = [
        ("inversion", exact),
        ("kernel", shadows),
        ("black box", shadows or asked),
        ("closed form", "" if about.engine == "processes" else "scikit-learn's alone"),
        ("artefact", "" if about.engine == "processes" else "scikit-learn's alone"),
        ("two missing", jax_only),
        ("membership", ""),
        ("kkt", "weights alone: for homogeneous networks of `informed kkt`"),
        ("prior_aware", "needs every noisy gradient, which nobody releases here"),
    ]
    return [{"name": name, "applies": not why, "why_not": why} for name, why in rows]


def _run(
    checked: Preflight, settings: AuditConfig, progress: Progress, started: float
) -> Document:
    """Everything after the pre-flight."""
    about, plan = checked.subject, _budget(checked, settings)
    clock = limits.Clock(plan.seconds)
    secret = about.contract.privacy is not None  # who knows the seed knows the noise
    models = trials.train(
        about,
        targets=plan.targets,
        shadows=plan.shadows,
        secret=secret,
        progress=progress,
    )
    pool = judging.known_to_all(about)
    groups = None if about.table is None else about.table.groups
    baselines = judging.baselines(models.targets, pool, groups=groups)
    progress("kernel regression on shadow models")
    found = [trials.learned(models), trials.black_box(models)]
    if settings.reconn:
        progress("training the RecoNN")
        found.append(trials.learned(models, "reconn"))
    found.append(trials.closed_form(models))
    skip, some = settings.skip, _SEVERAL * plan.seconds
    progress("reading fitted estimators")
    found.append(fitted.artefact(models, limit=_READING * plan.seconds))
    if "inversion" not in skip:
        limit = min(plan.inversion_seconds * (0.4 if secret else 1.0), clock.left)
        progress(f"inverting {plan.targets} trainings (at most {_time(limit)})")
        each = checked.seconds_a_model
        found.insert(0, trials.inversion(models, each, limit=max(limit, 1.0)))
    if "two missing" not in skip:
        progress("two unknown records at once")
        found.append(trials.several(models, limit=some))
    members = []
    if "membership" not in skip:
        progress("membership")
        members = [
            membership.of_two(models, checked.seconds_a_model, limit=some),
            membership.by_scores(models),
        ]
    bounds: dict[str, Any] = {"rows": [], "why_not": ""}
    if "noise" not in skip:
        bounds = noise.measured(
            about,
            threshold=settings.threshold,
            limit=_NOISE * plan.seconds,
            seconds_a_model=checked.seconds_a_model,
            progress=progress,
        )
    ranking = records.rank(
        models.targets,
        about.split.test_indices,
        found,
        baselines,
        records.indicators(models),
    )
    stops: list[dict[str, Any]] = []
    if "defences" not in skip:
        progress("trying what stops it")
        bench = defences.Bench(
            models=models,
            pool=pool,
            baselines=baselines,
            seconds_a_model=checked.seconds_a_model,
            template=_template(about),
            clock=limits.Clock(max(clock.left, _DEFENCES * plan.seconds)),
        )
        stops = defences.tried(bench, found, progress)
    values = {
        "schema": 1,
        "kind": "audit",
        "subject": _about(checked, models, stops),
        "preflight": {
            "findings": [dataclasses.asdict(f) for f in checked.findings],
            "order_matters": checked.order_matters,
            "key_matters": checked.key_matters,
            "instability": _instability(checked),
            "plan": estimate(checked, settings),
        },
        "baselines": [judging.summary(b) for b in baselines],
        "attacks": [judging.judge(t, models.targets, pool, baselines) for t in found],
        "membership": members,
        "records": ranking.rows,
        "ranking": {"by": ranking.by, "indicators": ranking.indicators},
        "defences": stops,
        "bounds": bounds,
        "configuration": dataclasses.asdict(settings),
        "again": "",
        "versions": {**versions.versions(), **versions.packages()},
        "seconds": round(time.monotonic() - started, 1),
    }
    return Document(
        values=finite(values),
        pictures=_pictures(models, found, baselines, ranking),
    )


def _template(about: subject.Subject) -> Any:
    """What train returns, to put changed weights back into."""
    target = about.split.test.take(np.arange(1))
    images = np.concatenate([about.fixed.images, target.images])
    labels = np.append(about.fixed.labels, target.labels).astype(np.int32)
    return about.call().train(images, labels, 0)


def _about(
    checked: Preflight, models: trials.Models, stops: list[dict[str, Any]]
) -> dict[str, Any]:
    about = checked.subject
    words = about.table
    # Of all that are judged, where defences are; else of the pre-flight's one model.
    accuracy = stops[0]["accuracy"] if stops else checked.accuracy
    return {
        "train": about.contract.name,
        "version": about.contract.version,
        "takes": about.contract.takes,
        "engine": about.engine,
        "deterministic": about.deterministic,
        "data": about.fixed.name,
        "kind": "table" if words is not None else "images",
        "shape": list(about.fixed.image_shape),
        "columns": None if words is None else list(words.names),
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


def _pictures(
    models: trials.Models,
    found: list[trials.Trial],
    baselines: list[judging.Baseline],
    ranking: records.Ranking,
) -> dict[str, Any]:
    """Records and guesses: training data, for the page alone."""
    by_name = {t.name: t.images for t in found if t.images is not None}
    oracle = next(b for b in baselines if b.name == "nearest public record")
    count = len(ranking.order)
    places = np.unique(
        np.linspace(0, count - 1, min(_SHOWN, count)).round().astype(int)
    )
    return {
        "order": ranking.order,
        "shown": [ranking.order[i] for i in places],
        "targets": models.targets,
        "guesses": by_name,
        "nearest": oracle.images,
        "table": models.subject.table,
    }


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def as_text(checked: Preflight, settings: AuditConfig) -> str:
    """The pre-flight for people."""
    plan = estimate(checked, settings)
    about = checked.subject
    engines = {
        "jax": "JAX, batched and differentiated",
        "runs": "JAX, batched; derivatives by differences of trainings",
        "processes": "run in processes; derivatives by differences of trainings",
    }
    lines = [
        f"{'training':<16}{about.contract.name}, {engines[about.engine]}",
        f"{'data':<16}{about.fixed.name}: {plan['fixed']} known records,"
        f" {plan['targets']} targets, {plan['public']} public",
        f"{'released':<16}{checked.params:,} weights in {len(checked.arrays)} arrays",
        f"{'deterministic':<16}{'yes' if about.deterministic else 'NO'}",
    ]
    if checked.accuracy is not None:
        lines.append(
            f"{'accuracy':<16}{100 * checked.accuracy:.1f} % on public records"
        )
    if checked.instability is not None:
        lines.append(
            f"{'stability':<16}a small change of a record moves the typical"
            f" weight {checked.instability.growth:.2g} times as far as it is worth"
        )
    lines.append(f"{'a model':<16}{plan['seconds_a_model']:.3g} s")
    lines.append(
        f"{'the audit':<16}at most {_time(plan['seconds_at_most'])}:"
        f" {plan['shadow_models']} shadow models, about"
        f" {_time(plan['seconds_an_inversion'])} an inversion,"
        f" {plan['memory_bytes'] / 2**20:.0f} MiB of memory,"
        f" {plan['disk_bytes'] / 2**20:.0f} MiB of disk"
    )
    lines += [f"{'':<16}{why}" for why in plan["why"]]
    for row in plan["attacks"]:
        mark = "applies" if row["applies"] else f"no: {row['why_not']}"
        lines.append(f"  {row['name']:<14}{mark}")
    for finding in checked.findings:
        lines.append(f"{finding.level:<16}{finding.what}")
        if finding.remedy:
            lines.append(f"{'  remedy':<16}{finding.remedy}")
    return "\n".join(lines)


def _instability(checked: Preflight) -> dict[str, Any] | None:
    found = checked.instability
    if found is None:
        return None
    return {**dataclasses.asdict(found), "chaotic": found.chaotic}


def as_json(checked: Preflight, settings: AuditConfig) -> str:
    """The pre-flight for machines."""
    values = {
        "train": checked.subject.contract.name,
        "engine": checked.subject.engine,
        "deterministic": checked.subject.deterministic,
        "params": checked.params,
        "accuracy": checked.accuracy,
        "order_matters": checked.order_matters,
        "key_matters": checked.key_matters,
        "instability": _instability(checked),
        "findings": [dataclasses.asdict(f) for f in checked.findings],
        "plan": estimate(checked, settings),
    }
    return json.dumps(finite(values), allow_nan=False)
