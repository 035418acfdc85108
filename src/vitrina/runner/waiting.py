"""The waiting desk: pipelines that wait for somebody hold no slot; it looks whether that is over, and wakes them."""

from collections import defaultdict
from dataclasses import dataclass, field
from threading import Event

import structlog
from psycopg.rows import DictRow

from vitrina.capture.barrier import holder_of
from vitrina.domain.errors import VitrinaError
from vitrina.meta.db import Connection
from vitrina.meta.repos.waits import WaitRepo
from vitrina.sources.connections import Connections

log = structlog.get_logger()
LOOK_SECONDS = 1.0  # between two looks at the same, whoever looks
IDLE_SECONDS = 0.5  # how soon this thread notices that the runner stops


@dataclass
class WaitingDesk:
    """One thread; a connection only while it looks, and it looks only when somebody waits."""

    connections: Connections
    stopping: Event
    wake: Event = field(default_factory=Event)  # set by the main loop, which waits for no source itself

    def main_loop(self) -> None:
        """Until told to stop; whatever fails, the next look tries again."""
        while not self.stopping.is_set():
            if not self.wake.wait(IDLE_SECONDS):
                continue
            self.wake.clear()
            try:
                with self.connections.open_warehouse("waits") as conn:
                    self.look(conn)
            except Exception as error:
                log.warning("cannot look whether those are done who are waited for, trying again", error=str(error))

    def look(self, conn: Connection) -> None:
        """At every wait whose turn it is; a source that cannot be reached keeps nobody from the others."""
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
