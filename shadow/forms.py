"""Which form of a network is trained fastest on this device, by trying all of them."""

import dataclasses
import time

import jax
import numpy as np

from shadow.data import Examples
from shadow.factory import Factory

MEASURED = "measured"
_EPOCHS = 2  # of what is timed; a step is like every other
_SECONDS = 1.0  # after which a form isn't timed again
_TIMES = 5  # at most; the fastest counts


def speeds(factory: Factory, targets: Examples) -> dict[str, float]:
    """Models per second of each form, in a short training, each at its own width.

    Args:
      factory: what would train the models, by gradient descent.
      targets: some to train on.
    Returns: by name of the form, but for those that don't fit; empty for a network that
      has no forms.
    """
    rates = {}
    for form in factory.descent.victim.forms:
        algorithm = dataclasses.replace(factory.descent, epochs=_EPOCHS, form=form)
        tried = dataclasses.replace(factory, algorithm=algorithm)
        count = tried.models_at_once
        rows = np.arange(count) % len(targets)
        batch, ids = targets.take(rows), np.arange(count)
        try:
            tried.train(batch, ids=ids)  # compiles
        except jax.errors.JaxRuntimeError:
            continue  # one model in this form doesn't fit, or isn't compiled
        seconds: list[float] = []
        while not seconds or (sum(seconds) < _SECONDS and len(seconds) < _TIMES):
            started = time.perf_counter()
            tried.train(batch, ids=ids)
            seconds.append(time.perf_counter() - started)
        rates[form] = count / min(seconds)
    return rates


def fastest(factory: Factory, targets: Examples) -> str | None:
    """The form of the highest speed; None: the network has no forms."""
    rates = speeds(factory, targets)
    return max(rates, key=rates.__getitem__, default=None)
