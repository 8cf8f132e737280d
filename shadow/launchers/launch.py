"""The protocol of launchers, which start the workers that fill stores.

`Store.fill` and `informed.experiment.pipeline` (for `informed shadow` and runs) call a
launcher; the other files of this folder and users make them.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from shadow.store import Store

# Opens the stores with their factories (`Store.open`), in the order of filling. It is
# called once in every process, and pickled where there are several.
Prepare = Callable[[], Sequence[Store]]


@runtime_checkable
class Launch(Protocol):
    """A launcher: a callable that fills all stores of `prepare`."""

    def __call__(
        self,
        prepare: Prepare,
        *,
        progress: bool = True,
        on_block: Callable[[], None] = lambda: None,
    ) -> None:
        """Fill the stores.

        Args:
          progress: show bars with models/s and the time left.
          on_block: called after each block that is known to be committed.
        Raises: as `Store.fill`; RuntimeError: blocks that can't be made.
        """
