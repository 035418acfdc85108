"""The waiting desk: pipelines that wait for somebody hold no slot; it looks whether that is over, and wakes them.

Those that wait for a neighbour who is away are woken when somebody of this process hears from it; else they are due in
time by themselves.
"""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from threading import Event

import structlog
from psycopg.rows import DictRow

from vitrina.capture.barrier import holder_of
from vitrina.domain.errors import VitrinaError
from vitrina.meta.db import Connection
from vitrina.meta.repos.outages import OutageRepo
from vitrina.meta.repos.waits import WaitRepo
from vitrina.runner.service import Duty, Service
from vitrina.runner.waker import Waker
from vitrina.sources.connections import Connections

log = structlog.get_logger()
LOOK_SECONDS = 1.0  # between two looks at the same, whoever looks


@dataclass
class WaitingDesk:
    """Looks at the sources of those who wait."""

    connections: Connections
    stopping: Event
    waker: Waker = field(default_factory=lambda: Waker(1))  # rung by the main loop, which waits for no source itself
    answering: deque[str] = field(default_factory=deque)  # neighbours that were away, and answer again

    def hear(self, neighbour: str) -> None:
        """It answers again."""
        self.answering.append(neighbour)
        self.waker.wake_one()

    def service(self) -> Service:
        """On a thread of its own, with a connection only while it looks, and it looks only when somebody waits."""
        complaint = "cannot look whether those are done who are waited for, trying again"
        duty = Duty(self._look, complaint, longest=self.connections.settings.poll_seconds)
        return Service("waits", self.stopping, [duty], may_hang=True)

    def _look(self) -> None:
        self.waker.wait(self.waker.wakes[0])
        if not self.stopping.is_set():
            with self.connections.open_warehouse("waits") as conn:
                self.look(conn)

    def look(self, conn: Connection) -> None:
        """At every wait whose turn it is; a source that cannot be reached keeps nobody from the others."""
        while self.answering:
            neighbour = self.answering[0]
            due = OutageRepo(conn).answers(neighbour)
            self.answering.popleft()
            log.info("answers again; what waited for it goes on", neighbour=neighbour, pipelines=due)
        by_source: defaultdict[str, list[DictRow]] = defaultdict(list)
        for wait in WaitRepo(conn).turns(LOOK_SECONDS):
            by_source[wait["source"]].append(wait)
        for source, waits in by_source.items():
            try:
                self.connections.neighbours.require(source)
                self._look_at(source, waits, conn)
            except VitrinaError as error:
                log.warning("cannot look whether transactions have ended", source=source, error=str(error))

    def _look_at(self, source: str, waits: list[DictRow], conn: Connection) -> None:
        repo = WaitRepo(conn)
        with self.connections.resolve_reader(source) as reader:
            for wait in waits:
                holder = holder_of(reader.catalogue.conn, wait["barrier"])
                if holder is not None:
                    repo.still(wait["pipeline_id"], holder)
                elif repo.over(wait["pipeline_id"]):
                    log.info("nobody is waited for any more", pipeline=wait["name"], source=source)
