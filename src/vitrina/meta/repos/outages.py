"""Outages: who is waited for by runs that cannot reach them, and what is tried again though it has failed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from vitrina.domain.pipeline import WAREHOUSE
from vitrina.domain.policy import SINK_NAMES
from vitrina.domain.run import RunOptions
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries

SQL = queries("outages")


class Pauses(NamedTuple):
    """Between two tries, in seconds: each is twice the one before."""

    first: float
    longest: float


@dataclass(frozen=True)
class Postponed:
    """Until when something waits, and how often it has been tried in a row."""

    since: datetime
    tries: int
    next_at: datetime
    seconds: float


@dataclass(frozen=True)
class OutageRepo:
    """Table `etl_postponed`, and when those are due that wait."""

    conn: Connection

    def postpone(self, params: dict[str, Any], neighbour: str | None, pauses: Pauses) -> Postponed | None:
        """Within the transaction that gave the pipeline back; None if it rests."""
        row = self.conn.execute(SQL["postpone"], params | pauses._asdict() | {"neighbour": neighbour}).fetchone()
        return Postponed(**row) if row else None

    def try_later(self, pipeline_id: UUID) -> bool:
        """Within the transaction that let it fail: whether it does not stay so."""
        return self.conn.execute(SQL["try_later"], {"pipeline_id": pipeline_id}).fetchone() is not None

    def answers(self, neighbour: str) -> int:
        """They answer: how many pipelines need not wait any longer."""
        row = fetch_one(self.conn, SQL["answers"], {"neighbour": neighbour})
        return int(row["due"]) if row else 0

    def hurry(self, pipeline_id: UUID, options: RunOptions) -> bool:
        """Whether it waited, and need not."""
        asked = {name: True for name, value in vars(options).items() if value}
        return fetch_one(self.conn, SQL["hurry"], {"id": pipeline_id, "options": Jsonb(asked)}) is not None

    def shown(self, ids: Sequence[UUID] | None = None) -> list[DictRow]:
        """What waits now: of these pipelines, or of all."""
        return fetch_all(self.conn, SQL["shown"], {"ids": list(ids) if ids is not None else None})

    def silent(self, ids: Sequence[UUID] | None = None) -> list[DictRow]:
        """What nobody runs or follows before somebody answers: of these pipelines, or of all."""
        return fetch_all(self.conn, SQL["silent"], {"ids": list(ids) if ids is not None else None})


def called(neighbour: str) -> str:
    """A neighbour, for people."""
    if neighbour == WAREHOUSE:
        return "the warehouse"
    return SINK_NAMES.get(neighbour) or (neighbour if neighbour.endswith(":") else f"source {neighbour}")
