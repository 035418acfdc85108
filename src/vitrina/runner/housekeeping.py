"""The housekeeper: what a runner does now and then, on a thread of its own, since a neighbour may keep it waiting."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

import structlog
from psycopg.types.json import Jsonb

from vitrina.meta.db import Connection, queries, translated
from vitrina.runner.identity import Identity
from vitrina.runner.manager import PipelineManager
from vitrina.sinks.documents.tidying import tidy_indexes
from vitrina.sinks.elasticsearch.health import look_at_elasticsearch
from vitrina.sources.connections import Connections

log = structlog.get_logger()
RUNNERS = queries("runners")
TIDY_EVERY = 300  # times the poll interval
LOOK_EVERY = 8


@dataclass
class Housekeeper:
    """Looks at the sinks and tidies up. Sessions are opened for each turn: it may hang for long, and holds nothing."""

    connections: Connections
    identity: Identity
    stopping: Event
    manage: Callable[[Connection], PipelineManager]

    def main_loop(self) -> None:
        """Until told to stop; whatever fails, the next turn tries again."""
        poll = self.connections.settings.poll_seconds
        chores = {self._tidy: TIDY_EVERY * poll, self._look_at_sinks: LOOK_EVERY * poll}
        due = dict.fromkeys(chores, time.monotonic())
        while not self.stopping.is_set():
            for chore, pause in chores.items():
                if due[chore] <= time.monotonic() and not self.stopping.is_set():
                    self._try(chore)
                    due[chore] = time.monotonic() + pause
            self.stopping.wait(poll)

    def _try(self, chore: Callable[[], None]) -> None:
        try:
            chore()
        except Exception as error:
            log.warning("housekeeping failed, trying again later", error=str(error))

    def _tidy(self) -> None:
        with self.connections.open_warehouse("tidying") as conn:
            self.manage(conn).tidy()
            tidy_indexes(conn, self.connections.settings)

    def _look_at_sinks(self) -> None:
        """The control plane talks to no sink: it shows what a runner has seen."""
        seen = look_at_elasticsearch(self.connections.settings, self.connections.neighbours)
        if self.stopping.is_set():
            return
        with translated(), self.connections.open_warehouse("housekeeper") as conn:
            conn.execute(RUNNERS["tell_sinks"], {"sinks": Jsonb(seen), "id": self.identity.id})
