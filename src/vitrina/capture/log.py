"""The change log, for those who follow it.

A follower keeps source, slot, generation and id in its position. If these no longer lead on (`Tip.gap`), changes may be
missing: wait at the barrier (`barrier.py`), take `tip`, compare in full, go on from there.

A change has old_image and new_image, JSON objects of the columns' text form (NULL as null; json and jsonb embedded);
`jsonb_populate_recordset(NULL::content.genre, images)` gives the rows back. All columns means all that the capture
keeps, see `images`. By op:

I   new_image: all columns
U   new_image: all columns, but for an unchanged TOAST value whose old one is not known: then the column is missing,
    and all others are there, so `NOT new_image ? 'body'` tells. old_image: all columns under REPLICA IDENTITY FULL and
    by trigger; else the key's columns if the key has changed, else NULL (the old key is the new one)
D   old_image: all columns, or the key's
T   the relation was truncated       } no images; the relation has to be compared in full
R   the relation was rewritten, altered, re-created or dropped; partitions came or went   }
"""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest

from psycopg import errors, sql

from vitrina.capture.appending import SCHEMA
from vitrina.capture.changes import REWRITTEN, TRUNCATED, Columns
from vitrina.capture.images import suffices
from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.domain.positions import Gap, LivePosition
from vitrina.meta.db import Connection, fetch_one, queries, translated

SQL = queries("captures")
WINDOW = 100_000
COMMA = sql.SQL(", ")
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
    images: dict[str, list[str]] | None  # the columns that changes come with from here on; None: all
    recent: dict[str, int]  # by relation: the id of its newest change
    now: datetime  # by the meta-store's clock, when it was read
    segments: Sequence[tuple[int, str]]  # of the same moment: the first id and the name of each, oldest first

    def holds(self, generation: int, after_id: int) -> bool:
        """Whether everything after a follower's position is in the log."""
        return generation == self.generation and self.log_start - 1 <= after_id <= self.last_id

    def gap(self, position: LivePosition) -> Gap | None:
        """Why a follower cannot go on from its position; None if it can. The view `etl_followers` says the same."""
        if position.source != self.source:
            return Gap.OTHER_SOURCE
        if position.slot != self.slot:
            return Gap.INSTALLED_ANEW
        if position.generation != self.generation:
            return Gap.CONTINUITY_LOST
        return None if self.holds(position.generation, position.id) else Gap.OUT_OF_LOG

    def concerns(self, relations: Collection[str], after_id: int) -> bool:
        """Whether some change after an id is of one of these relations."""
        return any(self.recent.get(name, 0) > after_id for name in relations)

    def keeps(self, columns: Columns) -> bool:
        """Whether changes come with all these columns from here on."""
        return suffices(self.images, columns)


@dataclass(frozen=True)
class RelationChanges:
    """What a slice of the log tells of one relation."""

    relation: str
    changes: int
    committed_at: datetime  # of the oldest
    upheaval: bool  # truncated or rewritten: no single rows are told
    lacks: bool  # some row was told without a column that is wanted: a large value that did not change, as a rule
    rows: int
    images: str | None  # a JSON array of so many old and new rows
    keys: list[str] | None  # or of these rows only their keys, each once: an array for each column


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
    limit: int,
    columns: Columns,
    keys: Columns | None = None,
    at_most: int | None = None,
    end: Tip | None = None,
) -> tuple[list[RelationChanges], int]:
    """What the changes after an id tell of these relations, and the id up to which they have been read.

    At most `limit` changes, ending where a transaction does unless one alone is larger. Of each relation, the columns
    that are wanted; of one in `keys` just the keys that those columns are, without NULLs. No further than `WINDOW`
    ids at a time: however far behind, it takes about as long; nor than `at_most`. Behind if changes after that id are
    gone. `end`: where the log stood when somebody looked last; what has been dropped since shows by its name.
    """
    end = end or tip(conn, source)
    last_id = min(end.last_id, after_id + WINDOW, end.last_id if at_most is None else at_most)
    if after_id < end.log_start - 1:
        raise _behind(source, after_id)
    segments = list(_above(end.segments, after_id, last_id))
    if not segments or not columns:
        return [], last_id
    rows = sql.SQL(" UNION ALL ").join(
        sql.SQL("SELECT * FROM {}").format(sql.Identifier(SCHEMA, name)) for name in segments
    )
    try:
        with translated():
            if end.last_id - after_id > limit:
                last_id = _cut(conn, rows, after_id, last_id, list(columns), limit)
            between = sql.SQL("({}) AS s WHERE id > {} AND id <= {}").format(rows, after_id, last_id)
            kept = end.images or {}
            own = keys or {}
            told = [
                _tell_keys(between, name, own[name]) if name in own else _tell(between, name, wanted, kept.get(name))
                for name, wanted in columns.items()
            ]
            return [RelationChanges(**row) for row in conn.execute(sql.SQL(" UNION ALL ").join(told))], last_id
    except ConfigError as error:
        if isinstance(error.__cause__, errors.UndefinedTable):  # dropped since it was listed
            raise _behind(source, after_id) from error
        raise


def _above(segments: Sequence[tuple[int, str]], after_id: int, last_id: int) -> Iterator[str]:
    """The names of those that have some of these ids."""
    ends = [first for first, _ in segments[1:]]
    for (first, name), end in zip_longest(segments, ends):
        if first <= last_id + 1 and (end is None or end > after_id + 1):
            yield name


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


def _cut(
    conn: Connection, rows: sql.Composed, after_id: int, last_id: int, relations: Sequence[str], limit: int
) -> int:
    """Where to end: before what is too much, and where the last transaction before that does, unless there is none."""
    query = sql.SQL(
        """
        WITH rows AS NOT MATERIALIZED (SELECT id, xid, lsn, relation FROM ({rows}) AS s WHERE id > {after}),
        beyond AS MATERIALIZED (
            (SELECT id, xid, lsn FROM rows WHERE id <= {last} AND relation = ANY ({relations})
             ORDER BY id LIMIT 1 OFFSET {limit})
            UNION ALL (SELECT id, xid, lsn FROM rows WHERE id = {last} + 1)
            ORDER BY id LIMIT 1
        )
        SELECT coalesce(max(r.id) FILTER (WHERE (r.xid, r.lsn) IS DISTINCT FROM (b.xid, b.lsn)), max(r.id)) AS id
        FROM beyond b JOIN rows r ON r.id < b.id
        """
    ).format(
        rows=rows,
        after=sql.Literal(after_id),
        last=sql.Literal(last_id),
        relations=sql.Literal(list(relations)),
        limit=sql.Literal(limit),
    )
    row = conn.execute(query).fetchone()
    return int(row["id"]) if row and row["id"] else last_id


def _tell(between: sql.Composed, relation: str, columns: Sequence[str], kept: Sequence[str] | None) -> sql.Composed:
    """One row, or none if nothing of it has changed. An old row that says the same as the new one is left out.

    Where the log keeps no more than is wanted, images are taken as they are: earlier ones may have more.
    """
    is_enough = kept is not None and set(kept) <= set(columns)
    old, new = (sql.Identifier(name) if is_enough else _image(name, columns) for name in ("old_image", "new_image"))
    return sql.SQL(
        """
        SELECT {relation} AS relation, count(*) AS changes, min(committed_at) AS committed_at,
               bool_or(op = ANY ({upheavals})) AS upheaval, NOT bool_and(whole) AS lacks,
               count(old) + count(new) AS rows,
               '[' || string_agg(nullif(concat_ws(',', old, new), ''), ',') || ']' AS images, NULL::text[] AS keys
        FROM (SELECT committed_at, op, {whole} AS whole, {new}::text AS new,
                     CASE WHEN {old} IS DISTINCT FROM {new} THEN {old}::text END AS old
              FROM {between} AND relation = {relation} ORDER BY id) AS changed
        HAVING count(*) > 0
        """
    ).format(
        relation=sql.Literal(relation),
        upheavals=sql.Literal([TRUNCATED, REWRITTEN]),
        whole=_whole(columns),
        old=old,
        new=new,
        between=between,
    )


def _tell_keys(between: sql.Composed, relation: str, columns: Sequence[str]) -> sql.Composed:
    """The same, for a relation of which the key is all that is wanted: it is told once, and not as an image."""
    values = [sql.SQL("image ->> {}").format(sql.Literal(name)) for name in columns]
    numbered = [sql.SQL("c{}").format(sql.SQL(str(number))) for number in range(len(columns))]
    return sql.SQL(
        """
        (WITH changed AS MATERIALIZED (
            SELECT committed_at, op, old_image, new_image FROM {between} AND relation = {relation}
        ), told AS (
            SELECT DISTINCT {values} FROM changed, LATERAL (VALUES (old_image), (new_image)) AS images (image)
            WHERE {given}
        )
        SELECT {relation} AS relation, count(*) AS changes, min(committed_at) AS committed_at,
               bool_or(op = ANY ({upheavals})) AS upheaval, NOT bool_and({whole}) AS lacks,
               (SELECT count(*) FROM told) AS rows, NULL::text AS images, (SELECT ARRAY[{arrays}] FROM told) AS keys
        FROM changed HAVING count(*) > 0)
        """
    ).format(
        between=between,
        relation=sql.Literal(relation),
        values=COMMA.join(sql.SQL("{} AS {}").format(*pair) for pair in zip(values, numbered, strict=True)),
        given=sql.SQL(" AND ").join(sql.SQL("{} IS NOT NULL").format(value) for value in values),
        upheavals=sql.Literal([TRUNCATED, REWRITTEN]),
        whole=_whole(columns),
        arrays=COMMA.join(sql.SQL("array_agg({})::text").format(number) for number in numbered),
    )


def _whole(columns: Sequence[str]) -> sql.Composed:
    """Whether neither image lacks a column that is wanted."""
    text = "coalesce(old_image ?& {0}::text[], true) AND coalesce(new_image ?& {0}::text[], true)"
    return sql.SQL(text).format(sql.Literal(list(columns)))


def _image(image: str, columns: Sequence[str]) -> sql.Composable:
    """With no more than is wanted of it, if that is not too much to say."""
    name = sql.Identifier(image)
    if len(columns) > MOST_COLUMNS:
        return name
    pairs = COMMA.join(sql.SQL("{0}::text, {1} -> {0}").format(sql.Literal(n), name) for n in columns)
    return sql.SQL("(CASE WHEN {0} IS NOT NULL THEN jsonb_build_object({1}) END)").format(name, pairs)


def _behind(source: str, after_id: int) -> Behind:
    return Behind(f"the changes of {source!r} after {after_id:,} are gone", "compare in full")
