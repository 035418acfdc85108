"""A receiver of webhooks: a real server that keeps what it hears."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class Request:
    """One POST."""

    headers: Mapping[str, str]
    body: bytes
    path: str


@dataclass
class Receiver:
    """What it answers, and what it has heard."""

    status: int = 204
    reply: bytes = b""
    answers: dict[str, str] = field(default_factory=dict)  # headers
    delay: float = 0.0
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append(Request(dict(self.headers), body, self.path))
                time.sleep(receiver.delay)
                self.send_response(receiver.status)
                self.send_header("Content-Length", str(len(receiver.reply)))
                for name, value in receiver.answers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(receiver.reply)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def heard(self) -> list[dict[str, Any]]:
        """What it was told, in order."""
        return [json.loads(request.body) for request in self.requests]

    def forget(self) -> None:
        """What it has heard so far."""
        self.requests.clear()

    def close(self) -> None:
        """Nobody is there any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def receiving() -> Iterator[Receiver]:
    """While a test runs."""
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()
