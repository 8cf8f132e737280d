"""Runs of several rows, made in several processes: for a GPU, or for many cores.

Which runs a row asks for is found by measuring it without any: `Listing` notes what is
asked for, and answers with numbers that aren't any. What a row asks for only after it
has looked at an array stays unforeseen, and is made when the row is measured.

A store is made once. Its runs are attacked and evaluated as soon as it is whole, each
in a process that others share no memory with but the card.
"""

import contextlib
import dataclasses
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from multiprocessing.synchronize import Lock as LockType
from pathlib import Path
from typing import Any

from benchmarks.papers.lab import Lab, Run, here, numbers_of
from benchmarks.papers.row import Row
from informed.runs import evaluation, pipeline, stored
from informed.runs.experiment import Experiment
from informed.runs.stages import Paths
from informed.runs.sweep import Point
from shadow import devices, parallel
from shadow.checks import first_line

# Of a card's memory, by all processes together; the rest is CUDA's own, half a
# gigabyte a process.
_OF_A_CARD = 0.9
# Trains a classifier, or waits until another process has.
_classifier: LockType | None = None


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


class Listing(Lab):
    """Notes which runs rows ask for, and makes none.

    Attributes:
      wanted: the runs, by the name of their folder.
    """

    def __init__(self, work: Path, *, data_dir: str | None = None) -> None:
        super().__init__(work, data_dir=data_dir, progress=False)
        self.wanted: dict[str, Wanted] = {}

    def _play(
        self, point: Point, config: str, fields: Sequence[str], *, keep: bool = False
    ) -> Run:
        paths = self.paths(point.experiment)
        made = (paths.workdir / "results.json").exists()
        if not made and not (keep and numbers_of(paths).exists()):
            title = f"{config}: {point.name}"
            self.wanted[paths.workdir.name] = Wanted(title, point.experiment, paths)
        unknown: Any = _Unknown()
        return Run(
            name=point.name,
            experiment=point.experiment,
            paths=paths,
            results=unknown,
            paper=point.paper,
        )

    def kept(
        self, name: str, key: Any, make: Callable[[], Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Nothing is computed here."""
        raise LookupError(f"{name} was not made")


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


def wanted(rows: Sequence[Row], work: Path, data_dir: str | None) -> list[Wanted]:
    """The runs that these rows ask for and that aren't there, as far as foreseen."""
    listing = Listing(work, data_dir=data_dir)
    for row in rows:
        assert row.measure is not None
        # It ends by an error where it looks at what isn't there.
        with contextlib.suppress(Exception):
            row.measure(listing)
    return list(listing.wanted.values())


def make(runs: Sequence[Wanted], lab: Lab, processes: int) -> list[str]:
    """Make them all.

    Args:
      lab: what remembers who made them.
      processes: how many at once.
    Returns: a line for each that failed. The others are whole.
    """
    stores: dict[Any, list[Wanted]] = {}
    for run in runs:
        stores.setdefault(run.paths.shadow, []).append(run)
    context = multiprocessing.get_context("spawn")
    failed: list[str] = []
    begun, done = time.monotonic(), 0
    with futures.ProcessPoolExecutor(
        processes,
        mp_context=context,
        initializer=_begin,
        initargs=(context.Lock(),),
    ) as pool:
        waiting: dict[futures.Future[Any], tuple[Wanted, bool]] = {
            pool.submit(_store, first.experiment.values, first.paths): (first, True)
            for first, *_ in stores.values()
        }
        while waiting:
            ended, _ = futures.wait(waiting, return_when=futures.FIRST_COMPLETED)
            for future in ended:
                run, is_store = waiting.pop(future)
                error = future.exception()
                if error is not None:
                    lost = stores[run.paths.shadow] if is_store else [run]
                    failed += [f"{each.title}: {first_line(error)}" for each in lost]
                    done += len(lost)
                    traceback.print_exception(error)
                elif is_store:
                    waiting |= {
                        pool.submit(_run, each.experiment.values, each.paths): (
                            each,
                            False,
                        )
                        for each in stores[run.paths.shadow]
                    }
                else:
                    done += 1
                    lab.remember(run.paths.workdir.name, future.result())
                seconds = time.monotonic() - begun
                what = "models" if is_store else "run"
                print(
                    f"{done} of {len(runs)} runs, {seconds:.0f} s: {what} of"
                    f" {run.title}{' FAILED' if error is not None else ''}",
                    flush=True,
                )
    return failed


@contextlib.contextmanager
def sharing_a_card(processes: int) -> Iterator[None]:
    """This process and those that start inside share a GPU, if JAX wasn't used yet.

    Each takes its part of the memory, and compiles without timing kernels: that takes
    a process longer than what it then saves in a short run. What the user has set
    stays; without NVIDIA's driver nothing changes.
    """
    if not devices.has_nvidia_driver():
        yield
        return
    untimed = " ".join(
        f"--{name}={str(value).lower()}" for name, value in parallel.UNTIMED.items()
    )
    wanted = {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{_OF_A_CARD / processes:.3f}",
        "XLA_FLAGS": untimed,
    }
    new = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)


def _begin(lock: LockType) -> None:
    global _classifier
    _classifier = lock


def _store(values: Mapping[str, Any], paths: Paths) -> None:
    pipeline.shadow(Experiment.from_mapping(values), paths, progress=False)


def _run(values: Mapping[str, Any], paths: Paths) -> str:
    """Attack and evaluate. Returns: by what and where."""
    experiment = Experiment.from_mapping(values)
    pipeline.attack(experiment, paths, progress=False)
    if experiment.evaluation.classifier.epochs:
        assert _classifier is not None
        _, released = stored.stores(experiment, paths)
        with _classifier:
            evaluation.classifier_of(experiment, paths, released)
    evaluation.evaluate(experiment, paths)
    return here()
