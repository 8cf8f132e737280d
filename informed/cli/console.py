"""Separate an audit's output: results to stdout, progress to stderr, the rest to a log.

`audit_command` uses it. The user's training function may print, and so may C libraries
and worker processes, which write to the same file descriptor. `aside` redirects them
all, to the log beside --out or, without --out, to stderr.
"""

import argparse
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from informed.report import words

_STDOUT = 1


@contextlib.contextmanager
def aside(log: Path | None) -> Iterator[Callable[[], None]]:
    """Send what is printed to stdout inside to a log file, or to stderr.

    Args:
      log: the file; overwritten, and removed if nothing was printed. None: stderr.
    Yields: a function that ends this early; any thread may call it.
    """
    sys.stdout.flush()
    real = sys.stdout
    kept = os.dup(_STDOUT)
    if log is None:
        place = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else kept)
    else:
        place = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def end() -> None:
        sys.stdout = real
        os.dup2(kept, _STDOUT)

    try:
        os.dup2(place, _STDOUT)
        with os.fdopen(place, "w", buffering=1) as stream:
            sys.stdout = stream
            try:
                yield end
            finally:
                sys.stdout = real
    finally:
        end()
        os.close(kept)
        if log is not None and log.exists() and not log.stat().st_size:
            log.unlink()


class Progress:
    """Prints the current step, the time passed and the most that is left.

    On a terminal it prints a line per step, else at most one line in `every` seconds.
    A background thread repeats a step that takes longer than that.

    Args:
      arguments: of the command; `quiet` turns printing off.
      minutes: time limit of the command; None: it has none.
      stream: where lines go; None: stderr.
      every: seconds between lines while one step lasts.
    """

    def __init__(
        self,
        arguments: argparse.Namespace,
        minutes: float | None,
        stream: Any = None,
        every: float = 60.0,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._quiet = arguments.quiet
        self._started, self._minutes = time.monotonic(), minutes
        self._what, self._every = "", every
        self._said = self._started
        self._done = threading.Event()
        if not self._quiet:
            threading.Thread(target=self._repeat, daemon=True).start()

    def __call__(self, what: str) -> None:
        """Announce that a step begins."""
        self._what = what
        due = time.monotonic() - self._said >= self._every
        if not self._quiet and (due or self._stream.isatty()):
            self._say(what)

    def close(self) -> None:
        """Print no more lines from now on."""
        self._done.set()

    def _repeat(self) -> None:
        while not self._done.wait(self._every):
            if self._what and time.monotonic() - self._said >= 0.9 * self._every:
                self._say(f"still: {self._what}")

    def _say(self, what: str) -> None:
        self._said = time.monotonic()
        passed = self._said - self._started
        rest = ""
        if self._minutes is not None:
            seconds = 60 * self._minutes - passed
            rest = ", ending"
            if seconds > 0:
                rest = f", at most {words.seconds(seconds)} left"
        print(f"[{words.seconds(passed)}{rest}] {what}", file=self._stream, flush=True)
