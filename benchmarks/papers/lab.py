"""Where runs of rows are made: stores, runs and classifiers that rows share.

    <work>/stores/<fingerprint>/    shadow and released models
    <work>/runs/<fingerprint>/      one run, attacking such a store
    <work>/classifiers/             downstream classifiers, one for each set of targets
    benchmarks/papers/kept/         numbers of runs that take hours, in the repository

A run that is there is read, so a row goes on where it was interrupted, and two rows
that ask for the same run have it once. A row of many long runs can be measured in
parts, on several machines: of its runs the numbers alone are kept, a file each.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers import provenance
from informed import metrics
from informed.cli import configuration
from informed.metrics.classifier import Classifier
from informed.runs import evaluation, former, pipeline, stored
from informed.runs.experiment import EvaluationConfig, Experiment
from informed.runs.named import NamedAttack
from informed.runs.stages import Paths
from informed.runs.sweep import Point, SweepConfig, points, store_name
from shadow import checks, devices, files, records
from shadow.models import ShadowModels
from shadow.store import ShadowStore
from shadow.views import ViewConfig

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(__file__).parent / "kept"
# LPIPS and KL beside the MSE.
THREE = ("evaluation.lpips=true", "evaluation.classifier.epochs=10")
KERNEL = "attacks.kernel.targets=null"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A finished run.

    Attributes:
      name: how a table calls it.
      experiment: its configuration.
      paths: where it lies.
      results: the contents of its results.json.
      paper: the paper's MSE, where the sweep's configuration has it.
    """

    name: str
    experiment: Experiment
    paths: Paths
    results: Mapping[str, Any]
    paper: float | None = None

    @property
    def oracle(self) -> float:
        """MSE of the nearest image that the adversary has, mean over targets."""
        return self.results["nn_oracle_mse"]

    def of(self, attack: str, field: str = "mse") -> float:
        """A field of an attack's results."""
        return self.results["attacks"][attack][field]

    def guesses(self, attack: str) -> np.ndarray:
        """(targets, height, width, channels), what an attack found."""
        return former.guesses(self.paths.workdir, attack)["images"]

    @property
    def released(self) -> ShadowStore:
        """The released models and their targets."""
        return stored.stores(self.experiment, self.paths)[1]

    @property
    def shadows(self) -> ShadowStore:
        """The shadow models."""
        return stored.stores(self.experiment, self.paths)[0]

    @property
    def truth(self) -> ShadowModels:
        """The released models and their targets, read."""
        return self.released.read()

    def classifier(self) -> Classifier:
        """The downstream classifier of a run that has KL."""
        return evaluation.classifier_of(self.experiment, self.paths, self.released)

    def errors(self, attack: str) -> np.ndarray:
        """(targets,), MSE of an attack at each target."""
        found = self.guesses(attack)
        return metrics.mse(self.truth.images[: len(found)], found)


class Lab:
    """Makes runs in a folder, and remembers for the provenance what a row asked for."""

    def __init__(
        self, work: Path, *, data_dir: str | None = None, progress: bool = True
    ) -> None:
        self.work, self.data_dir, self.progress = work, data_dir, progress
        self.configurations: list[str] = []
        self.makers: set[str] = set()
        self.seconds = 0.0
        # What rows of one call share and no file holds, by folder.
        self.made: dict[Path, Any] = {}
        self._clock = records.Clock(work / "seconds.json")

    def beginning(self) -> None:
        """Forget what earlier rows asked for."""
        self.configurations, self.makers, self.seconds = [], set(), 0.0

    def note(self, what: str, seconds: float = 0.0) -> None:
        """Something that a row did beside its runs, for its provenance."""
        # Whoever repeats it has another folder.
        self.configurations.append(what.replace(str(self.work), "WORK"))
        self.seconds += seconds

    def _by(self, key: str, *, before: bool) -> str:
        """Remember which code and machine made something that is there now.

        Args:
          key: of the run or file.
          before: whether it was there before this call.
        Returns: their names.
        """
        by = self.remember(key, "a commit that was not kept" if before else here())
        self.makers.add(by)
        return by

    def remember(self, key: str, by: str) -> str:
        """Remember who made a run or file, unless that is known already.

        Returns: who made it.
        """
        file = self.work / "makers.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        if key not in known:
            known[key] = by
            files.write_json(file, known)
        return known[key]

    def kept(
        self, name: str, key: Any, make: Callable[[], Mapping[str, Any]]
    ) -> dict[str, np.ndarray]:
        """Arrays that a row computes itself, made once; their seconds count.

        Args:
          name: of the file, and of what is done, for the provenance.
          key: JSON-able, everything that decides the arrays beside the code.
          make: computes the arrays, by name.
        """
        record = records.Record.of({"name": name, "key": key})
        file = self.work / "kept" / f"{name}-{record.fingerprint()[:12]}.npz"

        def timed() -> Mapping[str, Any]:
            with self._clock.running(file.name):
                return make()

        before = file.exists()
        found = records.kept(file, record, f"The file {file}", timed)
        self._by(file.name, before=before)
        self.note(name, self._clock.seconds.get(file.name, 0.0))
        return found

    def run(self, name: str, config: str, *fields: str, metrics: bool = True) -> Run:
        """One run of a shipped configuration.

        Args:
          name: how a table calls it.
          config: such as "mnist.py:cpu".
          fields: "field=value" that deviate; the kernel regression is always played.
          metrics: whether LPIPS and KL are wanted.
        """
        file = f"--config={ROOT / 'configs' / config}"
        base = configuration.values([file])[0]
        grid = SweepConfig(
            title=name,
            base=config,
            overrides=(KERNEL, *(THREE if metrics else ())),
            points=((name, *fields),),
        )
        return self._play(points(grid, base)[0], config, fields)

    def exact(self, run: Run, *, targets: int = 3, **settings: Any) -> Run:
        """Inversion of the training of a run's first released models.

        Args:
          run: whose models are attacked.
          targets: how many of them.
          settings: fields of the inversion that deviate.
        """
        named = NamedAttack.of("inversion", targets=targets, **settings)
        return self.playing(run, "inversion", {"inversion": named})

    def playing(self, run: Run, name: str, attacks: Mapping[str, NamedAttack]) -> Run:
        """Other attacks on the models of a run.

        Args:
          run: whose models are attacked.
          name: what the new run is called after the old one's name.
          attacks: by name.
        """
        experiment = dataclasses.replace(
            run.experiment,
            attacks=attacks,
            evaluation=EvaluationConfig(),
            view=ViewConfig(),
        )
        point = Point(f"{run.name}, {name}", {}, None, experiment)
        return self._play(point, "the same models", ())

    def sweep(
        self,
        name: str,
        *fields: str,
        only: Callable[[str], bool] = lambda name: True,
        keep: bool = False,
    ) -> list[Run]:
        """The runs of a shipped sweep, with all three metrics.

        Args:
          name: such as "table_3".
          fields: "field=value" for all points, beyond the sweep's own.
          only: which points, by their names.
          keep: whether numbers of runs are kept in `KEPT`, and read from there on a
            machine that has no more of them. The row then takes numbers alone.
        """
        file = ROOT / "configs" / "sweeps" / f"{name}.py"
        config, base = configuration.load_sweep([f"--config={file}"])
        config = dataclasses.replace(
            config, overrides=(*config.overrides, *THREE, *fields)
        )
        return [
            self._play(point, f"sweeps/{name}", fields, keep=keep)
            for point in points(config, base)
            if only(point.name)
        ]

    def paths(self, experiment: Experiment) -> Paths:
        """Where a run and its models lie."""
        name = checks.fingerprint(experiment.values)[:16]
        return Paths(
            workdir=self.work / "runs" / name,
            shadow=self.work / "stores" / store_name(experiment),
            data_dir=self.data_dir,
            classifiers=self.work / "classifiers",
        )

    def _play(
        self, point: Point, config: str, fields: Sequence[str], *, keep: bool = False
    ) -> Run:
        experiment = point.experiment
        paths = self.paths(experiment)
        name = paths.workdir.name
        if self.progress:
            print(f"{config}: {point.name}", flush=True)
        before = (paths.workdir / "results.json").exists()
        numbers = numbers_of(paths)
        if keep and not before and numbers.exists():
            there = json.loads(numbers.read_text())
            found = there["results"]
            self.makers.add(there["made_at"])
        else:
            found = pipeline.run(experiment, paths, progress=self.progress)
            by = self._by(name, before=before)
            if keep:
                # Its picture isn't kept.
                results = {k: v for k, v in found.items() if k != "picture"}
                files.write_json(numbers, {"made_at": by, "results": results})
        extra = " ".join(f"--config.{field}" for field in fields)
        self.note(f"{config}, {point.name} {extra}".strip(), found["wall_s"])
        return Run(
            name=point.name,
            experiment=experiment,
            paths=paths,
            results=json.loads(json.dumps(found)),
            paper=point.paper,
        )


def numbers_of(paths: Paths) -> Path:
    """Where the numbers of a run are kept in the repository, if they are."""
    return KEPT / f"{paths.workdir.name}.json"


def here() -> str:
    """This code and this machine, by name."""
    return f"{provenance.commit()} on {devices.kind()}"
