"""What a worker has: a factory, a store, its targets."""

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from shadow.data import Examples
from shadow.factory import Factory
from shadow.store import Store


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Work:
    """A store to be filled, and what fills it.

    Attributes:
      factory: trains the models; its role is the store's.
      store: a store of as many models as there are targets.
      targets: the targets of all models of the store.
    """

    factory: Factory
    store: Store
    targets: Examples


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


Prepare = Callable[[], Sequence[Work]]
"""Makes or opens the stores, in the order in which they are to be filled. It is called
once in every process, and has to survive pickling where there are several."""


@runtime_checkable
class Launch(Protocol):
    """Fills all stores of `prepare`."""

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
        Raises: as `Factory.fill`; RuntimeError: blocks that can't be made.
        """
