"""What a run says: to the log, and into `etl_run_events`. A follower has no run, and keeps its lines itself."""

from dataclasses import dataclass

import structlog

from vitrina.domain.events import Event, shown
from vitrina.domain.wording import Data, Json
from vitrina.meta.db import Connection
from vitrina.meta.repos.leases import Claim
from vitrina.meta.repos.runs import RunRepo


@dataclass(frozen=True)
class RunLog:
    """Bound to one run."""

    conn: Connection
    claim: Claim

    def show(self, level: str, event: Event, fields: Data) -> None:
        """To the log only: the event is stored by whoever calls this."""
        logger = structlog.get_logger()
        named = {"pipeline": self.claim.name, "pipeline_id": str(self.claim.pipeline_id), "run": self.claim.run_id}
        text, beside = shown(event, fields)
        getattr(logger, level)(text, code=event.value, **named, **beside)

    def say(self, level: str, event: Event, **fields: Json) -> None:
        """To the log and to the table."""
        self.show(level, event, fields)
        if self.claim.run_id:
            RunRepo(self.conn).log(self.claim.run_id, level, event, fields)
