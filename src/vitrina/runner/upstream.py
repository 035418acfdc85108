"""The upstream desk: finds out what those pipelines read that are to be due after others and were written in SQL, where
nobody has asked their source yet. Until then they are due after nothing."""

import time
from dataclasses import dataclass, field
from threading import Event
from typing import TypeAlias
from uuid import UUID

import structlog
from psycopg.rows import DictRow

from vitrina.domain.errors import VitrinaError
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import Connection
from vitrina.meta.repos.upstream import UpstreamRepo
from vitrina.planning import check_plan, reads_of, vet_plan
from vitrina.runner.service import Duty, Service, Session, pause_after
from vitrina.sources.connections import Connections

log = structlog.get_logger()
Version: TypeAlias = tuple[UUID, int]
"""A pipeline and the version of its configuration."""


@dataclass
class UpstreamDesk:
    """Asks the warehouse, as a run would."""

    connections: Connections
    stopping: Event
    tried: dict[Version, tuple[int, float]] = field(default_factory=dict)  # in vain: how often, and when again

    def service(self) -> Service:
        """On a thread of its own."""
        session = Session(lambda: self.connections.open_warehouse("upstream"))
        complaint = "what pipelines read cannot be looked at, trying again"
        duty = Duty(lambda: self.look(session.get()), complaint, self.connections.settings.poll_seconds)
        return Service("upstream", self.stopping, [duty], [session])

    def look(self, conn: Connection) -> None:
        """At each of them; what is wrong with one is said by its own run, too. One whose upstream is not there yet is
        looked at again, with pauses that grow up to DEPENDENCY_SECONDS."""
        for row in UpstreamRepo(conn).unknown():
            failures, due = self.tried.get((row["id"], row["version"]), (0, 0.0))
            if self.stopping.is_set():
                return
            if due > time.monotonic():
                continue
            try:
                self._look_at(row, conn)
            except VitrinaError as error:
                pause = pause_after(failures + 1, self.connections.settings.dependency_seconds)
                self.tried[row["id"], row["version"]] = failures + 1, time.monotonic() + pause
                log.info("what a pipeline reads is not known", pipeline=row["name"], error=str(error))

    def _look_at(self, row: DictRow, conn: Connection) -> None:
        plan = check_plan(Pipeline.parse(row["config"]), self.connections.settings)
        with self.connections.resolve_reader(plan.source) as reader:
            vet_plan(reader, plan, self.connections.settings)
            UpstreamRepo(conn).keep(row["id"], row["version"], plan.target, reads_of(reader, plan))
