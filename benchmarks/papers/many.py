"""Runs of several rows, made in several processes: for a GPU that one run doesn't fill.

Which runs a row asks for is found by measuring it without any: `Listing` notes what is
asked for, and answers with numbers that aren't any. What a row asks for only after it
has looked at models or guesses stays unforeseen, and is made when the row is measured.

A store is made once, all stores before the first attack. Its runs are then attacked and
evaluated, each in a process that shares nothing with others but the card. A run that
ended is whole and signed, whatever becomes of the rest.
"""

import contextlib
import dataclasses
import multiprocessing
import os
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any, NoReturn

from benchmarks.papers import numbers
from benchmarks.papers.grid import Point
from benchmarks.papers.lab import Lab, Run, paths_of, sign
from benchmarks.papers.row import Row
from informed.experiment import evaluation, pipeline
from informed.experiment.settings import Experiment
from informed.experiment.stored import Paths
from shadow import devices, parallel
from shadow.checks import named

# Of a card's memory, by all processes together; the rest is CUDA's own, half a
# gigabyte a process.
_OF_A_CARD = 0.9
# Papers whose rows ask for runs. Those of others compute all themselves, and would do
# so here.
_RUNS = ("balle",)


class _Unknown(float):
    """A number, or numbers by name, of a run that wasn't made."""

    def __new__(cls) -> "_Unknown":
        return super().__new__(cls, "nan")

    # Without this, `__getitem__` would make a sequence without an end of it.
    __iter__ = None

    def __getitem__(self, name: str) -> "_Unknown":
        return self

    def items(self) -> tuple[()]:
        """None are known."""
        return ()


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A run that a row asks for.

    Attributes:
      title: what it is, for people.
      experiment: its configuration.
      paths: where it will lie.
    """

    title: str
    experiment: Experiment
    paths: Paths


class _Unmade(Run):
    """A run that wasn't made: numbers that aren't any, and no models."""

    def _nothing(self, *_: object) -> NoReturn:
        raise LookupError(f"{self.name} was not made")

    released = shadows = property(_nothing)
    guesses = _nothing  # type: ignore[assignment]


class Listing(Lab):
    """Notes which runs rows ask for, and makes none.

    Attributes:
      wanted: the runs that aren't there, by their folders.
    """

    def __init__(self, lab: Lab) -> None:
        self._folder, self.data_dir, self.again = lab.work, lab.data_dir, lab.again
        self.progress, self.made = False, {}
        self.wanted: dict[Path, Wanted] = {}
        self.beginning()

    def kept(self, *_: object) -> NoReturn:
        """Refuse to compute what rows compute themselves."""
        raise LookupError("nothing is computed here")

    work = property(kept)

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
        paths = paths_of(experiment, self._folder, self.data_dir)
        made = (paths.workdir / "results.json").exists()
        if keep and not made and not self.again:
            made = numbers.read(experiment, paths) is not None
        if not made:
            title = f"{config}: {point.name}"
            self.wanted[paths.workdir] = Wanted(title, experiment, paths)
        unknown: Any = _Unknown()
        return _Unmade(
            name=point.name,
            experiment=experiment,
            paths=paths,
            results=unknown,
            paper=point.paper,
        )


def wanted(row: Row, lab: Lab) -> dict[Path, Wanted]:
    """The runs that a row asks for and that aren't there, as far as foreseen."""
    listing = Listing(lab)
    if row.paper not in _RUNS:
        return {}
    assert row.measure is not None
    # It ends by an error where it looks at what isn't there.
    with contextlib.suppress(Exception):
        row.measure(listing)
    return listing.wanted


def make(runs: Mapping[Path, Wanted], processes: int) -> dict[Path, str]:
    """Make them all.

    Args:
      runs: by their folders.
      processes: how many at once.
    Returns: why those that failed did, by their folders. The others are whole.
    """
    waiting_for: dict[Any, list[Path]] = {}
    for folder, run in runs.items():
        waiting_for.setdefault(run.paths.shadow, []).append(folder)
    context = multiprocessing.get_context("spawn")
    begun, ended, failed = time.monotonic(), 0, dict[Path, str]()
    pool = futures.ProcessPoolExecutor(processes, mp_context=context)
    try:
        waiting: dict[futures.Future[None], tuple[Path, bool]] = {}

        def submit(folder: Path, *, store: bool) -> None:
            run = runs[folder]
            task = _store if store else _run
            future = pool.submit(task, run.experiment.values, run.paths)
            waiting[future] = folder, store

        for folders in waiting_for.values():
            submit(folders[0], store=True)
        while waiting:
            for future in futures.wait(
                waiting, return_when=futures.FIRST_COMPLETED
            ).done:
                folder, store = waiting.pop(future)
                error = future.exception()
                rest = waiting_for[runs[folder].paths.shadow]
                if error is not None:
                    traceback.print_exception(error)
                    failed[folder] = f"{runs[folder].title}: {named(error)}"
                    if store:
                        # Another's configuration may be feasible.
                        rest.remove(folder)
                        if rest:
                            submit(rest[0], store=True)
                elif store:
                    for each in rest:
                        submit(each, store=False)
                ended += not store or error is not None
                what = "models of " if store else ""
                print(
                    f"{ended} of {len(runs)} runs, {time.monotonic() - begun:.0f} s:"
                    f" {what}{runs[folder].title}{'' if error is None else ' FAILED'}",
                    flush=True,
                )
    except futures.BrokenExecutor:
        # A process was killed, by the system for its memory as a rule.
        lost = "not made, as a process of another run was killed: fewer --processes"
        whole = {f for f in runs if (f / "results.json").exists()}
        failed |= {f: f"{runs[f].title}: {lost}" for f in runs.keys() - failed - whole}
    finally:
        pool.shutdown(cancel_futures=True)
    return failed


@contextlib.contextmanager
def sharing_a_card(processes: int, compiled: Path) -> Iterator[None]:
    """This process and those that start inside share a GPU, if JAX wasn't used yet.

    Each takes its part of the memory; they share what they have compiled, and compile
    without timing kernels: that takes a process longer than what it then saves in a
    short run. What the user has set stays; without NVIDIA's driver nothing changes.

    Args:
      processes: how many there will be beside this one.
      compiled: a folder for compiled programs.
    """
    if not devices.has_nvidia_driver():
        yield
        return
    untimed = " ".join(
        f"--{name}={str(value).lower()}" for name, value in parallel.UNTIMED.items()
    )
    wanted = {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{_OF_A_CARD / (processes + 1):.3f}",
        "XLA_FLAGS": untimed,
        "JAX_COMPILATION_CACHE_DIR": str(compiled.resolve()),
    }
    new = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)


def _store(values: Mapping[str, Any], paths: Paths) -> None:
    pipeline.shadow(Experiment.from_mapping(values), paths, progress=False)


def _run(values: Mapping[str, Any], paths: Paths) -> None:
    """Attack, sign, and evaluate: a run is made when its results are there."""
    experiment = Experiment.from_mapping(values)
    pipeline.attack(experiment, paths, progress=False)
    sign(paths)
    evaluation.evaluate(experiment, paths)
