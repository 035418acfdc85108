"""The heartbeat: renews every lease of this process, on a connection and a thread of its own."""

from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Lock
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from vitrina import __version__
from vitrina.meta.db import Connection, queries
from vitrina.meta.repos.clock import ClockRepo
from vitrina.meta.repos.following import FollowingRepo
from vitrina.meta.repos.leases import LeaseRepo
from vitrina.meta.repos.requests import RequestRepo
from vitrina.metrics import events
from vitrina.runner.clock import ClockWatch
from vitrina.runner.control import RunControl
from vitrina.runner.identity import Identity
from vitrina.runner.service import Duty, Service, Session
from vitrina.sources.connections import Connections

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
    followers: dict[UUID, RunControl] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = Lock()
        self._session = Session(lambda: self.connections.open_warehouse("heartbeat"))
        duties = [
            Duty(lambda: self._beat(self._session.get()), "heartbeat failed", self.lease_seconds / 3),
            Duty(self._hear, "heartbeat failed", HURRY_SECONDS),
        ]
        self.service = Service("heartbeat", Event(), duties, [self._session], end=self._sign_off)

    def watch(self, run_id: int, control: RunControl) -> None:
        """Keep this run's lease alive, for this attempt of it; one before it that still goes on here is told."""
        with self._lock:
            before, self.runs[run_id] = self.runs.get(run_id), control
        if before:
            before.lost.set()

    def forget(self, run_id: int, control: RunControl) -> None:
        """That attempt has ended; another may go on."""
        with self._lock:
            if self.runs.get(run_id) is control:
                del self.runs[run_id]

    def watch_follower(self, pipeline_id: UUID, control: RunControl) -> None:
        """Keep this mart in our hands."""
        with self._lock:
            self.followers[pipeline_id] = control

    def forget_follower(self, pipeline_id: UUID, control: RunControl) -> None:
        """It is followed here no more, unless it was taken again meanwhile."""
        with self._lock:
            if self.followers.get(pipeline_id) is control:
                del self.followers[pipeline_id]

    def watch_request(self, token: tuple[UUID, int], control: RunControl) -> None:
        """Keep the claim on this request alive."""
        with self._lock:
            self.requests[token] = control

    def forget_request(self, token: tuple[UUID, int]) -> None:
        """It has ended."""
        with self._lock:
            self.requests.pop(token, None)

    def _sign_off(self) -> None:
        if self._session.conn:
            with suppress(psycopg.Error):
                self._session.conn.execute(SQL["gone"], {"id": self.identity.id})

    def _hear(self) -> None:
        """Whoever is in a hurry, between two beats; a beat opens the session."""
        if self._session.conn and self.runs:
            self._hurry(self._session.conn)

    def _hurry(self, conn: Connection) -> None:
        with self._lock:
            watched = dict(self.runs)
        leases = LeaseRepo(conn, self.identity.id, self.identity.name, self.lease_seconds)
        for run_id in leases.hurried(watched):
            watched[run_id].hurry()

    def _beat(self, conn: Connection) -> None:
        with self._lock:
            watched, requests, followers = dict(self.runs), dict(self.requests), dict(self.followers)
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
                control.hear(alive[run_id])
            else:
                control.lost.set()
        if followers:
            me = FollowingRepo(conn, self.identity.id, self.identity.name, self.lease_seconds)
            for pipeline_id in followers.keys() - me.renew(followers):
                followers[pipeline_id].lost.set()
        if requests:
            kept = RequestRepo(conn).renew(self.identity.id, self.lease_seconds, requests)
            for token in requests.keys() - kept:
                requests[token].lost.set()
