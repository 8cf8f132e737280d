"""The protocol of launchers, which fill stores here or by workers that they start.

`Store.fill` and `informed.experiment.pipeline` (for `informed shadow` and runs) call a
launcher; the other files of this folder and users make them.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from shadow.store import Store

# Returns the stores with factories, created if needed (`Store.open`), in the order of
# filling. Called once in every process; pickled where a launcher starts processes.
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
          prepare: returns the stores, see `Prepare`.
          progress: show bars with models/s and the time left.
          on_block: called after each block that is known to be committed.
        Raises: what training and `Store.write_block` raise; RuntimeError: blocks that
          can't be made.
        """


def local(
    prepare: Prepare,
    *,
    progress: bool = True,
    on_block: Callable[[], None] = lambda: None,
) -> None:
    """Fill the stores one after the other in this process; the default launcher."""
    for store in prepare():
        store.fill(progress=progress, on_block=on_block)
