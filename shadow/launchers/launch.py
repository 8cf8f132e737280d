"""What a launcher is: it fills stores, by workers that it starts."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from shadow.store import Store

_driving = contextvars.ContextVar("only handing out work", default=False)


@contextlib.contextmanager
def driving() -> Iterator[None]:
    """Inside, a process makes the stores and leaves the training to others."""
    token = _driving.set(True)
    try:
        yield
    finally:
        _driving.reset(token)


def trains() -> bool:
    """Whether this process trains what it prepares."""
    return not _driving.get()


Prepare = Callable[[], Sequence[Store]]
"""Opens the stores with their factories (`Store.open`), in the order in which they are
to be filled. It is called once in every process, and is pickled where there are
several."""


@runtime_checkable
class Launch(Protocol):
    """A launcher, which fills all stores of `prepare`."""

    def __call__(
        self,
        prepare: Prepare,
        *,
        progress: bool = True,
        on_block: Callable[[], None] = lambda: None,
    ) -> None:
        """Fill them.

        Args:
          progress: show bars with models/s and the time left.
          on_block: called after each block that is known to be committed.
        Raises: as `Store.fill`; RuntimeError: blocks that can't be made.
        """
