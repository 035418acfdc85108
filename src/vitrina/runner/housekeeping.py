"""The housekeeper: what a runner does now and then, on a thread of its own, since a neighbour may keep it waiting."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

from psycopg.types.json import Jsonb

from vitrina.meta.db import Connection, queries, translated
from vitrina.runner.identity import Identity
from vitrina.runner.manager import PipelineManager
from vitrina.runner.service import Duty, Service
from vitrina.sinks import registry
from vitrina.sources.connections import Connections

RUNNERS = queries("runners")
TIDY_EVERY = 300  # times the poll interval
LOOK_EVERY = 8
COMPLAINT = "housekeeping failed, trying again later"


@dataclass
class Housekeeper:
    """Looks at the sinks and tidies up. Sessions are opened for each turn: it may hang for long, and holds nothing."""

    connections: Connections
    identity: Identity
    stopping: Event
    manage: Callable[[Connection], PipelineManager]

    def service(self) -> Service:
        """On a thread of its own."""
        poll = self.connections.settings.poll_seconds
        chores = {self._tidy: TIDY_EVERY * poll, self._look_at_sinks: LOOK_EVERY * poll}
        if upkeep := self.connections.settings.lake_upkeep_seconds:
            chores[self._keep_up] = upkeep
        duties = [Duty(chore, COMPLAINT, every) for chore, every in chores.items()]
        return Service("housekeeping", self.stopping, duties, may_hang=True)

    def _tidy(self) -> None:
        with self.connections.open_warehouse("tidying") as conn:
            self.manage(conn).tidy()
            registry.tidy(conn, self.connections.settings)

    def _keep_up(self) -> None:
        with self.connections.open_warehouse("upkeep") as conn:
            registry.keep_up(conn, self.connections.settings)

    def _look_at_sinks(self) -> None:
        """The control plane talks to no sink: it shows what a runner has seen."""
        seen = registry.look_at_sinks(self.connections.settings, self.connections.neighbours)
        if self.stopping.is_set():
            return
        with translated(), self.connections.open_warehouse("housekeeper") as conn:
            conn.execute(RUNNERS["tell_sinks"], {"sinks": Jsonb(seen), "id": self.identity.id})
