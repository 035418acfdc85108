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

    def choose(self, **filters: Any) -> list[DictRow]:
        """The ids of one page, in order, each with its group; and how many there are in all, and in the group."""
        return fetch_all(self.conn, SQL["choose"], filters)

    def pipelines(self, ids: Sequence[UUID]) -> list[DictRow]:
        """These, each with its last run; one that is gone is left out."""
        return fetch_all(self.conn, SQL["pipelines"], {"ids": list(ids)})

    def needs(self, limit: int) -> list[DictRow]:
        """What is wrong and needs a person, the worst first."""
        return fetch_all(self.conn, SQL["needs"], {"limit": limit})

    def last_runs(self, ids: Sequence[UUID], limit: int) -> list[DictRow]:
        """The last runs of each of these pipelines, newest first."""
        return fetch_all(self.conn, SQL["last_runs"], {"ids": list(ids), "limit": limit})

    def tally(self) -> list[DictRow]:
        """How many pipelines there are in each status."""
        return fetch_all(self.conn, SQL["tally"])

    def modes(self) -> list[str]:
        """The modes in use."""
        return [row["mode"] for row in fetch_all(self.conn, SQL["modes"])]

    def labels(self) -> dict[str, int]:
        """Those in use, and how many pipelines have each."""
        return {row["label"]: row["pipelines"] for row in fetch_all(self.conn, SQL["labels"])}

    def last_events(self, run_id: int, text: str | None, named: Sequence[str], limit: int) -> list[Said]:
        """The end of a run's log, in order."""
        params = {"run_id": run_id, "text": text, "named": list(named), "limit": limit}
        return cast(list[Said], fetch_all(self.conn, SQL["last_events"], params))

    def steps(self, run_id: int, slots: int) -> list[DictRow]:
        """What took time in a run, all of it, in about so many rows for each kind of event."""
        return fetch_all(self.conn, SQL["steps"], {"run_id": run_id, "slots": slots})

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
