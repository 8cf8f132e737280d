"""How far a long step is: a bar on a terminal, else a line a minute.

To stderr: stdout belongs to results.
"""

import sys
from collections.abc import Iterable
from typing import Any

from tqdm import tqdm

EVERY = 60.0  # seconds between lines, and before the first one


class _Lines:
    """A stream on which each state of a bar is a line of its own."""

    encoding = "utf-8"

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        """Write what isn't only there to move a cursor."""
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
    """A bar of tqdm's.

    Args:
      rows: the rows that are gone through; None: `update` moves the bar on.
      show: False: nothing is printed.
      every: seconds between lines where there is no terminal; a step that ends sooner
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
