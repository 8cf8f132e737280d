"""A proxy before an S3 server that answers badly now and then."""

import collections
import http.client
import random
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

FAULTS = (
    "500",  # refused, nothing done
    "503",
    "409",  # "conflict" with nobody, nothing done
    "412",  # "precondition failed", nothing done
    "lost",  # done, but the connection breaks before the answer
    "late",  # done, but the answer comes after the client's patience
    "broken",  # the connection breaks, nothing done
)


def _possible(faults, command: str) -> list:
    """Only writers meet conflicts; None: no fault."""
    conflicts = () if command == "PUT" else ("409", "412")
    return [fault for fault in faults if fault not in conflicts] or [None]


class FaultyProxy:
    """Forwards to `endpoint`, and answers some requests by a fault.

    Args:
      endpoint: the server's URL.
      rate: part of the requests that a fault is drawn for.
      faults: those to draw from.
      patience: seconds; a late answer comes after.
    """

    def __init__(
        self, endpoint: str, *, rate: float, faults=FAULTS, patience: float = 0.7
    ) -> None:
        counts = self.counts = dict.fromkeys((*faults, None), 0)
        lock, to = threading.Lock(), urlsplit(endpoint)
        # One generator per method: reads added to the store leave the faults of puts.
        draws = collections.defaultdict(lambda: random.Random(2022))

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(length)
                fault = None
                with lock:
                    if draws[self.command].random() < rate:
                        # In turn, so that none is missing.
                        fault = min(_possible(faults, self.command), key=counts.get)
                        counts[fault] += 1
                if fault == "broken":
                    self._break()
                elif fault in ("500", "503", "409", "412"):
                    self._answer(int(fault), {}, b"<Error><Code>Fault</Code></Error>")
                else:
                    status, headers, content = self._forward(body)
                    if fault == "lost":
                        self._break()
                        return
                    if fault == "late":
                        time.sleep(patience)
                    self._answer(status, headers, content)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any

            def _forward(self, body: bytes):
                connection = http.client.HTTPConnection(to.hostname, to.port)
                headers = {k: v for k, v in self.headers.items() if k != "Connection"}
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
                connection.close()
                return answer.status, dict(answer.getheaders()), content

            def _answer(self, status: int, headers: dict, content: bytes) -> None:
                try:
                    self.send_response(status)
                    length = headers.get("Content-Length", str(len(content)))
                    for name, value in headers.items():
                        if name not in ("Content-Length", "Connection", "Server"):
                            self.send_header(name, value)
                    head = self.command == "HEAD"
                    self.send_header(
                        "Content-Length", length if head else str(len(content))
                    )
                    self.end_headers()
                    if not head:
                        self.wfile.write(content)
                except OSError:
                    self.close_connection = True  # the client has gone

            def _break(self) -> None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            def log_message(self, *_) -> None:
                """Quietly."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
