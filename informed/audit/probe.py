"""A training function run by hand, in this process, as it will be run in others."""

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import threadpoolctl

from informed.audit.subject import Subject
from shadow import devices, released

# Share of the cores at work for other jobs from which on the pre-flight says so.
BUSY = 0.5


class Probe:
    """A training function run by hand, in this process, with one thread.

    As it is, until `compiled`: an impure function would draw once and for all. Its key
    is that of the released models: by another one it may leave out other records, and
    what is found here is about the models that are attacked.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject, self.seconds = subject, 0.0
        self.key = subject.factory("released").public_key
        self._call = subject.call()
        self._train = self._call.train

    def compiled(self) -> None:
        """From now on by way of `jax.jit`, as models are trained together."""
        call = self._call
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

    def at(self, position: int | None, **changed: Any) -> "Probe":
        """The same with the target at another place, or other noise; not compiled."""
        subject = dataclasses.replace(self.subject, position=position)
        other = Probe(subject)
        other.key = self.key
        other._call = dataclasses.replace(other._call, **changed)
        other._train = other._call.train
        return other

    def __call__(
        self, data: tuple[np.ndarray, np.ndarray], key: Any = None
    ) -> tuple[Any, np.ndarray]:
        """What the function returns, and theta, float64.

        Args:
          key: a key of JAX's, or an int; None: that of the released models.
        """
        key = self.key if key is None else key
        started = time.monotonic()
        # Each run has arrays of its own: a function may shuffle them in place.
        images, labels = (each.copy() for each in data)
        with one_thread():
            result = self._train(images, labels, key)
            jax.block_until_ready(jax.tree.leaves(result))
        self.seconds = time.monotonic() - started
        return result, theta_of(result)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Foreign code has one thread, as in the processes that models are trained in.

    With as many threads as cores it is slower by up to thirty times where other jobs
    run, and its sums are rounded otherwise.
    """
    torch: Any = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    with threadpoolctl.threadpool_limits(1):
        try:
            if torch is not None:
                torch.set_num_threads(1)
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(before)


@contextlib.contextmanager
def threads_beside(busy: float | None) -> Iterator[None]:
    """One thread for NumPy's products where other jobs run, else as many as usual.

    Products of two threads wait for each other: a kernel regression on 900 models took
    115 s with two and 28 s with one while other jobs ran (two cores, load 9).
    """
    one = busy is not None and busy >= BUSY / 2
    with threadpoolctl.threadpool_limits(1 if one else None):
        yield


def others_at_work() -> float | None:
    """Share of the cores that worked in the last minute; None: not to be had.

    Asked before anything is trained, so that it is the work of others.
    """
    if not hasattr(os, "getloadavg"):
        return None
    return min(1.0, os.getloadavg()[0] / devices.num_cores())


def theta_of(result: Any) -> np.ndarray:
    """All the weights of what training returned, one after the other, float64."""
    arrays = [np.ravel(np.asarray(p.array)) for p in released.parts(result)]
    return np.concatenate([np.zeros(0), *arrays]).astype(np.float64)
