"""Where a RecoNN's numbers lie: batches and large arrays are divided among devices.

Data parallel and fully sharded: every device computes its share of each batch, and
keeps its share of every large array and of its moments. Table VII's first layer alone
is 0.9 GB, and thrice that with Adam's moments.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shadow import checks

_SMALL = 1 << 16  # numbers; a smaller array isn't worth dividing
_AXIS = "devices"


@dataclasses.dataclass(frozen=True)
class Placement:
    """An arrangement of devices.

    Attributes:
      devices: at least one.
    """

    devices: tuple[jax.Device, ...]

    @classmethod
    def of(cls, devices: Sequence[jax.Device] | None) -> "Placement":
        """These devices; None: all accelerators, or else the first CPU device.

        Matrix products use all cores of a CPU anyway.
        """
        if devices is None:
            local = jax.local_devices()
            devices = local[:1] if local[0].platform == "cpu" else local
        return cls(tuple(devices))

    def tree(self, values: Any) -> Any:
        """The arrays, placed: large ones divided along their longest side that fits."""
        if len(self.devices) == 1:
            return jax.device_put(values, self.devices[0])
        return jax.tree.map(lambda v: jax.device_put(v, self._of(v.shape)), values)

    def constrained(self, values: Any) -> Any:
        """The same for arrays inside of a compiled function."""
        if len(self.devices) == 1:
            return values
        return jax.tree.map(
            lambda v: jax.lax.with_sharding_constraint(v, self._of(v.shape)), values
        )

    def batches(self, *arrays: np.ndarray) -> tuple[jax.Array, ...]:
        """Arrays (steps, batch, ...), divided along the batch.

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
        spec = PartitionSpec(None, _AXIS)
        return tuple(jax.device_put(a, NamedSharding(self._mesh, spec)) for a in arrays)

    @property
    def _mesh(self) -> Mesh:
        return Mesh(np.array(self.devices), (_AXIS,))

    def _of(self, shape: tuple[int, ...]) -> NamedSharding:
        """How an array of this shape is divided."""
        sides = [i for i, n in enumerate(shape) if n % len(self.devices) == 0]
        if not sides or np.prod(shape) < _SMALL:
            return NamedSharding(self._mesh, PartitionSpec())
        along = max(sides, key=lambda i: shape[i])
        return NamedSharding(self._mesh, PartitionSpec(*[None] * along, _AXIS))
