"""Runs: what each did, in which attempts, and what it said."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from vitrina.domain.events import Event, Said, as_stored
from vitrina.domain.run import Counts
from vitrina.domain.wording import Data
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated
from vitrina.meta.repos.checks import not_kept

SQL = queries("runs")


@dataclass(frozen=True)
class RunRepo:
    """Tables `etl_runs`, `etl_run_attempts` and `etl_run_events`."""

    conn: Connection

    def count(self, run_id: int, counts: Counts, batches: int) -> None:
        """Add a batch, in the batch's transaction."""
        with translated():
            self.conn.execute(SQL["count"], vars(counts) | {"run_id": run_id, "batches": batches})

    def log(self, run_id: int, level: str, event: Event, fields: Data) -> None:
        """Keep an event, by its code."""
        params = {"run_id": run_id, "level": level, "event": event.value, "fields": Jsonb(as_stored(fields))}
        with translated():
            self.conn.execute(SQL["log"], params)

    def recent(self, pipeline_id: UUID, limit: int = 20) -> list[DictRow]:
        """The latest runs, newest first."""
        return self._with_checks(fetch_all(self.conn, SQL["recent"], {"pipeline_id": pipeline_id, "limit": limit}))

    def before_request(self, pipeline_id: UUID) -> int:
        """The last run that does not serve a request made now; 0: there is none."""
        row = fetch_one(self.conn, SQL["before_request"], {"pipeline_id": pipeline_id})
        return int(row["id"]) if row else 0

    def get(self, run_id: int) -> DictRow | None:
        """One run."""
        found = self._with_checks(fetch_all(self.conn, SQL["get"], {"run_id": run_id}))
        return next(iter(found), None)

    def attempts_of(self, run_ids: Sequence[int]) -> list[DictRow]:
        """Of several runs, each in order."""
        return fetch_all(self.conn, SQL["attempts_of"], {"run_ids": list(run_ids)})

    def attempts(self, run_id: int) -> list[DictRow]:
        """Its attempts, in order."""
        return fetch_all(self.conn, SQL["attempts"], {"run_id": run_id})

    def page(self, pipeline_id: UUID, limit: int, before: int | None) -> list[DictRow]:
        """Runs older than `before`, newest first."""
        params = {"pipeline_id": pipeline_id, "limit": limit, "before": before}
        return self._with_checks(fetch_all(self.conn, SQL["page"], params))

    def _with_checks(self, runs: list[DictRow]) -> list[DictRow]:
        """Each with those of its checks that were not kept."""
        broken = not_kept(self.conn, [run["id"] for run in runs])
        return [run | {"broken_checks": broken.get(run["id"], [])} for run in runs]

    def changes(self, pipeline_id: UUID, run_id: int | None, runs: int, limit: int) -> list[DictRow]:
        """What its last runs, or one of them, kept of what they changed."""
        params = {"pipeline_id": pipeline_id, "run_id": run_id, "runs": runs, "limit": limit}
        return fetch_all(self.conn, SQL["changes"], params)

    def events(self, run_id: int, after: int, limit: int) -> list[Said]:
        """What a run said after an event, in order."""
        rows = fetch_all(self.conn, SQL["events"], {"run_id": run_id, "after": after, "limit": limit})
        return cast(list[Said], rows)
