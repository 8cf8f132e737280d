"""Run the training algorithm A as the adversary can: unknown randomness is drawn anew.

Attacks that retrain models do it through here, so that none of them uses randomness
that only the developer knows: span, seeds and stationary by `adversary_runs`, inversion
and membership (`inversion.retraining`) by `adversary_draws`. Nothing is trained until
the `Runs` returned are called with images, labels and the numbers of runs.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from shadow.parallel import Runs
from shadow.threat import Knowledge, require_told
from shadow.training import Draw

# A function of a run's number; traced if JAX compiles training.
Numbered = Callable[[Any], Any]


def adversary_runs(
    knowledge: Knowledge,
    key: Array | Numbered,
    *,
    width: int,
    starts: Numbered | None = None,
    own_keys: Numbered | None = None,
) -> Runs:
    """Return A as the adversary runs it, with unknown randomness drawn from `key`.

    Args:
      knowledge: fixed and algorithm are needed. Initialisations per release are used
        only if `starts` selects them, because they belong to no other run.
      key: draws all unknown randomness, noise included; or number of a run -> its key.
      width: number of models at once on one device, or of processes.
      starts: number of a run -> initial weights theta_0; None: known ones, or drawn.
      own_keys: number of a run -> the key or seed of A's own randomness, as A takes it;
        None: the known one, or drawn.
    Raises: FieldError: fixed or algorithm is None.
    """
    require_told(knowledge, "fixed", "algorithm")
    assert knowledge.fixed is not None
    algorithm = knowledge.algorithm
    assert algorithm is not None
    draw = adversary_draws(knowledge, key, starts=starts, own_keys=own_keys)
    data = knowledge.fixed.images, knowledge.fixed.labels
    return Runs(algorithm, data, draw, width=width)


def adversary_draws(
    knowledge: Knowledge,
    key: Array | Numbered,
    *,
    starts: Numbered | None = None,
    own_keys: Numbered | None = None,
    dtype: Any = np.float32,
) -> Callable[[Any], Draw]:
    """Return a function from a run's number to its randomness; see `adversary_runs`.

    A theta_0 that is drawn has the type `dtype`.
    """
    algorithm, training_key = knowledge.algorithm, knowledge.training_key
    start = knowledge.initialisation
    assert algorithm is not None
    if starts is None and start is not None and np.ndim(start) == 1:
        starts = _always(np.asarray(start, dtype))
    if own_keys is None and training_key is not None:
        own_keys = _always(training_key)

    def draw(number: Any) -> Draw:
        run_key = key(number) if callable(key) else jax.random.fold_in(key, number)
        start_key, own_key, noise_key = jax.random.split(run_key, 3)
        begin = algorithm.initialise(start_key) if starts is None else starts(number)
        if starts is None and begin is not None:
            begin = begin.astype(dtype)
        return Draw(
            start=begin,
            key=algorithm.own_key(own_key) if own_keys is None else own_keys(number),
            noise_key=noise_key,
        )

    return draw


def _always(value: Any) -> Numbered:
    """Return a function that gives every run the same value."""
    return lambda number: value
