"""Captures in the runner: a thread for each source that this process holds the lease of; one holder a source, however
many runners there are."""

from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread

import structlog

from vitrina.capture.engine import Engine, Pace
from vitrina.capture.taps import find_kind
from vitrina.domain.errors import LeaseLost, VitrinaError
from vitrina.meta.db import Connection
from vitrina.meta.repos.captures import Capture, CaptureRepo
from vitrina.runner.clock import ClockWatch
from vitrina.runner.identity import Identity
from vitrina.runner.service import Duty, Service, Session
from vitrina.sources.connections import Connections

log = structlog.get_logger()


@dataclass
class CaptureDesk:
    """Claims what is free, and captures it until the runner stops."""

    connections: Connections
    identity: Identity
    stopping: Event
    pace: Pace = field(default_factory=Pace)
    clock: ClockWatch = field(default_factory=ClockWatch)
    threads: dict[str, Thread] = field(default_factory=dict)

    def service(self) -> Service:
        """On a thread of its own; when it stops, every capture is released for others to go on."""
        session = Session(lambda: self.connections.open_warehouse("captures"))
        complaint = "captures cannot be looked for, trying again"
        duty = Duty(lambda: self._look(session.get()), complaint, self.connections.settings.poll_seconds)
        return Service("captures", self.stopping, [duty], [session], end=self._join)

    def _look(self, conn: Connection) -> None:
        free = CaptureRepo(conn).free()
        if free and self.clock.look(conn):
            free = CaptureRepo(conn).free()  # the clock had jumped
        for source in free:
            self._start(source)

    def _join(self) -> None:
        for thread in self.threads.values():
            thread.join()

    def _start(self, source: str) -> None:
        running = self.threads.get(source)
        if running is None or not running.is_alive():
            self.threads[source] = Thread(target=self.capture, args=(source,), name=f"capture {source}")
            self.threads[source].start()

    def capture(self, source: str) -> None:
        """Claim and capture until stopped, or until an error or another holder ends it. Raises nothing."""
        try:
            with self.connections.open_warehouse("capture log") as conn:
                held = self._repo(conn).claim(source, self.identity.id, self.identity.name)
                if held:
                    self._see_through(conn, held)
        except Exception as error:
            log.warning("capture could not be claimed", source=source, error=str(error))

    def _see_through(self, conn: Connection, held: Capture) -> None:
        try:
            self._run(conn, held)
            self._repo(conn).release(held)
        except LeaseLost as error:
            log.warning("capture given up", source=held.source, reason=str(error))
        except VitrinaError as error:
            log.warning("capture failed, trying again later", source=held.source, error=str(error))
            self._fail(held, str(error))
        except Exception as error:
            log.exception("unexpected error in a capture", source=held.source)
            self._fail(held, f"{type(error).__name__}: {error}")

    def _run(self, conn: Connection, held: Capture) -> None:
        settings = self.connections.settings
        tap = find_kind(held.tap or held.kind)(self.connections.resolve_capture(held.source))
        engine = Engine(conn, held, tap, settings.lease_seconds, settings.change_log_max_rows, self.pace)
        try:
            engine.run(self.stopping)
        finally:
            with suppress(Exception):
                tap.close()

    def _fail(self, held: Capture, error: str) -> None:
        """Through a session of its own: the one that wrote may be what failed."""
        with suppress(VitrinaError), self.connections.open_warehouse("capture log") as conn:
            self._repo(conn).fail(held, error)

    def _repo(self, conn: Connection) -> CaptureRepo:
        return CaptureRepo(conn, self.connections.settings.lease_seconds)
