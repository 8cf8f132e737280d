"""Limit the time of attacks and audits; all callers are in `informed`.

`seconds` interrupts the main thread by the signal SIGALRM; a `Clock` only counts.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType


class OutOfTimeError(BaseException):
    """A time limit passed before the work was finished.

    It isn't an `Exception`, so that code which catches every error stops as well.
    """


@contextlib.contextmanager
def seconds(limit: float, again: float = 5.0) -> Iterator[None]:
    """Raise OutOfTimeError inside, soon after `limit` seconds; at once if that is <= 0.

    It is raised again every `again` seconds, because code may mistake the first one for
    an error of its own. A running XLA computation finishes first. Outside of the main
    thread, and without signals, nothing is interrupted. Limits may be nested; an outer
    one that passes meanwhile is raised when the inner block ends.
    """
    if limit <= 0:
        raise OutOfTimeError("No time is left.")
    usable = hasattr(signal, "setitimer") and (
        threading.current_thread() is threading.main_thread()
    )
    if not usable or limit == float("inf"):
        yield
        return

    rang = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal rang
        rang = True
        raise OutOfTimeError(f"Not finished in {limit:.0f} s.")

    before = signal.signal(signal.SIGALRM, stop)
    started = time.monotonic()
    outer, outer_again = signal.setitimer(signal.ITIMER_REAL, max(limit, 1e-3), again)
    try:
        yield
    except Exception as error:
        if rang:  # a callback of XLA turns it into another error
            raise OutOfTimeError(f"Not finished in {limit:.0f} s.") from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:
            left = outer - (time.monotonic() - started)
            # If the outer limit passed meanwhile, it is raised at once.
            signal.setitimer(signal.ITIMER_REAL, max(left, 1e-3), outer_again)


class Clock:
    """A countdown of `limit` seconds from `started`, by `time.monotonic`; None: now."""

    def __init__(self, limit: float, started: float | None = None) -> None:
        self._started = time.monotonic() if started is None else started
        self._end = self._started + limit

    @property
    def left(self) -> float:
        """Seconds that remain, at least 0."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> float:
        """Seconds since the clock was started."""
        return time.monotonic() - self._started
