"""Many runs of A: batches over devices, or model by model in processes.

Rows are processed in batches of fixed width. The last row is repeated to fill the last
batch, and its copies are dropped: the compiled program, and with it a model's bits,
never depends on how many models, or which, it is trained with.
"""

from collections.abc import Callable
from typing import Any

import jax
import joblib
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from shadow.training.algorithm import Algorithm, Draw

EVERYWHERE, BY_ROW = PartitionSpec(), PartitionSpec("rows")


def mesh() -> Mesh:
    """All local devices, among which rows are divided."""
    return Mesh(np.array(jax.local_devices()), ("rows",))


def sharded(function: Callable, ins: tuple, outs: Any) -> Callable:
    """A compiled function whose arguments are on all devices, or divided by row."""
    return jax.jit(
        jax.shard_map(
            function,
            mesh=mesh(),
            in_specs=ins,
            out_specs=outs,
            check_vma=False,  # a scan's carry starts shared and ends one per row
        )
    )


def everywhere(values: Any) -> Any:
    """A tree of arrays on all devices."""
    return jax.device_put(values, NamedSharding(mesh(), EVERYWHERE))


class Runs:
    """A over many targets, D_- shared.

    Args:
      algorithm: the training algorithm A.
      fixed: images and labels of D_-.
      draw: number of a run -> its randomness; traced where A is batched.
      width: rows at once on one device, or processes.
      dtype: the type of the images' numbers.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        fixed: tuple[np.ndarray, np.ndarray],
        draw: Callable[[Any], Draw],
        *,
        width: int,
        dtype: Any = np.float32,
    ) -> None:
        self.algorithm, self._draw, self._dtype = algorithm, draw, dtype
        self.batched = algorithm.capabilities.batched
        self.together = width * (jax.local_device_count() if self.batched else 1)
        if self.batched:

            def one(fixed: tuple, images: Array, labels: Array, run: Array) -> Array:
                return algorithm(fixed, images, labels, draw(run))  # type: ignore[return-value]

            self._program: Any = sharded(
                jax.vmap(one, in_axes=(None, 0, 0, 0)),
                (EVERYWHERE, BY_ROW, BY_ROW, BY_ROW),
                BY_ROW,
            )
            images = np.asarray(fixed[0], dtype)
            self._fixed = everywhere((images, np.asarray(fixed[1], np.int32)))
        else:
            self._fixed = fixed

    def __call__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        numbers: np.ndarray,
        on_rows: Callable[[int], None] = lambda count: None,
    ) -> np.ndarray:
        """Theta of every row.

        Args:
          images, labels: (rows, targets, ...).
          numbers: (rows,), the number of each run.
          on_rows: called with the number of rows done after each batch.
        """
        found = []
        for start in range(0, len(images), self.together):
            stop = min(start + self.together, len(images))
            if self.batched:
                rows = np.minimum(np.arange(start, start + self.together), stop - 1)
                values = self._program(
                    self._fixed,
                    np.asarray(images[rows], self._dtype),
                    np.asarray(labels[rows], np.int32),
                    np.asarray(numbers[rows], np.int32),
                )
                found.append(np.asarray(values)[: stop - start])
            else:
                found.append(self._in_processes(images, labels, numbers, start, stop))
            on_rows(stop - start)
        return np.concatenate(found)

    def program_bytes(self, image_shape: tuple[int, ...]) -> int:
        """Memory that a batch takes on one device, by XLA's account; 0: not batched.

        Args:
          image_shape: the shape of a row's images: (targets, height, width, channels).
        """
        if not self.batched:
            return 0
        rows = self.together
        memory = (
            self._program.lower(
                self._fixed,
                jax.ShapeDtypeStruct((rows, *image_shape), self._dtype),
                jax.ShapeDtypeStruct((rows, image_shape[0]), np.int32),
                jax.ShapeDtypeStruct((rows,), np.int32),
            )
            .compile()
            .memory_analysis()
        )
        return (
            memory.temp_size_in_bytes
            + memory.argument_size_in_bytes
            + memory.output_size_in_bytes
        )

    def _in_processes(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        numbers: np.ndarray,
        start: int,
        stop: int,
    ) -> np.ndarray:
        draws = {int(n): self._draw(int(n)) for n in np.unique(numbers[start:stop])}
        jobs = (
            joblib.delayed(self.algorithm)(
                self._fixed, images[row], labels[row], draws[int(numbers[row])]
            )
            for row in range(start, stop)
        )
        # One thread each, also if there is only one job: a library's sums, and so
        # theta's last bits, depend on the number of its threads.
        with joblib.parallel_config("loky", inner_max_num_threads=1):
            return np.stack(joblib.Parallel(n_jobs=processes())(jobs))


def processes() -> int:
    """As many as usable cores, but two at least: one would be this process."""
    return max(2, joblib.cpu_count())
