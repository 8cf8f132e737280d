"""Where runs of rows are made: stores, runs and classifiers that rows share.

    <work>/stores/<fingerprint>/    shadow and released models
    <work>/runs/<fingerprint>/      one run, attacking such a store
    <work>/kept/                    arrays that rows compute themselves; the downstream
                                    classifiers, one for each set of targets

A run that is there is read, so a row goes on where it was interrupted, and two rows
that ask for the same run have it once. Of runs that take hours the numbers can be kept
in the repository: see `numbers`.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers import classifier, grid, numbers, provenance, sweeps
from benchmarks.papers.classifier import Classifier
from benchmarks.papers.grid import Point, Sweep
from informed import metrics
from informed.experiment import pipeline, stored
from informed.experiment.named import NamedAttack
from informed.experiment.settings import EvaluationConfig, Experiment
from informed.experiment.stored import Paths
from shadow import checks, devices, files, records
from shadow.models import ShadowModels
from shadow.places import Address
from shadow.store import Store
from shadow.views import ViewConfig

# In a run's folder: which code and machine made it.
_SIGNED = "made_by.json"
_UNKNOWN = "a commit that was not kept"
_LPIPS = "evaluation.lpips=true"
KERNEL = "attacks.kernel.targets=null"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A finished run.

    Attributes:
      name: how a table calls it.
      experiment: its configuration.
      paths: where it lies.
      results: the contents of its results.json.
      paper: the paper's MSE, where the sweep has it.
      judge: the downstream classifier; None: the run has no KL, or its numbers alone
        are kept in the repository.
    """

    name: str
    experiment: Experiment
    paths: Paths
    results: Mapping[str, Any]
    paper: float | None = None
    judge: Classifier | None = None

    @property
    def oracle(self) -> float:
        """MSE of the nearest image that the adversary has, mean over targets."""
        return self.results["nn_oracle_mse"]

    def of(self, attack: str, field: str = "mse") -> float:
        """A field of an attack's results."""
        return self.results["attacks"][attack][field]

    def guesses(self, attack: str) -> np.ndarray:
        """(targets, height, width, channels), what an attack found."""
        return stored.guesses(self.paths.workdir, attack)["images"]

    @property
    def released(self) -> Store:
        """The released models and their targets."""
        return stored.stores(self.experiment, self.paths)[1]

    @property
    def shadows(self) -> Store:
        """The shadow models."""
        return stored.stores(self.experiment, self.paths)[0]

    @property
    def truth(self) -> ShadowModels:
        """The released models and their targets, read."""
        return self.released.read()

    def errors(self, attack: str) -> np.ndarray:
        """(targets,), MSE of an attack at each target."""
        guesses = self.guesses(attack)
        return metrics.mse(self.truth.images[: len(guesses)], guesses)

    def judged(self, attack: str) -> dict[str, np.ndarray]:
        """MSE, LPIPS and KL of an attack at each target, as "mse", "lpips" and "kl"."""
        truth, guesses = self.truth.images, self.guesses(attack)
        assert self.judge is not None
        return {
            "mse": metrics.mse(truth, guesses),
            "lpips": metrics.lpips(truth, guesses),
            "kl": self.judge.kl(truth, guesses),
        }


class Lab:
    """Makes runs in a folder, and remembers for the provenance what a row asked for.

    Args:
      work: the folder.
      data_dir: TFDS folder; None: TFDS_DATA_DIR.
      progress: whether it is shown.
      again: whether runs are made whose numbers are kept in the repository.
    """

    def __init__(
        self,
        work: Path,
        *,
        data_dir: str | None = None,
        progress: bool = True,
        again: bool = False,
    ) -> None:
        self.work, self.data_dir, self.progress = work, data_dir, progress
        self.again = again
        self.beginning()
        # What rows of one call share and no file holds, by folder.
        self.made: dict[Path, Any] = {}
        self._clock = records.Clock(work / "seconds.json")

    def beginning(self) -> None:
        """Forget what earlier rows asked for."""
        self.configurations: list[str] = []
        self.makers: set[str] = set()
        self.seconds = 0.0
        # Stores whose seconds are counted: runs share them.
        self._counted: set[Address] = set()
        # Versions of packages that each run was evaluated by.
        self._packages: list[Mapping[str, str]] = []

    @property
    def device(self) -> str:
        """What a row's runs were made on; this machine, where they differ."""
        found = {by.partition(" on ")[2] for by in self.makers}
        return (found.pop() if len(found) == 1 else "") or devices.kind()

    @property
    def packages(self) -> Mapping[str, str]:
        """Versions that all runs of a row were evaluated by; else this machine's."""
        first, *others = self._packages or [records.packages()]
        return first if all(each == first for each in others) else records.packages()

    def note(self, what: str, seconds: float = 0.0) -> None:
        """Something that a row did beside its runs, for its provenance."""
        # Whoever repeats it has another folder.
        self.configurations.append(what.replace(str(self.work), "WORK"))
        self.seconds += seconds

    def _by(self, key: str, *, before: bool) -> None:
        """Remember which code and machine made a file that is there now.

        Args:
          key: of the file.
          before: whether it was there before this call.
        """
        file = self.work / "makers.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        if not before or key not in known:
            known[key] = _UNKNOWN if before else here()
            files.write_json(file, known)
        self.makers.add(known[key])

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
        if file not in self._counted:
            self._counted.add(file)
            self.note(name, self._clock.seconds.get(file.name, 0.0))
        return found

    def _classifier(self, experiment: Experiment, paths: Paths) -> Classifier:
        """The downstream classifier of a run, which runs on the same targets share."""
        released = stored.stores(experiment, paths)[1]
        left_out = released.array("test_indices")
        key = [
            experiment.seed,
            experiment.data.name,
            stored.shadow_record(experiment).configuration["files"],
        ]
        arrays = self.kept(
            "classifier",
            [*key, hashlib.sha256(left_out.tobytes()).hexdigest()],
            lambda: (
                classifier.of_run(experiment, left_out, data_dir=self.data_dir).arrays
            ),
        )
        classes = released.manifest["num_classes"]
        return Classifier.of(arrays, released.image_shape, classes)

    def run(self, name: str, config: str, *fields: str, metrics: bool = True) -> Run:
        """One run of a shipped configuration.

        Args:
          name: how a table calls it.
          config: such as "mnist.py:cpu".
          fields: "field=value" that deviate; the kernel regression is always played.
          metrics: whether LPIPS and KL are wanted.
        """
        one = Sweep(
            base=config,
            overrides=(KERNEL, *((_LPIPS,) if metrics else ())),
            points=((name, *fields),),
        )
        return self._play(grid.points(one)[0], config, fields, kl=metrics)

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
        point = Point(f"{run.name}, {name}", None, experiment)
        return self._play(point, "the same models", ())

    def sweep(
        self,
        name: str,
        *fields: str,
        only: Callable[[str], bool] = lambda name: True,
        kl: bool = True,
        keep: bool = False,
    ) -> list[Run]:
        """The runs of a sweep, with all three metrics.

        Args:
          name: of a function of `sweeps`, such as "table_3".
          fields: "field=value" for all points, beyond the sweep's own.
          only: which points, by their names.
          kl: whether the runs have a downstream classifier and KL.
          keep: whether numbers of runs are kept in the repository, and read from
            there where this folder has no such run; see `numbers`.
        """
        sweep: Sweep = getattr(sweeps, name)()
        overrides = (*sweep.overrides, _LPIPS, *fields)
        return [
            self._play(point, f"sweeps/{name}", fields, kl=kl, keep=keep)
            for point in grid.points(dataclasses.replace(sweep, overrides=overrides))
            if only(point.name)
        ]

    def _play(
        self,
        point: Point,
        config: str,
        fields: Sequence[str],
        *,
        kl: bool = False,
        keep: bool = False,
    ) -> Run:
        experiment = point.experiment
        paths = paths_of(experiment, self.work, self.data_dir)
        if self.progress:
            print(f"{config}: {point.name}", flush=True)
        before = (paths.workdir / "results.json").exists()
        there, judge = None, None
        if keep and not self.again and not before:
            there = numbers.read(experiment, paths)
        if there is not None:
            found = there["results"]
            self.makers.add(there["made_at"])
            print(f"{point.name}: its numbers are kept, from {there['made_at']}")
        else:
            found = pipeline.run(experiment, paths, progress=self.progress)
            if kl:
                judge = self._classifier(experiment, paths)
            if not before:
                sign(paths)
            signed = paths.workdir / _SIGNED
            by = json.loads(signed.read_text()) if signed.exists() else _UNKNOWN
            self.makers.add(by)
            if judge is not None:
                found["classifier_accuracy"] = judge.accuracy
                truth = stored.stores(experiment, paths)[1].targets()[0]
                for name, attack in found["attacks"].items():
                    guesses = stored.guesses(paths.workdir, name)["images"]
                    attack["kl"] = float(
                        judge.kl(truth[: len(guesses)], guesses).mean()
                    )
            if keep and (self.again or numbers.read(experiment, paths) is None):
                numbers.write(experiment, paths, found, by)
        extra = " ".join(f"--config.{field}" for field in fields)
        seconds = found["wall_s"]
        if paths.shadow in self._counted:
            seconds -= found["stage_wall_s"]["shadow"]
        self._counted.add(paths.shadow)
        self._packages.append(found["versions"]["packages"])
        self.note(f"{config}, {point.name} {extra}".strip(), seconds)
        return Run(
            name=point.name,
            experiment=experiment,
            paths=paths,
            results=json.loads(json.dumps(found)),
            paper=point.paper,
            judge=judge,
        )


def paths_of(experiment: Experiment, work: Path, data_dir: str | None) -> Paths:
    """Where a run and its models lie."""
    return Paths(
        workdir=work / "runs" / checks.fingerprint(experiment.values)[:16],
        shadow=work / "stores" / grid.store_name(experiment),
        data_dir=data_dir,
    )


def sign(paths: Paths) -> None:
    """Keep with a run that was just made which code and machine made it."""
    files.write_json(paths.workdir / _SIGNED, here())


def here() -> str:
    """This code and this machine, by name."""
    return f"{provenance.commit()} on {devices.kind()}"
