"""Show the progress of long loops on stderr: as a bar, or as lines of a log file.

Stores, launchers and long loops of `reconn`, `informed` and `uninformed` call `bar`.
tqdm draws it; where stderr is no terminal, it prints a line a minute.
"""

import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

EVERY = 60.0  # seconds between lines, and before the first one


class _Lines:
    """A stream that prints each state of a bar as a separate line."""

    encoding = "utf-8"

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write text, without what only moves the cursor."""
        line = text.replace("\r", "").rstrip()
        if line:
            self._stream.write(f"{line}\n")

    def flush(self) -> None:
        """Flush the stream that lines go to."""
        self._stream.flush()


def bar(
    rows: Iterable[Any] | None = None,
    *,
    show: bool = True,
    every: float = EVERY,
    **about: Any,
) -> tqdm:
    """Return a progress bar of tqdm.

    Args:
      rows: the rows to iterate over; None: `update` moves the bar on.
      show: False: nothing is printed.
      every: seconds between lines where there is no terminal; a loop that ends sooner
        prints none.
      about: `total`, `desc`, `unit`, `initial`, as tqdm takes them.
    """
    if not show:
        return tqdm(rows, disable=True, **about)
    if sys.stderr.isatty():
        return tqdm(rows, **about)
    return tqdm(
        rows,
        file=_Lines(sys.stderr),
        delay=every,
        mininterval=every,
        ncols=79,
        **about,
    )
