"""The heartbeat: renews every lease of this process, on a connection and a thread of its own."""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from uuid import UUID

import psycopg
import structlog
from psycopg.types.json import Jsonb

from vitrina import __version__
from vitrina.meta.db import Connection, queries
from vitrina.meta.repos.clock import ClockRepo
from vitrina.meta.repos.leases import LeaseRepo
from vitrina.meta.repos.requests import RequestRepo
from vitrina.metrics import events
from vitrina.runner.clock import ClockWatch
from vitrina.runner.control import RunControl
from vitrina.runner.identity import Identity
from vitrina.sources.connections import Connections

log = structlog.get_logger()
SQL = queries("runners")
HURRY_SECONDS = 1.0  # within which a pause is noticed that is wanted at once


@dataclass
class Heartbeat:
    """Beats three times within a lease, however busy the slots are."""

    connections: Connections
    identity: Identity
    lease_seconds: float
    slots: int
    clock: ClockWatch = field(default_factory=ClockWatch)
    runs: dict[int, RunControl] = field(default_factory=dict)
    requests: dict[tuple[UUID, int], RunControl] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = Lock()
        self._ended = Event()
        self._thread = Thread(target=self._beat_until_ended, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def end(self) -> None:
        """Stop beating and sign off."""
        self._ended.set()
        self._thread.join()

    def watch(self, run_id: int, control: RunControl) -> None:
        """Keep this run's lease alive."""
        with self._lock:
            self.runs[run_id] = control

    def forget(self, run_id: int) -> None:
        """It has ended."""
        with self._lock:
            self.runs.pop(run_id, None)

    def has_room(self) -> bool:
        """Whether a slot of this process is free."""
        return len(self.runs) < self.slots

    def watch_request(self, token: tuple[UUID, int], control: RunControl) -> None:
        """Keep the claim on this request alive."""
        with self._lock:
            self.requests[token] = control

    def forget_request(self, token: tuple[UUID, int]) -> None:
        """It has ended."""
        with self._lock:
            self.requests.pop(token, None)

    def _beat_until_ended(self) -> None:
        conn: Connection | None = None
        while not self._ended.is_set():
            try:
                conn = conn or self.connections.open_warehouse("heartbeat")
                self._beat(conn)
            except Exception as error:  # whatever it is, the next beat tries again
                log.warning("heartbeat failed", error=str(error))
                if conn:
                    conn.close()
                conn = None
            conn = self._rest(conn)
        if conn:
            with suppress(psycopg.Error):
                conn.execute(SQL["gone"], {"id": self.identity.id})
            conn.close()

    def _rest(self, conn: Connection | None) -> Connection | None:
        """Until the next beat; meanwhile, whoever is in a hurry is heard."""
        deadline = time.monotonic() + self.lease_seconds / 3
        while (left := deadline - time.monotonic()) > 0 and not self._ended.wait(min(left, HURRY_SECONDS)):
            try:
                if conn and self.runs:
                    self._hurry(conn)
            except Exception as error:  # the next beat opens another session
                log.warning("heartbeat failed", error=str(error))
                if conn:
                    conn.close()
                conn = None
        return conn

    def _hurry(self, conn: Connection) -> None:
        with self._lock:
            watched = dict(self.runs)
        leases = LeaseRepo(conn, self.identity.id, self.identity.name, self.lease_seconds)
        for run_id in leases.hurried(watched):
            watched[run_id].hurry()

    def _beat(self, conn: Connection) -> None:
        with self._lock:
            watched, requests = dict(self.runs), dict(self.requests)
        self.clock.look(conn)  # before anything is called expired
        ClockRepo(conn).see()
        leases = LeaseRepo(conn, self.identity.id, self.identity.name, self.lease_seconds)
        conn.execute(
            SQL["seen"],
            {
                "id": self.identity.id,
                "name": self.identity.name,
                "version": __version__,
                "slots": self.slots,
                "busy": len(watched),
                "neighbours": Jsonb(self.connections.neighbours.as_json()),
            },
        )
        events.beat(self.slots, len(watched))
        alive = leases.renew(watched) if watched else {}
        for run_id, control in watched.items():
            if run_id in alive:
                control.status = alive[run_id]
            else:
                control.lost.set()
        if requests:
            kept = RequestRepo(conn).renew(self.identity.id, self.lease_seconds, requests)
            for token in requests.keys() - kept:
                requests[token].lost.set()
