"""Converging keys that somebody has found: whatever the query gives for them now is what the mart gets."""

from typing import Any

from psycopg import sql

from vitrina.adapters.filling import copy_across, write_rows
from vitrina.adapters.finders.work import Work
from vitrina.adapters.job import fetch
from vitrina.adapters.stage import KeySegment
from vitrina.adapters.writers.converge import key_arrays, reader_scope
from vitrina.domain.run import Counts
from vitrina.meta.db import Connection


class Touched:
    """The keys of a segment, a slice at a time: upserts and deletes in one statement."""

    def __init__(self, work: Work, keys: KeySegment) -> None:
        self.work = work
        self.job = work.job
        self.keys = keys

    def converge(self, start: int, end: int, conn: Connection) -> Counts:
        """Make the mart equal the query for the keys numbered after `start` up to `end`."""
        scope, params = self._scope(start, end, conn)
        statement = self.work.statements.upsert(scope, keys=self.keys.slice())
        row = self.work.apply(conn, statement, [start, end, *params])
        return Counts(row["read"], row["written"], row["deleted"], row["read"] - row["written"])

    def _scope(self, start: int, end: int, conn: Connection) -> tuple[sql.Composable, list[Any]]:
        """In place as the reader; or staged, from another server or through the transforms."""
        if self.job.stays_inside:
            return reader_scope(self.job.columns, key_arrays(self.keys), "$3"), [self._by_keys().as_string(conn)]
        args = fetch(conn, sql.SQL("SELECT {} AS args").format(key_arrays(self.keys)), [start, end])["args"]
        self._stage(conn, list(args))
        return self.work.stage.identifier, []

    def _by_keys(self) -> sql.Composed:
        return self.work.query.by_keys()

    def _stage(self, conn: Connection, args: list[str | None]) -> None:
        stage = self.work.stage
        stage.create(conn)
        if self.job.transformer is None:
            copy_across(self.job.reader, self.work.query.with_args(args).by_keys(), stage, conn)
            return
        rows = self.job.transformer.apply(self.job.reader.fetch(self._by_keys(), args))
        with stage.copy_in(conn, "text") as copy:
            write_rows(copy, rows, self.job.transformer.columns)
