"""What a run says: to the log, and into `etl_run_events`."""

from dataclasses import dataclass
from typing import Any

import structlog

from vitrina.meta.db import Connection
from vitrina.meta.repos.leases import Claim
from vitrina.meta.repos.runs import RunRepo


@dataclass(frozen=True)
class RunLog:
    """Bound to one run."""

    conn: Connection
    claim: Claim

    def show(self, level: str, event: str, fields: dict[str, Any]) -> None:
        """To the log only: the event is stored by whoever calls this."""
        logger = structlog.get_logger()
        named = {"pipeline": self.claim.name, "pipeline_id": str(self.claim.pipeline_id), "run": self.claim.run_id}
        getattr(logger, level)(event, **named, **fields)

    def say(self, level: str, event: str, **fields: Any) -> None:
        """To the log and to the table."""
        self.show(level, event, fields)
        RunRepo(self.conn).log(self.claim.run_id, level, event, fields)
