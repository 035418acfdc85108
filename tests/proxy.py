"""A stand-in before the real Elasticsearch: passes everything on, but gives the answers that a test has scripted."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, TypeAlias

import httpx

from vitrina.sinks.search.bulk import WITNESS


@dataclass(frozen=True)
class Request:
    """What came, and for a bulk request its items."""

    method: str
    path: str
    body: bytes
    number: int  # of all bulk requests, from 1

    @property
    def is_bulk(self) -> bool:
        return "/_bulk" in self.path

    @property
    def rows(self) -> list[bytes]:
        """Its items, but for what goes before deletes alone."""
        return [item for item in self.items if item != WITNESS]

    @property
    def items(self) -> list[bytes]:
        lines = (line + b"\n" for line in self.body.split(b"\n")[:-1])
        return [line if line.startswith(b'{"delete"') else line + next(lines) for line in lines]


class Lost(Exception):
    """The connection ends without an answer."""


Answer: TypeAlias = tuple[int, bytes]
Rule: TypeAlias = Callable[["Proxy", Request], Answer | None]
"""Gives an answer, or None to let the request pass."""


@dataclass
class Proxy:
    """Listens on a port of its own; `rule` may be changed at any time."""

    upstream: str
    rule: Rule = lambda proxy, request: None
    sent: list[list[str]] = field(default_factory=list)  # the ids of each bulk request
    kinds: list[str] = field(default_factory=list)  # of the first item of each
    _lock: Lock = field(default_factory=Lock)

    def start(self, port: int = 0) -> None:
        """Let it answer."""
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                try:
                    status, content = proxy.answer(self.command, self.path, body, self.headers.get("Content-Type"))
                except Lost:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

            def log_message(self, *args: Any) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Nobody listens any more."""
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def answer(self, method: str, path: str, body: bytes, kind: str | None) -> Answer:
        """By the rule, or from the real server."""
        with self._lock:
            request = Request(method, path, body, len(self.sent) + 1)
            if request.is_bulk:
                self.sent.append([id_of(item) for item in request.rows])
                self.kinds.append("delete" if request.rows[0].startswith(b'{"delete"') else "index")
        scripted = self.rule(self, request)
        return scripted or self.forward(request, body, kind)

    def forward(self, request: Request, body: bytes, kind: str | None = "application/x-ndjson") -> Answer:
        """What the real server says to this body."""
        headers = {"Content-Type": kind} if kind else {}
        with httpx.Client(trust_env=False, verify=False, timeout=60) as client:
            answer = client.request(request.method, self.upstream + request.path, content=body, headers=headers)
        return answer.status_code, answer.content


def id_of(item: bytes) -> str:
    """Of an item of a bulk request."""
    action = json.loads(item.split(b"\n", 1)[0])
    return str(next(iter(action.values()))["_id"])


def refuse(proxy: Proxy, request: Request, refused: set[int], status: int, kind: str) -> Answer:
    """Items with these numbers are refused; the real server gets the others."""
    items = request.items
    passed = [item for n, item in enumerate(items) if n not in refused]
    status_, content = proxy.forward(request, b"".join(passed)) if passed else (200, b'{"items": []}')
    assert status_ == 200
    answers = iter(json.loads(content)["items"])
    error = {"type": kind, "reason": "scripted"}
    merged = [
        {"index": {"_id": id_of(item), "status": status, "error": error}} if n in refused else next(answers)
        for n, item in enumerate(items)
    ]
    return 200, json.dumps({"errors": True, "items": merged}).encode()


@contextmanager
def proxying(upstream: str) -> Iterator[Proxy]:
    """A proxy for the time being."""
    proxy = Proxy(upstream)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
