"""stdout belongs to results: what foreign code prints goes elsewhere.

Not only what Python prints: libraries in C and the processes that models are trained
in write to the same file descriptor.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_STDOUT = 1


@contextlib.contextmanager
def aside(log: Path | None) -> Iterator[None]:
    """Send whatever is printed inside to a file; to stderr, where there is none.

    Args:
      log: written anew, and removed again where nothing was printed.
    """
    sys.stdout.flush()
    real = sys.stdout
    kept = os.dup(_STDOUT)
    if log is None:
        place = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else kept)
    else:
        place = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.dup2(place, _STDOUT)
        with os.fdopen(place, "w", buffering=1) as stream:
            sys.stdout = stream
            try:
                yield
            finally:
                sys.stdout = real
    finally:
        os.dup2(kept, _STDOUT)
        os.close(kept)
        if log is not None and log.exists() and not log.stat().st_size:
            log.unlink()
