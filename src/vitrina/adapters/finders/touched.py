"""Converging keys that somebody has found: whatever the query gives for them now is what the mart gets."""

from typing import Any

from psycopg import sql

from vitrina.adapters.filling import copy_across, write_rows
from vitrina.adapters.finders.reading import Reading
from vitrina.adapters.finders.work import Work
from vitrina.adapters.job import fetch
from vitrina.adapters.stage import KeySegment
from vitrina.adapters.writers.converge import key_arrays, reader_scope
from vitrina.domain.run import Counts
from vitrina.meta.db import Connection

COMMA = sql.SQL(", ")


class Touched:
    """Upserts and deletes in one statement, for keys that come as arrays: one array literal a key column."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.job = work.job
        self.reading: Reading | None = None  # a better way to read the query than by `= ANY` around it
        self._staged = False

    def converge_slice(self, keys: KeySegment, start: int, end: int, conn: Connection) -> Counts:
        """Make the mart equal the query for the keys of a segment, numbered after `start` up to `end`."""
        args = fetch(conn, sql.SQL("SELECT {} AS args").format(key_arrays(keys)), [start, end])["args"]
        return self.converge(list(args), end - start, conn)

    def converge(self, args: list[str | None], count: int, conn: Connection) -> Counts:
        """The same for keys in arrays."""
        scope, params = self._scope(args, count, conn)
        statement = self.work.statements.upsert(scope, keys=self._keys())
        row = self.work.apply(conn, statement, [args, *params])
        return Counts(row["read"], row["written"], row["deleted"], row["read"] - row["written"])

    def _keys(self) -> sql.Composed:
        """The keys of $1 as a relation, in the mart's types."""
        mart = self.work.mart
        typed = [sql.SQL("($1::text[])[{}]::{}[]").format(sql.SQL(str(n)), sql.SQL(mart.types[name]))
                 for n, name in enumerate(mart.key, 1)]  # fmt: skip
        names = COMMA.join(map(sql.Identifier, mart.key))
        return sql.SQL("(SELECT * FROM unnest({}) AS u ({}))").format(COMMA.join(typed), names)

    def _scope(self, args: list[str | None], count: int, conn: Connection) -> tuple[sql.Composable, list[Any]]:
        """In place as the reader; or staged, from another server or through the transforms."""
        if self.job.stays_inside:
            text = self._query(count).as_string(conn)
            return reader_scope(self.job.columns, sql.SQL("$1::text[]"), "$2"), [text]
        self._stage(conn, args, count)
        return self.work.stage.identifier, []

    def _query(self, count: int, args: list[str | None] | None = None) -> sql.Composed:
        """The query for some keys, which come as $1 or are written out."""
        if self.reading is None:
            return (self.work.query.with_args(args) if args else self.work.query).by_keys()
        return self.reading.query(count, sql.SQL("{}::text[]").format(sql.Literal(args)) if args else None)

    def _stage(self, conn: Connection, args: list[str | None], count: int) -> None:
        stage = self.work.stage
        if self._staged:
            stage.truncate(conn)
        else:
            stage.create(conn)
        self._staged = True
        if self.job.transformer is None:
            copy_across(self.job.reader, self._query(count, args), stage, conn)
            return
        rows = self.job.transformer.apply(self.job.reader.fetch(self._query(count), args))
        with stage.copy_in(conn, "text") as copy:
            write_rows(copy, rows, self.job.transformer.columns)
