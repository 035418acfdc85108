"""The latency desk: writes down, a few times a minute, how late changes came to the marts of this process, and how much
the live marts of all lack."""

from dataclasses import dataclass
from threading import Event

import structlog

from vitrina.domain.errors import VitrinaError
from vitrina.domain.latency import Latencies
from vitrina.meta.db import Connection
from vitrina.meta.repos.latency import LatencyRepo
from vitrina.runner.service import Duty, Service, Session
from vitrina.sources.connections import Connections

log = structlog.get_logger()
EVERY_SECONDS = 5.0


@dataclass
class LatencyDesk:
    """Two statements each time, however many marts there are."""

    connections: Connections
    stopping: Event

    @property
    def latencies(self) -> Latencies:
        """What this process has counted."""
        return self.connections.latencies

    def service(self) -> Service:
        """On a thread of its own; what is left at the end is written down too."""
        session = Session(lambda: self.connections.open_warehouse("latency"))
        complaint = "latencies could not be written down, trying again"
        duty = Duty(lambda: self.write(session.get()), complaint, EVERY_SECONDS)
        return Service("latency", self.stopping, [duty], [session], end=lambda: self._end(session))

    def write(self, conn: Connection) -> None:
        """All there is. What fails is kept for the next time."""
        taken = self.latencies.take()
        try:
            LatencyRepo(conn).add(taken)
        except BaseException:
            self.latencies.put_back(taken)
            raise
        LatencyRepo(conn).sample_backlog()

    def _end(self, session: Session) -> None:
        try:
            self.write(session.get())
        except VitrinaError as error:
            log.warning("the last latencies are not written down", error=str(error))
