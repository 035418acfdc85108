"""The change log, for those who follow it.

A follower keeps `{"source", "generation", "id"}` in its checkpoint. Another generation, or an id below `log_start - 1`,
means that changes may be missing: take `tip`, wait at the `barrier`, compare in full, and go on from that tip.

A change has old_image and new_image, JSON objects of every column's text form (NULL as null; json and jsonb embedded);
`jsonb_populate_recordset(NULL::content.genre, images)` gives the rows back. By op:

I   new_image: all columns
U   new_image: all columns, but for an unchanged TOAST value whose old one is not known: then the column is missing,
    and all others are there, so `NOT new_image ? 'body'` tells. old_image: all columns under REPLICA IDENTITY FULL and
    by trigger; else the key's columns if the key has changed, else NULL (the old key is the new one)
D   old_image: all columns, or the key's
T   the relation was truncated       } no images; the relation has to be compared in full
R   the relation was rewritten, altered, re-created or dropped; partitions came or went   }
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import errors, sql
from psycopg.rows import DictRow

from vitrina.adapters.captures import installation
from vitrina.adapters.captures.writer import SCHEMA
from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated
from vitrina.meta.repos.captures import Capture

SQL = queries("captures")
SOURCE = queries("capture_source")
CHANNEL = "vitrina_changes"
MOST_COLUMNS = 40  # that an image is cut down to: a function takes 100 arguments


class Behind(RetryableError):
    """The log no longer has what comes after a follower's position: compare in full."""


@dataclass(frozen=True)
class Tip:
    """Where the log of a source stands."""

    source: str
    kind: str
    slot: str  # another one: the capture was removed and installed anew
    generation: int
    generation_reason: str
    last_id: int
    log_start: int
    committed_at: datetime | None
    caught_up_at: datetime | None
    last_error: str | None

    def holds(self, generation: int, after_id: int) -> bool:
        """Whether everything after a follower's position is in the log."""
        return generation == self.generation and self.log_start - 1 <= after_id <= self.last_id


def tip(conn: Connection, source: str) -> Tip:
    """The end of the log; a ConfigError if the source is not captured."""
    row = fetch_one(conn, SQL["tip"], {"source": source})
    if row is None:
        raise ConfigError(
            f"the changes of source {source!r} are not captured", f"vitrina capture install --source {source}"
        )
    return Tip(**row)


def read_slice(
    conn: Connection,
    source: str,
    after_id: int,
    relations: Sequence[str],
    limit: int,
    columns: Mapping[str, Sequence[str]] | None = None,
) -> tuple[list[DictRow], int]:
    """Changes of these relations after an id, and the id up to which they have been read.

    At most `limit` rows, ending where a transaction does unless one alone is larger. Each row has id, xid, lsn,
    committed_at, relation, op, old_image, new_image; the images as JSON text, which Python's numbers would not survive.
    With `columns`, an image that has all those of its relation comes without others, and `whole` tells whether both
    have. Behind if changes after that id are gone.
    """
    end = tip(conn, source)
    images = _images(columns or {})
    if after_id < end.log_start - 1:
        raise Behind(f"the changes of {source!r} after {after_id:,} are gone", "compare in full")
    rows: list[DictRow] = []
    for segment in fetch_all(conn, SQL["segments_after"], {"source": source, "after_id": after_id}):
        rows += _read(conn, source, segment["name"], (after_id, end.last_id), relations, limit + 1 - len(rows), images)
        if len(rows) > limit:
            return _cut(rows)
    return rows, end.last_id


def wait(listener: Connection, conn: Connection, position: Tip, seconds: float) -> Tip:
    """Until the log goes on after `position`, or the time is up; where it stands then. `listener`: past any pooler."""
    deadline = time.monotonic() + seconds
    with translated():
        listener.execute("LISTEN vitrina_changes")
        while True:
            now = tip(conn, position.source)
            left = deadline - time.monotonic()
            if (now.last_id, now.generation) != (position.last_id, position.generation) or left <= 0:
                return now
            for _ in listener.notifies(timeout=min(left, 1.0), stop_after=1):
                pass


def uncovered(conn_source: Connection, capture: Capture, tables: Sequence[str]) -> dict[str, str]:
    """Of these tables, those whose changes are not captured right now, each with the reason."""
    return installation.uncovered(conn_source, capture, tables)


def covers(conn_source: Connection, capture: Capture, tables: Sequence[str]) -> bool:
    """Whether the changes of all these tables are captured right now."""
    return not uncovered(conn_source, capture, tables)


def barrier(
    conn_source: Connection, check: Callable[[str], None] = lambda _: None, seconds: float = 3600, pause: float = 0.05
) -> None:
    """Wait until every transaction that is open at the source now has ended: one that wrote before its table was
    captured may commit after a comparison's snapshot, and would be in neither. `check` is told who is waited for, and
    may raise. Needs a session in autocommit."""
    row = fetch_one(conn_source, SOURCE["barrier"])
    assert row is not None
    deadline = time.monotonic() + seconds
    while True:
        state: Any = fetch_one(conn_source, SOURCE["behind_barrier"], {"barrier": row["xid"]})
        if state["passed"]:
            return
        holder = state["holder"] or "a transaction of another database"
        check(holder)
        if time.monotonic() > deadline:
            raise RetryableError(f"transactions older than the capture are still open: {holder}", "end them")
        time.sleep(pause)


def _read(
    conn: Connection,
    source: str,
    segment: str,
    between: tuple[int, int],
    relations: Sequence[str],
    limit: int,
    images: sql.Composable,
) -> list[DictRow]:
    query = sql.SQL(
        """
        SELECT id, xid::text::bigint AS xid, lsn::text, committed_at, relation, op, {}
        FROM {} WHERE id > %(after)s AND id <= %(last)s AND relation = ANY (%(relations)s) ORDER BY id LIMIT %(limit)s
        """
    ).format(images, sql.Identifier(SCHEMA, segment))
    params = {"after": between[0], "last": between[1], "relations": list(relations), "limit": limit}
    try:
        with translated(), conn.transaction():
            return conn.execute(query, params).fetchall()
    except ConfigError as error:
        if isinstance(error.__cause__, errors.UndefinedTable):  # dropped since it was listed
            raise Behind(f"the changes of {source!r} after {between[0]:,} are gone", "compare in full") from error
        raise


def _images(columns: Mapping[str, Sequence[str]]) -> sql.Composed:
    """Both images as text, with no more than is wanted of them; one that lacks a column is left as it is."""
    images = [_image(sql.Identifier(name), columns) for name in ("old_image", "new_image")]
    return sql.SQL(", ").join([*images, _whole(columns)])


def _whole(columns: Mapping[str, Sequence[str]]) -> sql.Composed:
    """Whether neither image lacks a column that is wanted."""
    text = "WHEN {0} THEN coalesce(old_image ?& {1}, true) AND coalesce(new_image ?& {1}, true)"
    wanted = [sql.SQL(text).format(sql.Literal(table), sql.Literal(list(names))) for table, names in columns.items()]
    cases = sql.SQL("CASE relation {} ELSE true END").format(sql.SQL(" ").join(wanted)) if wanted else sql.SQL("true")
    return sql.SQL("{} AS whole").format(cases)


def _image(image: sql.Identifier, columns: Mapping[str, Sequence[str]]) -> sql.Composed:
    text = "WHEN relation = {} AND {} ?& {}::text[] THEN jsonb_build_object({})"
    cases = []
    for relation, names in columns.items():
        if len(names) > MOST_COLUMNS:
            continue
        pairs = sql.SQL(", ").join(sql.SQL("{0}::text, {1} -> {0}").format(sql.Literal(n), image) for n in names)
        cases.append(sql.SQL(text).format(sql.Literal(relation), image, sql.Literal(list(names)), pairs))
    chosen = sql.SQL("CASE {} ELSE {} END").format(sql.SQL(" ").join(cases), image) if cases else image
    return sql.SQL("({})::text AS {}").format(chosen, image)


def _cut(rows: list[DictRow]) -> tuple[list[DictRow], int]:
    """One row too many: leave out the transaction that it belongs to, unless nothing would be left."""
    beyond = rows.pop()
    whole = [row for row in rows if (row["xid"], row["lsn"]) != (beyond["xid"], beyond["lsn"])]
    kept = whole or rows
    return kept, kept[-1]["id"]
