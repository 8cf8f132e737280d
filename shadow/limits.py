"""Time limits for what can't be asked to hurry."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType


class OutOfTimeError(BaseException):
    """What was begun isn't finished in its time.

    No `Exception`: code that goes on after any error of what it calls has to stop.
    """


@contextlib.contextmanager
def seconds(limit: float, again: float = 5.0) -> Iterator[None]:
    """Raise OutOfTimeError inside, some time after `limit` seconds; after none at once.

    And every `again` seconds from then on: what reads a cache may take the error for
    one of its own and go on. A computation of XLA's isn't interrupted, but ended
    after. Outside of a process's main thread, and where there are no signals, nothing
    is interrupted. Limits may be nested: the outer one goes on where the inner ends.
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
        if rang:  # what XLA calls hands on another error in its place
            raise OutOfTimeError(f"Not finished in {limit:.0f} s.") from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:
            left = outer - (time.monotonic() - started)
            # What ran out meanwhile rings at once.
            signal.setitimer(signal.ITIMER_REAL, max(left, 1e-3), outer_again)


class Clock:
    """What is left of a time.

    Args:
      limit: seconds that there are.
      started: on the clock of `time.monotonic`; None: now.
    """

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
