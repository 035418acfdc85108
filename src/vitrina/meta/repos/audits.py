"""The audit of live marts: how far each is, when it goes on, and what it has found."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated

SQL = queries("audits")


@dataclass(frozen=True)
class AuditState:
    """A row of `etl_mart_audits`."""

    key_types: str
    bound: list[str] | None
    size: int
    rate: float
    wait: float  # seconds until it goes on
    runs: bool  # not switched off, and not before the first time
    marts: int  # that share the time

    @classmethod
    def from_row(cls, row: DictRow) -> Self:
        """From `find`."""
        return cls(**{f.name: row[f.name] for f in fields(cls)})


@dataclass(frozen=True)
class AuditRepo:
    """Table `etl_mart_audits`, for one pipeline; written in the transactions of its runs."""

    conn: Connection
    pipeline_id: UUID

    def find(self, seconds: float) -> AuditState:
        """How it stands; before the first time, it begins in so many seconds."""
        row = fetch_one(self.conn, SQL["find"], {"pipeline_id": self.pipeline_id, "seconds": seconds})
        assert row is not None
        return AuditState.from_row(row)

    def begin(self, seconds: float) -> None:
        """The first range is read in so many seconds, unless it goes on already."""
        self._do("begin", seconds=seconds)

    def switch_off(self) -> None:
        """Until somebody switches it on again."""
        self._do("switch_off")

    def start_lap(self, key_types: str, of: int) -> None:
        """All keys, from the first on; there are about so many."""
        self._do("start_lap", key_types=key_types, of=of)

    def read(self, rows: int, bound: list[str] | None, size: int, rate: float) -> None:
        """A range of so many rows; without a bound it was the last of its lap."""
        self._do("read", rows=rows, bound=bound, size=size, rate=rate)
        if bound is None:
            self._do("tell_right")

    def spend(self, seconds: float, pause: float) -> None:
        """So much time, and how long it rests then."""
        self._do("spend", seconds=seconds, pause=pause)

    def found(self, wrong: int, keys: Sequence[dict[str, Any]], *, tell: bool) -> None:
        """So many rows were wrong, of which some are named; whoever is to be alerted is told."""
        self._do("found", wrong=wrong)
        if tell:
            self._do("tell_wrong", wrong=wrong, keys=Jsonb(list(keys)))

    def _do(self, name: str, **params: Any) -> None:
        with translated():
            self.conn.execute(SQL[name], {"pipeline_id": self.pipeline_id} | params)


def shown(conn: Connection, ids: Sequence[UUID]) -> dict[UUID, DictRow]:
    """How the audits of these pipelines stand, for people."""
    return {row["pipeline_id"]: row for row in fetch_all(conn, SQL["shown"], {"ids": list(ids)})}
