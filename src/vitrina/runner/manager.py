"""The manager: one tick plans schedules and tidies up; each slot works off what is due, isolated from the others."""

from dataclasses import dataclass, field
from threading import Event
from uuid import UUID

import structlog
from psycopg import sql

from vitrina.domain.errors import ConfigError, DatabaseLost, RetryableError, VitrinaError
from vitrina.engine.stage import SCHEMA
from vitrina.meta.db import Connection, fetch_all, queries, translated
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.requests import RequestRepo
from vitrina.meta.repos.retention import Ages, RetentionRepo
from vitrina.meta.repos.upstream import UpstreamRepo
from vitrina.meta.repos.waits import WaitRepo
from vitrina.runner.clock import ClockWatch
from vitrina.runner.dispatcher import PipelineDispatcher
from vitrina.runner.schedules import plan_due

log = structlog.get_logger()
RUNNERS = queries("runners")


@dataclass
class PipelineManager:
    """Who is due. Only a lost database passes through; a pipeline's failure is its own."""

    conn: Connection
    ages: Ages = field(default_factory=Ages)
    max_crashes: int = 3
    clock: ClockWatch = field(default_factory=ClockWatch)

    def tick(self) -> None:
        """Look at the clock first; plan what is scheduled, wake what is live or comes after others, fail requests that
        kill runners."""
        self.clock.look(self.conn)
        for request_id in RequestRepo(self.conn).bury(self.max_crashes):
            log.error("request given up", request=str(request_id))
        plan_due(PipelineRepo(self.conn))
        UpstreamRepo(self.conn).wake_downstream()
        self.wake_live()

    def wake_live(self) -> bool:
        """Whether some live pipeline has become due."""
        return PipelineRepo(self.conn).wake_live() > 0

    def has_waits(self) -> bool:
        """Whether some pipeline waits for somebody outside."""
        return WaitRepo(self.conn).any()

    def tidy(self) -> None:
        """Forget what is too old, and drop scratch tables that nobody holds."""
        forgotten = RetentionRepo(self.conn, self.ages).forget()
        if forgotten:
            log.info("forgotten, by age", **forgotten)
        for row in fetch_all(self.conn, RUNNERS["orphaned_stages"]):
            try:
                self._drop_stage(row["relname"])
            except (RetryableError, ConfigError) as error:
                log.warning("scratch table kept", table=row["relname"], reason=str(error))

    def _drop_stage(self, name: str) -> None:
        """With the lease or the request locked: whoever claims it now makes its tables only after this has ended."""
        with translated(), self.conn.transaction():
            self.conn.execute("SET LOCAL lock_timeout = '1s'; SET LOCAL idle_in_transaction_session_timeout = '5s'")
            if not self.conn.execute(RUNNERS["holder_of_stage"], {"name": name}).fetchone():
                self.conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(SCHEMA, name)))


def work_off(dispatcher: PipelineDispatcher, stopping: Event, only: UUID | None = None) -> int:
    """Run what is due, one after the other, until nothing is; how many."""
    done = 0
    while not stopping.is_set():
        try:
            claim = dispatcher.dispatch_next(only)
        except DatabaseLost:
            raise
        except VitrinaError:
            log.exception("a pipeline could not be dispatched")
            return done
        if claim is None:
            return done
        done += 1
    return done
