"""Estimate what a shadow data set costs in time, memory and disk, before it is made.

`informed.experiment.pipeline` calls this, and `informed shadow plan` prints the result.
Time is measured on one batch of the real program on this machine, which is trained once
or twice and dropped. Memory is XLA's account of the program, plus the data. A program
that doesn't fit is refused before it is run. Nothing is written.
"""

import dataclasses
import math
import shutil
import time

import jax
import numpy as np

from shadow import devices, places
from shadow.data import Examples
from shadow.factory import Factory
from shadow.places import Address

_PROCESS = 600 << 20  # bytes of Python, JAX and XLA's compiler (measured)
_AGAIN = 20.0  # seconds; a shorter measurement is repeated


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """The cost of `models` models, released ones included.

    Attributes:
      params: length of theta.
      store_bytes: weights and targets, not compressed.
      memory_bytes: the approximate peak memory of one process.
      models_per_s: speed, measured on all devices of this machine.
      devices, device: number and kind of these devices.
      models_at_once: models trained at once on one device.
    """

    models: int
    params: int
    store_bytes: int
    memory_bytes: int
    models_per_s: float
    devices: int
    device: str
    models_at_once: int

    def seconds(self, count: int | None = None) -> float:
        """Return the time on so many devices of this kind; None: on this machine."""
        share = 1.0 if count is None else count / self.devices
        return self.models / (self.models_per_s * share)


def plan(factory: Factory, targets: Examples, models: int) -> Plan:
    """Return the estimated cost of `models` models of a factory on this machine.

    Args:
      targets: targets to measure on; at least one.
    Raises: MemoryError: one process would need more than this machine has.
    """
    together, fixed = factory.models_at_once, factory.fixed
    params = factory.algorithm.layout(fixed)[-1].stop
    pixels = math.prod(fixed.image_shape)
    # The fixed set and all targets, in float32, and the models of two batches.
    memory = (
        _PROCESS + fixed.images.nbytes + 4 * models * pixels + 8 * together * params
    )
    program, local = factory.program_bytes, jax.local_devices()
    if devices.cache_bound():
        memory += program * len(local)
    else:
        name = f"device of kind {local[0].device_kind}"
        _require(program, devices.free_bytes(), name, factory)
    _require(memory, devices.memory_bytes(), "process on this machine", factory)
    ids = np.arange(together)
    batch = targets.take(ids % len(targets))
    first = _seconds(factory, batch, ids)  # with compilation
    second = _seconds(factory, batch, ids) if first < _AGAIN else first
    return Plan(
        models=models,
        params=params,
        store_bytes=4 * models * (params + pixels + 1),
        memory_bytes=memory,
        models_per_s=together / min(first, second),
        devices=jax.local_device_count(),
        device=local[0].device_kind,
        models_at_once=together // jax.local_device_count(),
    )


def require_room(plan: Plan, address: Address) -> None:
    """Raise OSError if a folder's disk can't hold the store; a bucket has no limit."""
    place = places.at(address)
    if not isinstance(place, places.Folder):
        return
    folder = place.path.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if plan.store_bytes > free:
        raise OSError(
            f"The stores would take {_giga(plan.store_bytes)}, and {folder} has"
            f" {_giga(free)} left. Take fewer models, or another place."
        )


def _require(needed: int, there: int, what: str, factory: Factory) -> None:
    if needed > there:
        raise MemoryError(
            f"One {what} would need about {_giga(needed)} to train"
            f" {factory.models_at_once} models at once, and has"
            f" {_giga(there)}. Train fewer at once (models_per_batch), or fewer models."
        )


def _seconds(factory: Factory, batch: Examples, ids: np.ndarray) -> float:
    start = time.perf_counter()
    factory.train(batch, ids=ids)
    return time.perf_counter() - start


def _giga(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
