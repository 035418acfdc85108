"""Runs: what each attempt did, and what it said."""

from dataclasses import dataclass
from typing import cast
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from vitrina.domain.events import Event, Said
from vitrina.domain.run import Counts
from vitrina.domain.wording import Data
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated

SQL = queries("runs")


@dataclass(frozen=True)
class RunRepo:
    """Tables `etl_runs` and `etl_run_events`."""

    conn: Connection

    def count(self, run_id: int, counts: Counts, batches: int) -> None:
        """Add a batch, in the batch's transaction."""
        with translated():
            self.conn.execute(SQL["count"], vars(counts) | {"run_id": run_id, "batches": batches})

    def log(self, run_id: int, level: str, event: Event, fields: Data) -> None:
        """Keep an event, by its code."""
        params = {"run_id": run_id, "level": level, "event": event.value, "fields": Jsonb(fields)}
        with translated():
            self.conn.execute(SQL["log"], params)

    def recent(self, pipeline_id: UUID, limit: int = 20) -> list[DictRow]:
        """The latest runs, newest first."""
        return fetch_all(self.conn, SQL["recent"], {"pipeline_id": pipeline_id, "limit": limit})

    def before_request(self, pipeline_id: UUID) -> int:
        """The last run that does not serve a request made now; 0: there is none."""
        row = fetch_one(self.conn, SQL["before_request"], {"pipeline_id": pipeline_id})
        return int(row["id"]) if row else 0

    def get(self, run_id: int) -> DictRow | None:
        """One run."""
        return fetch_one(self.conn, SQL["get"], {"run_id": run_id})

    def page(self, pipeline_id: UUID, limit: int, before: int | None) -> list[DictRow]:
        """Runs older than `before`, newest first."""
        return fetch_all(self.conn, SQL["page"], {"pipeline_id": pipeline_id, "limit": limit, "before": before})

    def events(self, run_id: int, after: int, limit: int) -> list[Said]:
        """What a run said after an event, in order."""
        rows = fetch_all(self.conn, SQL["events"], {"run_id": run_id, "after": after, "limit": limit})
        return cast(list[Said], rows)
