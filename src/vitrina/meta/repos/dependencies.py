"""What live marts depend on besides rows, as it was when their queries were judged."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from vitrina.meta.db import Connection, fetch_all, fetch_one, queries

SQL = queries("dependencies")


@dataclass(frozen=True)
class Kept:
    """Of one mart."""

    needs: dict[str, Any]
    facts: dict[str, dict[str, Any]]
    digest: str
    changed: str | None = None  # what somebody who looked has found to be otherwise


@dataclass(frozen=True)
class DependencyRepo:
    """Tables `etl_dependencies` and `etl_dependency_looks`."""

    conn: Connection

    def find(self, pipeline_id: UUID) -> Kept | None:
        """What was kept last."""
        row = fetch_one(self.conn, SQL["find"], {"pipeline_id": pipeline_id})
        return Kept(**row) if row else None

    def keep(self, pipeline_id: UUID, needs: Mapping[str, Any], facts: Mapping[str, Any], digest: str) -> None:
        """Together with a checkpoint that says the same digest."""
        params = {"needs": Jsonb(dict(needs)), "facts": Jsonb(dict(facts)), "digest": digest}
        self.conn.execute(SQL["keep"], params | {"pipeline_id": pipeline_id})

    def turns(self, seconds: float) -> list[str]:
        """The sources that are to be looked at now, by whoever asks."""
        return [row["source"] for row in fetch_all(self.conn, SQL["turns"], {"seconds": seconds})]

    def kept(self, source: str) -> list[DictRow]:
        """Of all live marts of a source that work, without the facts."""
        return fetch_all(self.conn, SQL["kept"], {"source": source})

    def suspect(self, pipeline_id: UUID, digest: str, changed: str | None) -> bool:
        """Say what is otherwise; whether that is news."""
        params = {"pipeline_id": pipeline_id, "digest": digest, "changed": changed}
        return fetch_one(self.conn, SQL["suspect"], params) is not None

    def wake(self, pipeline_id: UUID) -> None:
        """Have it run, if it rests."""
        fetch_one(self.conn, SQL["wake"], {"pipeline_id": pipeline_id})
