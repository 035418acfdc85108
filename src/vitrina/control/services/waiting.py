"""What pipelines wait for without a slot: a transaction, a neighbour that is away, or the time to try again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from psycopg.rows import DictRow

from vitrina.meta.db import Connection
from vitrina.meta.repos.outages import OutageRepo, called
from vitrina.meta.repos.waits import WaitRepo, in_words, remedy_of

Kind = Literal["transaction", "neighbour", "failure"]


@dataclass(frozen=True)
class Waiting:
    """Of one pipeline."""

    name: str
    kind: Kind
    since: datetime
    whom: str  # in a word or two
    said: str
    remedy: str
    holder: Mapping[str, Any] = field(default_factory=dict)
    neighbour: str | None = None
    next_at: datetime | None = None
    tries: int | None = None


def waiting(conn: Connection, ids: Sequence[UUID] | None = None) -> dict[UUID, Waiting]:
    """Of these pipelines, or of all, those that wait. Whose source is away cannot look at a transaction there."""
    held = {row["pipeline_id"]: _for_transaction(row) for row in WaitRepo(conn).shown(ids)}
    silent = {row["pipeline_id"]: _until_answered(row) for row in OutageRepo(conn).silent(ids)}
    return held | silent | {row["pipeline_id"]: _until_later(row) for row in OutageRepo(conn).shown(ids)}


def _for_transaction(row: DictRow) -> Waiting:
    holder = row["holder"]
    said = (in_words(holder), remedy_of(holder))
    return Waiting(row["name"], "transaction", row["since"], "an open transaction", *said, holder)


def _until_later(row: DictRow) -> Waiting:
    kept = {name: row[name] for name in ("name", "since", "neighbour", "next_at", "tries")}
    remedy = row["remedy"] or ""
    if row["neighbour"] is None:
        said = f"it has failed {row['tries']} times in a row: {row['error']}" if row["tries"] > 1 else row["error"]
        return Waiting(kind="failure", whom="another try", said=said, remedy=remedy, **kept)
    whom = called(row["neighbour"])
    return Waiting(kind="neighbour", whom=whom, said=f"{whom}: {row['error']}", remedy=remedy, **kept)


def _until_answered(row: DictRow) -> Waiting:
    """There is no run that waits: each runner asks the neighbour again, more and more seldom."""
    whom, kept = called(row["neighbour"]), {name: row[name] for name in ("name", "since", "neighbour", "next_at")}
    return Waiting(kind="neighbour", whom=whom, said=f"{whom}: {row['error']}", remedy="", **kept)
