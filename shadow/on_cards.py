"""Train on GPUs with PyTorch and the like in worker processes, one per card.

`parallel` and `training.foreign` call `run`. Each process sees one card only. It lives
as long as its parent, since starting one takes long: it has to import its library and
open its card.
"""

import fcntl
import functools
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from joblib.externals import loky

from shadow import devices

_held: list[int] = []  # the lock on this process's card, held until it ends


def run(train: Callable, arguments: Sequence[tuple]) -> list[Any]:
    """Call `train` on each tuple of arguments; return the results in order."""
    executor = _executor(tuple(devices.card_names()))
    try:
        futures = [executor.submit(train, *part) for part in arguments]
        return [part.result() for part in futures]
    except BrokenProcessPool:
        # A process died, which ends the pool: the next run gets a new one.
        _executor.cache_clear()
        raise


def workers() -> list[int]:
    """Return the ids of the pool's processes; none if there is no pool."""
    if not _executor.cache_info().currsize:
        return []
    return list(_executor(tuple(devices.card_names()))._processes or ())


def stop() -> None:
    """End the pool's processes, if there are any; the next run starts new ones."""
    if _executor.cache_info().currsize:
        _executor(tuple(devices.card_names())).shutdown(wait=True)
        _executor.cache_clear()


@functools.cache
def _executor(cards: tuple[str, ...]) -> Any:
    folder = tempfile.mkdtemp(prefix="informed-cards-")
    return loky.ProcessPoolExecutor(
        max_workers=max(1, len(cards)), initializer=_take, initargs=(folder, cards)
    )


def _take(folder: str, cards: tuple[str, ...]) -> None:
    """Take a card that no other process has, until this process ends."""
    for number, name in enumerate(cards):
        file = os.open(Path(folder) / str(number), os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            continue
        _held.append(file)
        os.environ["CUDA_VISIBLE_DEVICES"] = name
        return
