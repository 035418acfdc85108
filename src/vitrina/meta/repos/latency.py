"""How late changes came to live marts, kept minute by minute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from vitrina.domain.latency import Slot, Tally
from vitrina.meta.db import Connection, fetch_all, queries, translated

SQL = queries("latency")


@dataclass(frozen=True)
class LatencyRepo:
    """Table `etl_latency`."""

    conn: Connection

    def add(self, tallies: Mapping[Slot, Tally]) -> None:
        """What a process has counted, for all its marts at once."""
        if not tallies:
            return
        params: dict[str, Any] = {
            "pipeline_ids": [pipeline_id for pipeline_id, _ in tallies],
            "minutes": [minute for _, minute in tallies],
            "arrivals": [tally.arrivals for tally in tallies.values()],
            "ms_sums": [tally.ms_sum for tally in tallies.values()],
            "ms_maxs": [tally.ms_max for tally in tallies.values()],
            "buckets": ["{" + ",".join(map(str, tally.buckets)) + "}" for tally in tallies.values()],
        }
        with translated():
            self.conn.execute(SQL["add"], params)

    def sample_backlog(self) -> None:
        """How much live marts lack now."""
        with translated():
            self.conn.execute(SQL["sample_backlog"])

    def recent(self, ids: Sequence[UUID]) -> list[DictRow]:
        """Of many, the last hour, oldest first."""
        return fetch_all(self.conn, SQL["recent"], {"ids": list(ids)})

    def minutes(self, pipeline_id: UUID, span: timedelta) -> list[DictRow]:
        """Of one pipeline, oldest first."""
        return fetch_all(self.conn, SQL["minutes"], {"pipeline_id": pipeline_id, "span": span})
