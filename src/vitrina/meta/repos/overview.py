"""What people look at: many pipelines with their last runs, logs, leases, who did what. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from psycopg.rows import DictRow

from vitrina.domain.events import Said
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries

SQL = queries("overview")


@dataclass(frozen=True)
class OverviewRepo:
    """Across tables, one query each."""

    conn: Connection

    def choose(self, **filters: Any) -> tuple[list[UUID], int]:
        """The pipelines of one page, in order, and how many there are in all."""
        rows = fetch_all(self.conn, SQL["choose"], filters)
        return [row["id"] for row in rows], rows[0]["total"] if rows else 0

    def pipelines(self, ids: Sequence[UUID]) -> list[DictRow]:
        """These, each with its last run; one that is gone is left out."""
        return fetch_all(self.conn, SQL["pipelines"], {"ids": list(ids)})

    def last_runs(self, ids: Sequence[UUID], limit: int) -> list[DictRow]:
        """The last runs of each of these pipelines, newest first."""
        return fetch_all(self.conn, SQL["last_runs"], {"ids": list(ids), "limit": limit})

    def tally(self) -> list[DictRow]:
        """How many pipelines there are in each status."""
        return fetch_all(self.conn, SQL["tally"])

    def modes(self) -> list[str]:
        """The modes in use."""
        return [row["mode"] for row in fetch_all(self.conn, SQL["modes"])]

    def attempts(self, run: DictRow) -> list[DictRow]:
        """The attempts that a run is one of, in order."""
        return fetch_all(self.conn, SQL["attempts"], {"pipeline_id": run["pipeline_id"], "run_id": run["id"]})

    def last_events(self, run_id: int, text: str | None, named: Sequence[str], limit: int) -> list[Said]:
        """The end of a run's log, in order."""
        params = {"run_id": run_id, "text": text, "named": list(named), "limit": limit}
        return cast(list[Said], fetch_all(self.conn, SQL["last_events"], params))

    def leases(self) -> list[DictRow]:
        """What runners hold at this moment."""
        return fetch_all(self.conn, SQL["leases"])

    def audit(self, pipeline_id: UUID | None, limit: int) -> list[DictRow]:
        """Who did what, newest first."""
        return fetch_all(self.conn, SQL["audit"], {"pipeline_id": pipeline_id, "limit": limit})

    def versions(self) -> DictRow:
        """Of the meta-store and its server."""
        row = fetch_one(self.conn, SQL["versions"])
        assert row is not None
        return row
