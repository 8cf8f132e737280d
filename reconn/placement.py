"""Place a network's training on several devices, which share batches and large arrays.

`network` makes a `Placement`, by which `steps` places its state and batches. Training
is data parallel and fully sharded: every device computes its share of each batch, and
keeps its share of every large array with a side that can be divided, and of the
optimiser's moments of that array. The first layer for CIFAR-10 alone is 0.9 GB, and
three times that with Adam's moments.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shadow import checks

_SMALL = 1 << 16  # entries; a smaller array isn't divided
_AXIS = "devices"
_PATIENCE = 3600  # seconds that processes wait for the last one


@dataclasses.dataclass(frozen=True)
class Placement:
    """Devices that train together, at least one; the rule for dividing arrays."""

    devices: tuple[jax.Device, ...]

    @classmethod
    def of(cls, devices: Sequence[jax.Device] | None) -> "Placement":
        """Return these devices; None: all accelerators, or else a CPU device a process.

        One CPU device suffices, because matrix products use all cores. There are
        several processes where `jax.distributed` was initialised.
        """
        if devices is None:
            available = jax.devices()
            first = {d.process_index: d for d in reversed(available)}
            cpus = available[0].platform == "cpu"
            devices = [first[i] for i in sorted(first)] if cpus else available
        return cls(tuple(devices))

    @property
    def several_processes(self) -> bool:
        """Whether some of the devices belong to another process."""
        return len({device.process_index for device in self.devices}) > 1

    def meet(self, place: str) -> None:
        """Wait for the other processes to call this with the same name, up to an hour.

        Collective operations on CPUs give up after 30 seconds, and reading a data set
        may take some processes longer than that.
        """
        if self.several_processes:
            from orbax.checkpoint import multihost

            multihost.get_barrier_sync_fn()(key=place, timeout_ms=1000 * _PATIENCE)

    def tree(self, values: Any) -> Any:
        """Place arrays: large ones are divided along their longest side that fits."""
        if len(self.devices) == 1:
            return jax.device_put(values, self.devices[0])
        return jax.tree.map(lambda v: self._put(v, self._of(v.shape)), values)

    def gathered(self, values: Any) -> Any:
        """Return the arrays so that this process can read all of them."""
        if not self.several_processes:
            return values
        return jax.jit(lambda v: v, out_shardings=self._divided())(values)

    def _put(self, values: Any, sharding: NamedSharding) -> jax.Array:
        """Divide an array that all processes have among their devices."""
        if not self.several_processes:
            return jax.device_put(values, sharding)
        array = np.asarray(values)
        return jax.make_array_from_callback(array.shape, sharding, lambda i: array[i])

    def constrained(self, values: Any) -> Any:
        """Place arrays inside of a compiled function."""
        if len(self.devices) == 1:
            return values
        return jax.tree.map(
            lambda v: jax.lax.with_sharding_constraint(v, self._of(v.shape)), values
        )

    def batches(self, *arrays: np.ndarray) -> tuple[jax.Array, ...]:
        """Place arrays (steps, batch, ...), divided along the batch.

        Raises: ValueError: the batch can't be divided.
        """
        count = len(self.devices)
        if count == 1:
            return tuple(jax.device_put(a, self.devices[0]) for a in arrays)
        size = arrays[0].shape[1]
        if size % count:
            raise checks.FieldError(
                "batch_size",
                f"Expected {{}} to be a multiple of the {count} devices, got {size}.",
            )
        return tuple(self._put(a, self._divided(None, _AXIS)) for a in arrays)

    def _divided(self, *axes: str | None) -> NamedSharding:
        mesh = Mesh(np.array(self.devices), (_AXIS,))
        return NamedSharding(mesh, PartitionSpec(*axes))

    def _of(self, shape: tuple[int, ...]) -> NamedSharding:
        """Return how an array of this shape is divided."""
        sides = [i for i, n in enumerate(shape) if n % len(self.devices) == 0]
        if not sides or np.prod(shape) < _SMALL:
            return self._divided()
        along = max(sides, key=lambda i: shape[i])
        return self._divided(*[None] * along, _AXIS)
