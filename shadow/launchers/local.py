"""This process makes all blocks, on all of its devices."""

from collections.abc import Callable

from shadow.launchers.work import Prepare


def run(
    prepare: Prepare,
    *,
    progress: bool = True,
    on_block: Callable[[], None] = lambda: None,
) -> None:
    """See `Launch`."""
    for work in prepare():
        work.factory.fill(
            work.store, work.targets, progress=progress, on_block=on_block
        )
