"""A small store that faults are tried on, with weights that need no training."""

from collections.abc import Callable

import jax
import numpy as np

import shadow
from informed.experiment.training_settings import TrainingConfig
from shadow.places import Place

NUM_MODELS, BLOCK_SIZE = 40, 16


def create(address, split, victim, *, block_size=BLOCK_SIZE, **training):
    """The store of a training; 3 blocks if nothing else is said."""
    factory = shadow.Factory(
        algorithm=TrainingConfig(**{"epochs": 1} | training).algorithm(victim),
        fixed=split.fixed,
        key=jax.random.key(0),
    )
    return shadow.Store.open(
        address,
        factory,
        split.shadow,
        block_size=block_size,
        positions=split.positions,
    )


def weights(store, block, worker=0):
    """What a worker trains; workers on different devices agree to rounding only."""
    start, stop = store.block_range(block)
    rows = np.random.default_rng(block).normal(
        size=(stop - start, store.manifest["num_params"])
    )
    return (rows + 1e-6 * worker).astype(np.float32)


def write(store, split, block, worker=0):
    """As a worker does when it has trained a block."""
    rows = slice(*store.block_range(block))
    return store.write_block(
        block,
        weights(store, block, worker),
        split.shadow.images[rows],
        split.shadow.labels[rows],
    )


def winner(store, split, block):
    """Which worker's weights a block holds; it is read with all checks."""
    found = store.read_block(block)
    rows = slice(*store.block_range(block))
    np.testing.assert_array_equal(found.images, split.shadow.images[rows])
    np.testing.assert_array_equal(found.labels, split.shadow.labels[rows])
    (worker,) = (
        number
        for number in range(3)
        if np.array_equal(found.weights, weights(store, block, number))
    )
    return worker


class Watched(Place):
    """A place that tells of every act on it.

    Args:
      place: where everything is really done.
      before, after: called with what is done ("put_if_absent", ...) and the name.
    """

    def __init__(
        self,
        place: Place,
        before: Callable[[str, str], None] = lambda act, name: None,
        after: Callable[[str, str], None] = lambda act, name: None,
    ) -> None:
        self.place, self.before, self.after = place, before, after

    def __str__(self) -> str:
        return str(self.place)

    def _act(self, act, name, *arguments):
        self.before(act, name)
        found = getattr(self.place, act)(name, *arguments)
        self.after(act, name)
        return found

    def put_if_absent(self, name, content):
        return self._act("put_if_absent", name, content)

    def put(self, name, content):
        self._act("put", name, content)

    def get(self, name):
        return self._act("get", name)

    def has(self, name):
        return self._act("has", name)

    def names(self, under):
        return self._act("names", under)

    def delete(self, name):
        self._act("delete", name)

    def below(self, part):
        return Watched(self.place.below(part), self.before, self.after)

    def remove_leftovers(self):
        self.place.remove_leftovers()
