"""One training function, run by hand: its weights, its engine, its time."""

import contextlib
import dataclasses
import functools
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import threadpoolctl

from informed.audit.subject import Subject
from shadow import checks, devices, released
from shadow.parallel import Runs
from shadow.training import JaxFunction, PythonFunction
from shadow.training.algorithm import Draw

# Share of the cores at work for other jobs from which on the pre-flight says so.
BUSY = 0.5
# A batch that takes fewer seconds is timed three times.
_SHORT_S = 1.0
# A process's first model that takes longer than this, in terms of one here, imports.
_SLOWER = 1.2


class Probe:
    """A training function run by hand, in this process, with one thread.

    As it is, until `compile`: an impure function would draw once and for all. Its key
    is that of the released models: by another one it may leave out other records, and
    the pre-flight is about the models that are attacked.
    """

    def __init__(self, subject: Subject, noise: float | None = None) -> None:
        self.subject, self.seconds = subject, 0.0
        self.key = subject.factory("released").public_key
        self._train = subject.call(noise=noise).train

    def compile(self) -> None:
        """Train by way of `jax.jit` from now on, as models are trained together."""
        call = self.subject.call()
        together = dataclasses.replace(self.subject, engine="jax")
        self.key = together.factory("released").public_key

        def arrays(*arguments: Any) -> list[Any]:
            # Strings among what is returned can't leave a compiled function.
            return [part.array for part in released.parts(call.train(*arguments))]

        train = jax.jit(arrays)
        self._train = lambda images, labels, key: train(
            jnp.asarray(images),
            jnp.asarray(labels),
            jax.random.key(key) if isinstance(key, int) else key,
        )

    def at(self, position: int | None, noise: float | None = None) -> "Probe":
        """Return an uncompiled probe with the target elsewhere, or other noise."""
        other = Probe(dataclasses.replace(self.subject, position=position), noise)
        other.key = self.key
        return other

    def __call__(
        self, data: tuple[np.ndarray, np.ndarray], key: Any = None
    ) -> tuple[Any, np.ndarray]:
        """Return what the function returns, and theta in float64.

        Foreign code has one thread, as in the processes that models are trained in:
        with as many threads as cores it is slower by up to thirty times where other
        jobs run, and its sums are rounded otherwise.

        Args:
          data: images and labels; each run gets copies, as it may shuffle in place.
          key: a key of JAX's, or an int; None: that of the released models.
        """
        key = self.key if key is None else key
        started = time.monotonic()
        images, labels = (array.copy() for array in data)
        torch: Any = sys.modules.get("torch")
        threads = None if torch is None else torch.get_num_threads()
        with threadpoolctl.threadpool_limits(1):
            try:
                if torch is not None:
                    torch.set_num_threads(1)
                result = self._train(images, labels, key)
                jax.block_until_ready(jax.tree.leaves(result))
            finally:
                if torch is not None:
                    torch.set_num_threads(threads)
        self.seconds = time.monotonic() - started
        return result, theta_of(result)


def theta_of(result: Any) -> np.ndarray:
    """Return all the weights of what training returned, in one float64 array."""
    arrays = [np.ravel(np.asarray(p.array)) for p in released.parts(result)]
    return np.concatenate([np.zeros(0), *arrays]).astype(np.float64)


@contextlib.contextmanager
def threads_beside(busy: float | None) -> Iterator[None]:
    """Give NumPy's products one thread where other jobs run, else as many as usual.

    Products of two threads wait for each other: a kernel regression on 900 models took
    115 s with two and 28 s with one while other jobs ran (two cores, load 9).
    """
    one = busy is not None and busy >= BUSY / 2
    with threadpoolctl.threadpool_limits(1 if one else None):
        yield


def others_at_work() -> float | None:
    """Return the share of the cores that worked in the last minute, if it is known.

    Ask before anything is trained, so that it is the work of others.
    """
    if not hasattr(os, "getloadavg"):
        return None
    return min(1.0, os.getloadavg()[0] / devices.num_cores())


def engine_of(subject: Subject) -> tuple[str, str]:
    """Find how models can be trained, and why not in a faster way."""
    fixed, targets = subject.fixed, subject.split.test
    data = jnp.asarray(fixed.images), jnp.asarray(fixed.labels)
    algorithm = dataclasses.replace(subject, engine="jax").algorithm()
    assert isinstance(algorithm, JaxFunction)
    draw = Draw(key=jax.random.key(0))

    def train_one(image: Any, label: Any) -> Any:
        return algorithm(data, image[None], label[None], draw)

    image, label = jnp.asarray(targets.images[0]), jnp.asarray(targets.labels[0])
    try:
        jax.eval_shape(jax.vmap(train_one), image[None], label[None])
    except Exception as error:  # whatever the user's function raises when traced
        first = textwrap.shorten(checks.first_line(error), 90, placeholder=" ...")
        return "processes", (
            "it is run in processes, and its derivatives are differences of trainings,"
            f" as JAX can't trace it: it raised {type(error).__name__}: {first}"
        )
    direction = jnp.asarray(
        np.random.default_rng(0).standard_normal(image.shape), image.dtype
    )
    try:
        derivative = jax.jit(
            lambda z: jax.jvp(lambda x: train_one(x, label), (z,), (direction,))[1]
        )(image)
    except Exception as error:
        return "runs", f"no derivative goes through it ({type(error).__name__})"
    values = np.asarray(derivative)
    if not np.isfinite(values).all():
        return "runs", (
            "its derivatives are NaN or infinite (a power of zero, for one);"
            " differences of trainings are used instead"
        )
    if not values.any():
        return "runs", "its derivatives are zero; differences of trainings are used"
    return "jax", ""


def time_batches(subject: Subject, runs: Runs) -> tuple[float, bool]:
    """Return the seconds a model of compiled batches, and whether all are the same."""
    targets, rows = subject.split.test, np.zeros(runs.together, int)
    arguments = targets.images[rows][:, None], targets.labels[rows][:, None], rows
    seconds: list[float] = []
    first, same = runs(*arguments), True
    while not seconds or (len(seconds) < 3 and seconds[-1] < _SHORT_S):
        started = time.monotonic()
        again = runs(*arguments)
        seconds.append(time.monotonic() - started)
        same = same and np.array_equal(first, again)
    return float(np.median(seconds)) / runs.together, same


def time_processes(
    subject: Subject, count: int, expected: float
) -> tuple[float, bool, np.ndarray]:
    """Return the seconds of a model among `count`, whether all are the same, and one.

    The first of each process imports what it needs, and isn't counted unless it took no
    longer than expected.

    Args:
      subject: what is audited.
      count: models at once, each in a process.
      expected: seconds of a model in this process.
    """
    algorithm = subject.algorithm()
    assert isinstance(algorithm, PythonFunction)
    timed = functools.partial(_train_timed, algorithm.train)
    runs = subject.runs(
        subject.factory("released").public_key,
        count,
        dataclasses.replace(algorithm, train=timed),
    )
    targets, rows = subject.split.test, np.zeros(count, int)
    arguments = targets.images[rows][:, None], targets.labels[rows][:, None], rows
    rounds = [runs(*arguments)]
    warm = rounds[0][:, -1].max() <= _SLOWER * expected
    short = 0.0 if warm else _SHORT_S
    while len(rounds) < (1 if warm else 2) or (
        len(rounds) < 4 and rounds[-1][:, -1].max() < short
    ):
        rounds.append(runs(*arguments))
    seconds = np.concatenate([models[:, -1] for models in rounds[len(rounds) > 1 :]])
    thetas = np.concatenate(rounds)[:, :-1]
    return float(np.median(seconds)), bool((thetas == thetas[0]).all()), thetas[0]


def _train_timed(train: Callable, *arguments: Any) -> tuple[Any, np.ndarray]:
    """Return what training returns, and the seconds that it took in its process."""
    started = time.perf_counter()
    result = train(*arguments)
    return result, np.array(time.perf_counter() - started)
