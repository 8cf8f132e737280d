"""Build the `Report` of a finished `informed run` from the files of its work directory.

`informed report` calls `report`, so a run has the same page as an audit. It plays no
attack and writes nothing; it reads the targets, because a page shows them.
"""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from informed.attacks import registry
from informed.audit import ranked_records
from informed.experiment import stored
from informed.experiment.reconn_settings import ReconnConfig
from informed.experiment.settings import Experiment
from informed.experiment.stored import Paths, Stage
from informed.metrics import judging
from informed.play import Trial, blank
from informed.report.document import VERSION, Report
from informed.report.words import above_bound
from shadow import files
from shadow.factory import Factory
from shadow.records import ConfigurationMismatchError, NotMadeError
from shadow.store import Store
from shadow.views import ViewConfig


def report(workdir: Path, *, shadow: str | None = None) -> Report:
    """Return the report of a run's folder.

    Args:
      workdir: folder of an evaluated `informed run`.
      shadow: folder or address of its shadow models; None: `workdir`.
    Raises: NotMadeError: the run isn't finished; ConfigurationMismatchError: the models
      there have another configuration; ValueError: the folder is of another command.
    """
    started = time.monotonic()
    run = _Run(workdir, shadow)
    targets, pool, trials, baselines = run.targets, run.pool, run.trials, run.baselines
    ids = np.asarray(run.released.array("test_indices"))
    verdicts = [judging.verdict(t, targets, pool, baselines) for t in trials]
    least = judging.thresholds(baselines)
    privacy = run.results["configuration"]["training"].get("privacy", {})
    played = run.results["attacks"]
    attacks = [
        judging.judge(trial, targets, pool, baselines)
        | {"needs_minutes": None, "shadow_models": played[trial.name]["shadow_models"]}
        for trial in trials
    ]
    tests = ("label_violation", "roc_violations")
    held = any(row.get(test) is not None for row in played.values() for test in tests)
    above = [name for name, row in played.items() if above_bound(row, len(played))]
    rows, order = ranked_records.rank(targets, ids, trials, verdicts, least)
    values = {
        "schema": VERSION,
        "kind": "run",
        "subject": _about(run),
        "preflight": None,
        "baselines": [judging.summary(baseline) for baseline in baselines],
        "attacks": attacks,
        "records": rows,
        "bounds": {
            "rows": [],
            **({"above": above} if held else {}),
            "privacy": {
                name: value
                for name, value in privacy.items()
                if isinstance(value, int | float)
            },
            "why_not": "a report plays nothing",
        },
        "enough_minutes": None,
        "configuration": run.results["configuration"],
        "versions": {
            name: str(version)
            for name, version in run.results["versions"]["packages"].items()
        },
        "again": f"informed run --config=FILE --workdir={workdir}   # as above\n"
        f"informed report {workdir}",
        "seconds": round(run.results["wall_s"] + time.monotonic() - started, 1),
    }
    # Number of records that every attack was tried on.
    tried = min((len(t.images) for t in trials if t.images is not None), default=0)
    order = [i for i in order if i < tried]
    pictures = ranked_records.pictures(order, targets, trials, baselines)
    return Report(values=files.finite(values), pictures=pictures)


class _Run:
    """A run's folder, if it is finished and consistent; see `report`.

    `pool` are all records that the adversary knows, `public` those of shadow models.
    """

    def __init__(self, workdir: Path, shadow: str | None) -> None:
        file = workdir / "results.json"
        if not file.is_file():
            raise NotMadeError(f"There is no results.json in {workdir}.", by="run")
        self.results = json.loads(file.read_text())
        if "configuration" not in self.results or "nn_oracle_mse" not in self.results:
            raise ValueError(
                f"Expected {workdir} to be a work directory of `informed run`; its"
                " results.json is of another command."
            )
        self.experiment = Experiment.from_mapping(self.results["configuration"])
        self.paths = Paths(workdir=workdir, shadow=shadow or workdir)
        self.shadows, self.released = stored.stores(self.experiment, self.paths)
        _require_evaluated(workdir, shadow=self.shadows, released=self.released)
        self.developer = stored.factory_of(
            self.experiment, self.released, role="released"
        )
        self.targets = stored.targets_of(self.released, self.released.read())
        self.public = stored.targets(self.shadows)
        self.pool = self.developer.fixed.joined(self.public)
        self.baselines = judging.baselines(self.targets, self.pool)
        self.trials = [_trial(name, self) for name in self.experiment.played]


def _require_evaluated(workdir: Path, **stores: Store) -> None:
    """Refuse models that were remade, on other data, since the run was evaluated."""
    made = Stage.read(workdir, "evaluate")["configuration"]
    for name, store in stores.items():
        if made.get(f"{name}_fingerprint", store.fingerprint()) != store.fingerprint():
            raise ConfigurationMismatchError(
                f"The {name} models in {store.place} aren't those that {workdir} was"
                " evaluated on: they were made again since, of other data. Run"
                " `informed run` again, or name their folder by --shadow."
            )


def _trial(name: str, run: _Run) -> Trial:
    """Return the result of one attack of the run."""
    named = run.experiment.attacks[name]
    row, settings = named.row, named.settings
    arrays = stored.guesses(run.paths.workdir, name)
    seconds = Stage.read(run.paths.workdir, f"attack-{name}")["wall_s"]
    if row.shadows:
        seconds += Stage.read(run.paths.shadow, "shadow")["wall_s"]
    trainings = arrays.get("trainings")
    count = run.results["attacks"][name]["shadow_models"] if row.shadows else 0
    planned = len(arrays["images"])
    views = {"view": run.experiment.view}
    views["weights"] = ViewConfig(precision=run.experiment.view.precision)
    sees = row.sees
    if sees in views:
        sees = views[sees].what(run.developer.descent.victim)
    if isinstance(settings, ReconnConfig) and settings.kind == "kernel":
        row = dataclasses.replace(row, about=registry.find("kernel").about)
    secret = _secret(run.developer)
    trial = blank(row, sees=sees, secret=secret, planned=planned, name=name)
    if named.known:
        rows = f"the first {named.known} rows of pixels of each target"
        trial = dataclasses.replace(trial, knows=f"{trial.knows}; {rows}")
    return dataclasses.replace(
        trial,
        images=arrays["images"],
        labels=arrays.get("labels"),
        certified=arrays.get("certified"),
        finished=np.ones(planned, bool),
        seconds=seconds,
        trainings=count if trainings is None else int(trainings.sum()),
    )


def _about(run: _Run) -> dict[str, Any]:
    """Return the subject of the report: training, data, models."""
    victim, training = run.developer.descent.victim, run.experiment.training
    results, targets = run.results, run.targets
    return {
        "train": f"{training.epochs} epochs of {training.optimiser}",
        "version": "",
        "takes": "key",
        "engine": "jax",
        "deterministic": True,
        "data": run.experiment.data.name,
        "kind": "images",
        "shape": list(targets.image_shape),
        "columns": None,
        "classes": targets.num_classes,
        "fixed": len(run.developer.fixed),
        "public": len(run.public),
        "targets": len(targets),
        "params": victim.num_params,
        "arrays": [[part.name, list(part.shape)] for part in victim.layout],
        "seconds_a_model": results["stage_wall_s"]["shadow"] / max(len(run.shadows), 1),
        "shadow_models": results["shadow_models"],
        "accuracy": results["released_accuracy"],
        "copies": results["copies"],
    }


def _secret(developer: Factory) -> bool:
    """Return whether some randomness of training is unknown to the adversary."""
    able = developer.algorithm.capabilities
    return able.noisy or bool(able.random - able.public)
