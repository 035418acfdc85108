"""Converging keys that somebody has found: whatever the query gives for them now is what the mart gets."""

from typing import Any

from psycopg import errors, sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.run import Counts
from vitrina.engine.filling import copy_across
from vitrina.engine.job import fetch
from vitrina.engine.pieces import unnested
from vitrina.engine.query import key_arrays, reader_scope
from vitrina.engine.rereading import Rereading
from vitrina.engine.stage import KeySegment
from vitrina.engine.work import Work
from vitrina.meta.db import Connection


class Touched:
    """Upserts and deletes in one statement, for keys that come as arrays: one array literal a key column."""

    def __init__(self, work: Work, reading: Rereading | None = None) -> None:
        self.work = work
        self.job = work.job
        self.reading = reading  # how the query is restricted to keys, if it was looked into
        self._staged = False

    def converge_slice(self, keys: KeySegment, start: int, end: int, conn: Connection) -> Counts:
        """Make the mart equal the query for the keys of a segment, numbered after `start` up to `end`."""
        args = fetch(conn, sql.SQL("SELECT {} AS args").format(key_arrays(keys)), [start, end])["args"]
        return self.converge(list(args), end - start, conn)

    def converge(self, args: list[str | None], count: int, conn: Connection) -> Counts:
        """The same for so many keys in arrays."""
        scope, params = self._scope(args, count, conn)
        # The planner takes a function for 1,000 rows, and would read a whole mart for them: it is told how many.
        few = sql.SQL("(SELECT * FROM {} AS few LIMIT {})").format(scope, sql.Literal(count + 1))
        at_most = None if self.job.transformer else count  # who knows what keys a transform makes
        try:
            row = self.work.upsert(conn, few, [args, *params], keys=self._keys(), at_most=at_most)
        except errors.CardinalityViolation as error:
            raise self._duplicate(args, count) from error
        if row["read"] > count:
            raise self._duplicate(args, count)
        return Counts(row["read"], row["written"], row["deleted"], row["read"] - row["written"])

    def _duplicate(self, args: list[str | None], count: int) -> ConfigError:
        """A key came twice: which one, if it did so before any transforms."""
        twice = self.work.statements.duplicates(sql.SQL("({})").format(self._query(count)))
        if self.job.transformer is None and self.job.reader.abilities.speaks_sql:
            self.work.refuse_duplicates(self.job.reader.fetch(twice, args))
        return ConfigError("a key is given twice", "make the key unique in the query, and in what transforms give")

    def clean_up(self, conn: Connection) -> None:
        """Drop the stage, if there is one."""
        if self._staged:
            self.work.stage.drop(conn)
            self._staged = False

    def _keys(self) -> sql.Composed:
        """The keys of $1 as a relation, in the mart's types. In a subquery: they are read only if they are needed."""
        mart = self.work.mart
        typed = [sql.SQL("(SELECT ($1::text[])[{}]::{}[])").format(sql.SQL(str(n)), sql.SQL(mart.types[name]))
                 for n, name in enumerate(mart.key, 1)]  # fmt: skip
        return unnested(typed, mart.key)

    def _scope(self, args: list[str | None], count: int, conn: Connection) -> tuple[sql.Composable, list[Any]]:
        """In place as the reader; or staged, from another server or through the transforms."""
        if self.work.stays_inside:
            return reader_scope(self.job.columns, sql.SQL("$1::text[]"), "$2"), [self._query(count).as_string(conn)]
        stage = self.work.stage.identifier
        if not self.job.reader.abilities.speaks_sql:
            self._stage_all(conn)
            return sql.SQL("({})").format(self.work.statements.joined(stage, self._keys())), []
        self._stage(conn, args, count)
        return stage, []

    def _stage_all(self, conn: Connection) -> None:
        """A source that cannot be asked for keys gives everything, once."""
        if not self._staged:
            self.work.stage.create(conn)
            self.work.pour(self.work.stage, conn)
        self._staged = True

    def _stage(self, conn: Connection, args: list[str | None], count: int) -> None:
        stage = self.work.stage
        if self._staged:
            stage.truncate(conn)
        else:
            stage.create(conn)
        self._staged = True
        if self.job.transforming is None:
            copy_across(self.job.reader, self._query_with(args, count), stage, conn)
            return
        rows = self.job.reader.fetch(self._query(count), args)
        with stage.copy_in(conn, "text") as copy:
            self.job.transforming.write(copy, rows)

    def _query(self, count: int) -> sql.Composed:
        return self.reading.query(count) if self.reading else self.work.query.by_keys()

    def _query_with(self, args: list[str | None], count: int) -> sql.Composed:
        return self.reading.query_with(args, count) if self.reading else self.work.query.with_args(args).by_keys()
