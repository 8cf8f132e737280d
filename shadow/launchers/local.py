"""The default launcher of `informed shadow` and runs: this process, all its devices."""

from collections.abc import Callable

from shadow.launchers.launch import Prepare


def run(
    prepare: Prepare,
    *,
    progress: bool = True,
    on_block: Callable[[], None] = lambda: None,
) -> None:
    """Fill the stores one after the other; see `Launch`."""
    for store in prepare():
        store.fill(progress=progress, on_block=on_block)
