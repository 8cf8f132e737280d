"""Choose how an audit trains models, batched JAX or processes; measure their time.

`preflight` asks for the fastest engine that works with the user's function, and for the
time of a model, which limits how many an audit can train; both answers take runs. With
`one_thread`, `preflight` itself runs the function as worker processes do. `theta_of`
flattens what it returns, for `preflight`, `findings` and `auditing`.
"""

import contextlib
import dataclasses
import functools
import math
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, ValuesView
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import threadpoolctl
from jax.extend.core import ClosedJaxpr, Jaxpr

from informed.audit.subject import Subject
from shadow import checks, parallel, released
from shadow.data import Examples
from shadow.factory import Factory
from shadow.training import JaxFunction, PythonFunction
from shadow.training.algorithm import Draw

# A batch that takes fewer seconds is timed three times.
_SHORT_S = 1.0
# If a process's first model takes this many times as long as one here, it includes
# imports and isn't counted.
_SLOWER = 1.2
# Seconds that XLA takes to compile an operation with its derivative: for Adam's steps
# of a small network in a Python loop 3e-3 at 800 operations, more at 8,000.
_COMPILE_S = 1e-2


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Timing:
    """The measured time per model, and whether equal arguments gave equal weights.

    Attributes:
      at_once: number of models trained in parallel.
      seconds_each: seconds that one of these models takes.
      same: whether all models, trained on equal arguments, had the same weights.
      theta: weights of a model that another process trained; None: none was.
    """

    at_once: int
    seconds_each: float
    same: bool
    theta: np.ndarray | None = None


def engine_of(subject: Subject, limit: float = float("inf")) -> tuple[str, str]:
    """Return the fastest engine (`Subject.engine`), and why no faster one works.

    Args:
      subject: the training function and data.
      limit: seconds that JAX's compiler may take.
    """
    fixed, targets = subject.fixed, subject.split.test
    data = jnp.asarray(fixed.images), jnp.asarray(fixed.labels)
    algorithm = dataclasses.replace(subject, engine="jax").algorithm()
    assert isinstance(algorithm, JaxFunction)
    draw = Draw(key=jax.random.key(0))

    def train_one(image: Any, label: Any) -> Any:
        return algorithm(data, image[None], label[None], draw)

    # At the least pixels of all targets, where slopes of roots and logarithms fail.
    image, label = (
        jnp.asarray(targets.images.min(axis=0)),
        jnp.asarray(targets.labels[0]),
    )
    try:
        trace = jax.make_jaxpr(jax.vmap(train_one))(image[None], label[None])
    except Exception as error:  # whatever the user's function raises when traced
        first = textwrap.shorten(checks.first_line(error), 90, placeholder=" ...")
        return "processes", (
            "it is run in processes, and its derivatives are differences of trainings,"
            f" as JAX can't trace it: it raised {type(error).__name__}: {first}"
        )
    operations = _operations(trace)
    if (seconds := _COMPILE_S * operations) > limit:
        return "processes", (
            "it is run in processes, and its derivatives are differences of trainings:"
            f" JAX would take some {math.ceil(seconds / 60)} min to compile its"
            f" {operations:,} operations. Let lax.scan or fori_loop repeat the steps,"
            " or give more --minutes"
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


def timed(factory: Factory, image: np.ndarray, label: int, expected: float) -> Timing:
    """Return the time of a model, of equal ones trained as many at once as they can be.

    The first batch includes compilation, and the first model of a process includes
    imports. Neither is counted, unless the process took no longer than expected.

    Args:
      factory: trains the models, with a public key.
      image, label: the target, the same for all models.
      expected: seconds that a model takes in this process.
    """

    def equal(count: int) -> Examples:
        images, labels = np.stack([image] * count), np.full(count, label)
        return dataclasses.replace(factory.fixed, images=images, labels=labels)

    if factory.algorithm.capabilities.batched:
        seconds: list[float] = []
        targets = equal(count := factory.models_at_once)
        first, same = factory.train(targets), True
        while not seconds or (len(seconds) < 3 and seconds[-1] < _SHORT_S):
            started = time.monotonic()
            again = factory.train(targets)
            seconds.append(time.monotonic() - started)
            same = same and np.array_equal(first, again)
        each = float(np.median(seconds))
        return Timing(at_once=count, seconds_each=each, same=same)
    # With more models than processes, the time would be that of several in a row.
    count = parallel.processes(factory.algorithm)
    assert isinstance(factory.algorithm, PythonFunction)
    train = functools.partial(_train_timed, factory.algorithm.train)
    algorithm = dataclasses.replace(factory.algorithm, train=train)
    factory = dataclasses.replace(factory, algorithm=algorithm, width=count)
    targets = equal(count)
    rounds = [factory.train(targets)]
    warm = rounds[0][:, -1].max() <= _SLOWER * expected
    short = 0.0 if warm else _SHORT_S
    while len(rounds) < (1 if warm else 2) or (
        len(rounds) < 4 and rounds[-1][:, -1].max() < short
    ):
        rounds.append(factory.train(targets))
    times = np.concatenate([models[:, -1] for models in rounds[len(rounds) > 1 :]])
    thetas = np.concatenate(rounds)[:, :-1]
    return Timing(
        at_once=count,
        seconds_each=float(np.median(times)),
        same=bool((thetas == thetas[0]).all()),
        theta=thetas[0],
    )


def _operations(node: Any) -> int:
    """Count the equations of a trace, those of its loops and calls once each."""
    if isinstance(node, ClosedJaxpr):
        node = node.jaxpr
    if isinstance(node, Jaxpr):
        inner = (_operations(e.params.values()) for e in node.eqns)
        return len(node.eqns) + sum(inner)
    if isinstance(node, tuple | list | ValuesView):
        return sum(map(_operations, node))
    return 0


def theta_of(result: Any) -> np.ndarray:
    """Return all weights that training returned as one float64 array."""
    arrays = [np.ravel(np.asarray(p.array)) for p in released.parts(result)]
    return np.concatenate([np.zeros(0), *arrays]).astype(np.float64)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit numerical libraries to one thread while entered, as worker processes do.

    With one thread per core they are up to thirty times slower while other jobs run,
    and they round sums differently.
    """
    torch: Any = sys.modules.get("torch")
    threads = None if torch is None else torch.get_num_threads()
    with threadpoolctl.threadpool_limits(1):
        try:
            if torch is not None:
                torch.set_num_threads(1)
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(threads)


def _train_timed(train: Callable, *arguments: Any) -> tuple[Any, np.ndarray]:
    """Run training; return its result and its seconds in this process."""
    started = time.perf_counter()
    result = train(*arguments)
    return result, np.array(time.perf_counter() - started)
