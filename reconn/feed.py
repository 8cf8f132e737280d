"""Batches of a network's training, gathered by a thread while the device computes.

The features of all shadow models may be larger than the memory (12 GB on CIFAR-10), so
only the next few batches are copied, in an order that the caller decides. Where one
accelerator has twice the room for all features and images, `steps.Steps` puts them
there once and gathers rows there: with a thread of the host a step takes an H100 five
times as long (Table V of Balle et al.). `network` makes a `Batches`, `steps` reads it.
"""

import concurrent.futures
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float32, Int

_AHEAD_BYTES = 128 << 20  # of the batches that are copied in one go, at most
_MOST_STEPS = 32  # steps per call; beyond, the overhead of a call is negligible


class Batches:
    """Rows of features and images, several batches at once.

    Attributes:
      arrays: features and images of all models; may be memory maps.
      batch_size: rows per batch; all of them, where there are fewer.
      steps: full batches per epoch; rows left over are skipped in that epoch.
    """

    def __init__(
        self,
        inputs: Float32[np.ndarray, "models features"],
        images: Float32[np.ndarray, "models height width channels"],
        *,
        batch_size: int,
    ) -> None:
        self.arrays = (inputs, images)
        self.batch_size = min(batch_size, len(inputs))
        self.steps = len(inputs) // self.batch_size
        batch_bytes = self.batch_size * sum(values[0].nbytes for values in self.arrays)
        self._at_once = max(1, min(_MOST_STEPS, _AHEAD_BYTES // batch_bytes))

    def __len__(self) -> int:
        return len(self.arrays[0])

    def rows(self, order: Int[np.ndarray, " models"]) -> Int[np.ndarray, "steps batch"]:
        """Return the rows of all full batches of an epoch in `order`."""
        return order[: self.steps * self.batch_size].reshape(self.steps, -1)

    def epoch(
        self, order: Int[np.ndarray, " models"], at_once: int = _MOST_STEPS
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield all full batches of rows in `order`, at most so many at once.

        Yields: features (steps, batch, features), images (steps, batch, ...).
        """

        def gather(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return self.arrays[0][rows], self.arrays[1][rows]

        rows, at_once = self.rows(order), min(at_once, self._at_once)
        parts = [rows[i : i + at_once] for i in range(0, len(rows), at_once)]
        with concurrent.futures.ThreadPoolExecutor(max_workers=1) as thread:
            coming = thread.submit(gather, parts[0])
            for following in [*parts[1:], None]:
                ready = coming.result()
                if following is not None:
                    coming = thread.submit(gather, following)
                yield ready
