"""Waits: what pipelines wait for that cannot go live yet, kept where every runner and everybody who asks finds it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from vitrina.meta.db import Connection, fetch_all, fetch_one, queries

SQL = queries("waits")
POSTPONED_SECONDS = 60.0  # then one that waits is claimed and looks itself, should nobody have looked for it
UNSEEN = "a transaction that the reader's role may not see, maybe of another database"


@dataclass(frozen=True)
class Barrier:
    """Transactions of the source below this id are waited for; it is good for tables captured as they were then."""

    xid: str
    context: Mapping[str, Any]


@dataclass(frozen=True)
class WaitRepo:
    """Table `etl_waits`, and when those are due that wait."""

    conn: Connection

    def find(self, pipeline_id: UUID) -> Barrier | None:
        """What a run before this one began to wait for."""
        row = fetch_one(self.conn, SQL["find"], {"pipeline_id": pipeline_id})
        return Barrier(row["barrier"], row["context"]) if row else None

    def note(self, pipeline_id: UUID, barrier: Barrier, holder: Mapping[str, Any]) -> None:
        """In a fenced transaction: whoever goes on waits for the same."""
        params = {"barrier": barrier.xid, "context": Jsonb(dict(barrier.context)), "holder": Jsonb(dict(holder))}
        self.conn.execute(SQL["note"], params | {"pipeline_id": pipeline_id})

    def forget(self, pipeline_id: UUID) -> None:
        """In a fenced transaction: nobody is waited for any more."""
        self.conn.execute(SQL["forget"], {"pipeline_id": pipeline_id})

    def any(self) -> bool:
        """Whether somebody waits."""
        row = fetch_one(self.conn, SQL["any"])
        return row is not None and bool(row["yes"])

    def turns(self, seconds: float) -> list[DictRow]:
        """Those that are to be looked at now, by whoever asks."""
        return fetch_all(self.conn, SQL["turns"], {"seconds": seconds})

    def still(self, pipeline_id: UUID, holder: Mapping[str, Any]) -> None:
        """It goes on waiting, for this one."""
        params = {"pipeline_id": pipeline_id, "holder": Jsonb(dict(holder)), "seconds": POSTPONED_SECONDS}
        fetch_one(self.conn, SQL["still"], params)

    def over(self, pipeline_id: UUID) -> bool:
        """It may go on; whether it did not know yet."""
        return fetch_one(self.conn, SQL["over"], {"pipeline_id": pipeline_id}) is not None

    def shown(self, ids: Sequence[UUID] | None = None) -> list[DictRow]:
        """Who waits now, since when and for whom: of these pipelines, or of all."""
        return fetch_all(self.conn, SQL["shown"], {"ids": list(ids) if ids is not None else None})


def in_words(holder: Mapping[str, Any]) -> str:
    """Whoever has a transaction open, in one line."""
    if "prepared_transaction" in holder:
        return f"prepared transaction {holder['prepared_transaction']}{_of(holder)}, since {holder['prepared']}"
    if not holder:
        return UNSEEN
    named = {"state": "{}", "xact_start": "open since {}", "query_start": "its statement since {}"}
    seen = [text.format(holder[name]) for name, text in named.items() if holder.get(name)]
    who = f"session {holder['pid']}{_of(holder)} ({holder.get('application_name', '')})"
    return ", ".join([who, *(seen or ["of which this role may see no more"])])


def _of(holder: Mapping[str, Any]) -> str:
    """Whose it is; of nobody, if the role was dropped meanwhile."""
    return f" of {holder['usename']}" if holder.get("usename") else ""


def remedy_of(holder: Mapping[str, Any]) -> str:
    """What its owner, or an admin of the source, can do."""
    if "prepared_transaction" in holder:
        return f"COMMIT PREPARED or ROLLBACK PREPARED '{holder['prepared_transaction']}' at the source"
    if not holder:
        return "GRANT pg_read_all_stats to the reader's role at the source, then its session is named here"
    return f"let it end its transaction, or end it: SELECT pg_terminate_backend({holder['pid']}) at the source"
