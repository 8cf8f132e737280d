"""The deadline of an audit: writes the page from what is there, and ends the process.

Code that was called and doesn't come back can't be ended by an exception: a training
function of the user's, or a compilation. So `audit_command` makes a `Watchdog`, whose
thread waits for the deadline, and then also kills worker processes.
"""

import os
import threading
from collections.abc import Callable

from shadow import parallel


class Watchdog:
    """Ends the process at a deadline, unless `done` comes before.

    Args:
      seconds: time until the deadline.
      conclude: a function that writes what there is, and returns the exit code.
    """

    def __init__(self, seconds: float, conclude: Callable[[], int]) -> None:
        self._conclude, self._concluding = conclude, threading.Lock()
        self._over = threading.Event()
        thread = threading.Thread(target=self._wait, args=[seconds], daemon=True)
        thread.start()

    def done(self) -> None:
        """Call the deadline off; if it has come, wait for the end of the process."""
        with self._concluding:
            self._over.set()

    def _wait(self, seconds: float) -> None:
        if self._over.wait(seconds):
            return
        with self._concluding:
            if self._over.is_set():
                return
            code = 2
            try:
                code = self._conclude()
            finally:
                parallel.kill_workers()
                os._exit(code)
