"""How long a model takes, trained as the audit trains it."""

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from informed.audit.subject import Subject
from shadow.parallel import Runs
from shadow.training import PythonFunction
from shadow.width import models_per_batch

# A batch that takes fewer seconds is timed three times.
_SHORT = 1.0
# A process's first model that takes longer than this, in terms of one here, imports.
_SLOWER = 1.2


def runs_of(subject: Subject) -> Runs:
    """A as the factory runs it, by one key."""
    width = models_per_batch(subject.algorithm(), subject.fixed)
    return subject.runs(subject.factory("released").public_key, width)


def _rows(subject: Subject, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, labels and runs of so many models, all of the first target."""
    targets, rows = subject.split.test, np.zeros(count, int)
    return targets.images[rows][:, None], targets.labels[rows][:, None], rows


def batch(subject: Subject, runs: Runs) -> tuple[float, bool]:
    """Seconds a model of a compiled batch; and whether twice gives the same."""
    rows = _rows(subject, runs.together)
    seconds: list[float] = []
    first, same = runs(*rows), True
    while not seconds or (len(seconds) < 3 and seconds[-1] < _SHORT):
        started = time.monotonic()
        again = runs(*rows)
        seconds.append(time.monotonic() - started)
        same = same and np.array_equal(first, again)
    return float(np.median(seconds)) / runs.together, same


def _timed(train: Callable, *arguments: Any) -> tuple[Any, np.ndarray]:
    """What training returns, and the seconds that it took in its process, last."""
    started = time.perf_counter()
    result = train(*arguments)
    return result, np.array(time.perf_counter() - started)


def in_processes(
    subject: Subject, count: int, expected: float
) -> tuple[float, bool, np.ndarray]:
    """Seconds of one model while `count` are trained; whether all are the same; one.

    The first of each process imports what it needs, and isn't counted unless it took no
    longer than expected.

    Args:
      expected: seconds of a model in this process.
    """
    algorithm = subject.algorithm()
    assert isinstance(algorithm, PythonFunction)
    timed = functools.partial(_timed, algorithm.train)
    runs = subject.runs(
        subject.factory("released").public_key,
        count,
        dataclasses.replace(algorithm, train=timed),
    )
    rows = _rows(subject, count)
    found = [runs(*rows)]
    warm = found[0][:, -1].max() <= _SLOWER * expected
    short = 0.0 if warm else _SHORT
    while len(found) < (1 if warm else 2) or (
        len(found) < 4 and found[-1][:, -1].max() < short
    ):
        found.append(runs(*rows))
    seconds = np.concatenate([each[:, -1] for each in found[len(found) > 1 :]])
    thetas = np.concatenate(found)[:, :-1]
    return float(np.median(seconds)), bool((thetas == thetas[0]).all()), thetas[0]
