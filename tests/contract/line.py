"""A bad line to an API: requests arrive, answers are lost, or it is too busy to be reached."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx

LOST, BUSY, PASS = "lost", "busy", "pass"  # the answer is lost; it cannot now; all is well


@dataclass
class Line:
    """The way to an API, with these troubles, in this order; each request arrives all the same, unless it is BUSY."""

    upstream: str
    url: str = ""
    troubles: list[str] = field(default_factory=list)
    arrived: list[str] = field(default_factory=list)


@contextmanager
def line(upstream: str) -> Iterator[Line]:
    """For the time being."""
    found = Line(upstream)

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            trouble = found.troubles.pop(0) if found.troubles else PASS
            if trouble == BUSY:
                self._say(503, b'{"detail": "the database is away", "remedy": "try again"}')
                return
            found.arrived.append(f"{self.command} {self.path.removeprefix('/api/v1')}")
            url, headers = found.upstream + self.path, dict(self.headers)
            with httpx.Client(trust_env=False, verify=False, timeout=60) as client:
                answer = client.request(self.command, url, content=body, headers=headers)
            if trouble == PASS:
                self._say(answer.status_code, answer.content)

        def _say(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815

        def log_message(self, *args: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
