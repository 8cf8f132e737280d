"""A headless Chromium, driven over a pipe with the standard library alone.

Chromium reads commands of the DevTools protocol from file descriptor 3 and answers on
4; each message is one JSON text that ends in a zero byte.
"""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # containers have no user namespaces, and the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--hide-scrollbars",
    "--no-first-run",
)
# Puts the ends of both pipes where Chromium looks for them, and becomes Chromium.
_START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4);"
    " os.execv(sys.argv[3], sys.argv[3:])"
)
_PATIENCE = 60.0  # seconds for one answer: a busy machine starts Chromium in ten


def find() -> str | None:
    """Path of a Chromium or Chrome on this machine; None without one."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Browser:
    """One tab of a browser, which is sent from address to address."""

    def __init__(self, read: int, write: int) -> None:
        self._read = read
        self._write = open(write, "wb", closefd=False)  # noqa: SIM115
        self._buffer = b""
        self._events: list[str] = []
        self._count = 0
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        tab = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = tab["sessionId"]
        self.call("Page.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Run one command of the DevTools protocol; what it answers."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        self._write.flush()
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._events.append(answer.get("method", ""))

    def open(self, file: Path, *, width: int, dark: bool = False) -> None:
        """Show a file in a window of a width in pixels, and wait until it's loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.colours(dark=dark)
        self._events.clear()
        self.call("Page.navigate", url=file.resolve().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._events.append(self._next().get("method", ""))

    def colours(self, *, dark: bool) -> None:
        """What the reader's system prefers; a page that is open follows."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, script: str) -> Any:
        """The value of an expression of JavaScript on the page; waits for a promise."""
        answer = self.call(
            "Runtime.evaluate",
            expression=script,
            awaitPromise=True,
            returnByValue=True,
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def picture(self, file: Path, *, whole: bool = True) -> None:
        """Write the page as a PNG, whole or the window's part of it."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        """The next message of the browser, an answer or an event."""
        until = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            wait = until - time.monotonic()
            if wait <= 0 or not select.select([self._read], [], [], wait)[0]:
                raise TimeoutError(f"the browser was silent for {_PATIENCE:.0f} s")
            if not (data := os.read(self._read, 1 << 20)):
                raise RuntimeError("the browser has ended")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)


@contextlib.contextmanager
def started(path: str) -> Iterator[Browser]:
    """A browser with a profile of its own, which ends with the block."""
    theirs, commands = os.pipe()
    answers, theirs_too = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        arguments = [path, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(
            [sys.executable, "-c", _START, str(theirs), str(theirs_too), *arguments],
            pass_fds=(theirs, theirs_too),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(theirs_too)
        try:
            yield Browser(answers, commands)
        finally:
            os.close(commands)  # Chromium ends when nobody can command it any more
            os.close(answers)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
