"""A wire between a runner and a server, of Postgres or Elasticsearch alike, that a test may cut, slow down or block."""

import select
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"  # as the driver sends it


@dataclass(frozen=True)
class Trouble:
    """What happens to the first connection on which a client has sent these words, or so many bytes.

    `cut`: they do not arrive, and the connection ends. `lose`: they arrive, and the connection ends instead of the
    answer. `delay`: they arrive late. `swallow`: nothing arrives any more, and nobody is told.
    """

    how: str
    at: bytes | int = 0
    after: bytes = b""  # only on a connection on which these came before
    skip: int = 0  # times that it could have happened, and did not
    seconds: float = 0.0

    def is_due(self, link: "Link", data: bytes) -> bool:
        """Whether this is the moment."""
        link.has_begun = link.has_begun or self.after in data
        now = self.at in data if isinstance(self.at, bytes) else link.sent >= self.at
        link.chances += now and link.has_begun
        return bool(now and link.chances > self.skip)


@dataclass
class Link:
    """One connection, from both sides."""

    client: socket.socket
    server: socket.socket
    sent: int = 0
    has_begun: bool = False
    chances: int = 0
    swallows: bool = False
    loses: bool = False

    def close(self) -> None:
        """Both ends see it."""
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@dataclass
class Wire:
    """Listens on a port of its own, and passes everything on; `trouble` happens once."""

    upstream: tuple[str, int] | str
    trouble: Trouble | None = None
    happened: int = 0
    is_closed: bool = False
    carried: int = 0  # bytes, both ways
    links: list[Link] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def start(self) -> None:
        """Let it listen."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        """Nobody listens any more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def close(self) -> None:
        """Whoever comes is sent away, until it is opened again."""
        self.is_closed = True
        self.cut()

    def open(self) -> None:
        """As before."""
        self.is_closed = False

    def cut(self) -> None:
        """All connections there are."""
        with self._lock:
            links, self.links = self.links, []
        for link in links:
            link.close()

    def block(self) -> None:
        """Nothing passes on the connections there are, and nobody is told."""
        with self._lock:
            for link in self.links:
                link.swallows = True

    def heal(self) -> None:
        """No more trouble; what was blocked ends at last."""
        self.trouble = None
        with self._lock:
            blocked = [link for link in self.links if link.swallows]
        for link in blocked:
            self._end(link)

    def _accept(self) -> None:
        with suppress(OSError):  # stopped
            while True:
                client, _ = self._listener.accept()
                if self.is_closed:
                    client.close()
                    continue
                try:
                    server = self._connect()
                except OSError:  # the server is down: so is the wire
                    client.close()
                    continue
                link = Link(client, server)
                with self._lock:
                    self.links.append(link)
                Thread(target=self._carry, args=(link,), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self.upstream, tuple):
            return socket.create_connection(self.upstream, timeout=None)
        server = socket.socket(socket.AF_UNIX)
        server.connect(self.upstream)
        return server

    def _carry(self, link: Link) -> None:
        """Until either side, or trouble, ends it."""
        try:
            with suppress(OSError, ValueError), selectors.DefaultSelector() as selector:
                selector.register(link.client, selectors.EVENT_READ)
                selector.register(link.server, selectors.EVENT_READ)
                while self._pass_on(link, selector.select(1)):
                    pass
        finally:
            self._end(link)

    def _pass_on(self, link: Link, ready: list[tuple[selectors.SelectorKey, int]]) -> bool:
        for key, _ in ready:
            data = key.fileobj.recv(65536)  # type: ignore[union-attr]
            if not data or (key.fileobj is link.server and link.loses):
                return link.swallows and not link.loses and self._wait_blocked(link)
            if key.fileobj is link.client and not self._is_fine(link, data):
                return False
            if not link.swallows:
                self.carried += len(data)
                (link.server if key.fileobj is link.client else link.client).sendall(data)
        return True

    def _is_fine(self, link: Link, data: bytes) -> bool:
        """Whether what a client says goes on."""
        link.sent += len(data)
        with self._lock:
            trouble = self.trouble
            if trouble is None or not trouble.is_due(link, data):
                return True
            self.trouble, self.happened = None, self.happened + 1
        if trouble.how == "delay":
            time.sleep(trouble.seconds)
        link.loses, link.swallows = trouble.how == "lose", trouble.how == "swallow"
        return trouble.how != "cut"

    def _wait_blocked(self, link: Link) -> bool:
        """One side has gone, and the other is not told before the wire is healed."""
        while link in self.links:
            time.sleep(0.02)
        return False

    def _end(self, link: Link) -> None:
        with self._lock:
            if link in self.links:
                self.links.remove(link)
        link.close()


def to_postgres(conninfo: str) -> Wire:
    """To the server of a unix socket."""
    parts = conninfo_to_dict(conninfo)
    return Wire(str(Path(str(parts["host"])) / f".s.PGSQL.{parts.get('port', 5432)}"))


def through(wire: Wire, conninfo: str) -> str:
    """The same database by way of a wire, in the clear."""
    unsealed: dict[str, Any] = {"sslmode": "disable", "gssencmode": "disable"}
    return make_conninfo(conninfo, host="127.0.0.1", port=wire.port, **unsealed)


@contextmanager
def wired(wire: Wire) -> Iterator[Wire]:
    """A wire for the time being."""
    wire.start()
    try:
        yield wire
    finally:
        wire.stop()


@contextmanager
def black_hole() -> Iterator[socket.socket]:
    """Takes every connection and never says a word: like a server behind a network that swallows everything."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        yield listener


def is_called(listener: socket.socket) -> bool:
    """Whether somebody waits to be answered."""
    return bool(select.select([listener], [], [], 0)[0])
