"""Reading a Postgres source: always in READ ONLY transactions, as the reader."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg import sql
from psycopg.adapt import AdaptersMap
from psycopg.rows import dict_row, tuple_row

from vitrina.meta.db import Connection, fetch_all, prepare, transaction, translated
from vitrina.sql.dependencies import SETTINGS
from vitrina.sql.describe import Column, describe
from vitrina.transforms import Row
from vitrina.transforms.frames import Batch
from vitrina.transforms.rows import python_forms, register_loaders


@dataclass(frozen=True)
class PostgresReader:
    """One source connection. `is_local`: the source is the warehouse itself."""

    conn: Connection
    settings: Mapping[str, str]
    is_local: bool

    def describe(self, select: str) -> list[Column]:
        """The columns of a SELECT."""
        with self._reading():
            return describe(self.conn, select)

    def own_settings(self) -> dict[str, str]:
        """What changes results and is this role's own: a statement of another role that lends the query its session, to
        write what it gives, has to run with the same."""
        if not self.is_local:
            return {}
        rows = fetch_all(self.conn, "SELECT n, current_setting(n) AS v FROM unnest(%s::text[]) AS n", [list(SETTINGS)])
        return {row["n"]: row["v"] for row in rows}

    def within(self, seconds: float) -> "PostgresReader":
        """The same reader, with less patience."""
        return replace(self, settings={**self.settings, "statement_timeout": f"{int(seconds * 1000)}ms"})

    def plan(self, query: sql.Composable, args: Sequence[str | None] = ()) -> dict[str, Any]:
        """The planner's plan of a query."""
        text = (sql.SQL("EXPLAIN (FORMAT JSON) ") + query).as_bytes(self.conn)
        with self._reading():
            row = self._execute(text, args).fetchone()
        assert row is not None
        plan: dict[str, Any] = row["QUERY PLAN"][0]["Plan"]
        return plan

    def cost(self, query: sql.Composable, args: Sequence[str | None] = ()) -> tuple[float, float]:
        """What the planner thinks a query costs, and how many rows it gives."""
        plan = self.plan(query, args)
        return plan["Total Cost"], plan["Plan Rows"]

    @contextmanager
    def copy_out(self, query: sql.Composable, copy_format: str) -> Iterator[psycopg.Copy]:
        """The result of a query as COPY blocks."""
        command = sql.SQL("COPY ({}\n) TO STDOUT (FORMAT {})").format(query, sql.SQL(copy_format))
        with self._reading():
            self._refuse_several(command)
            with self.conn.cursor().copy(command) as copy:
                yield copy

    def batches(self, query: sql.Composable, size: int) -> Iterator[tuple[list[str], list[tuple[Any, ...]]]]:
        """A query's rows for Python, with the names of their values, `size` at a time, through a server-side cursor;
        $1 is an empty array."""
        with self._reading(), python_forms():
            cursor = psycopg.RawServerCursor(self.conn, "vitrina_rows", row_factory=tuple_row)
            register_loaders(cursor.adapters)
            with cursor:
                cursor.execute(query.as_bytes(self.conn), [[]])
                names = [column.name for column in cursor.description or ()]
                while rows := cursor.fetchmany(size):
                    yield names, rows

    def text_batches(self, query: sql.Composable, size: int) -> Iterator[Batch]:
        """The same, every value as Postgres sent it: for another process to read."""
        with self._reading():
            cursor = psycopg.RawServerCursor(self.conn, "vitrina_rows", row_factory=tuple_row)
            _leave_as_text(cursor.adapters)
            with cursor:
                cursor.execute(query.as_bytes(self.conn), [[]])
                described = cursor.description or ()
                names, types = [c.name for c in described], [c.type_code for c in described]
                while rows := cursor.fetchmany(size):
                    yield Batch(names, rows, types)

    def fetch(self, query: sql.Composable, args: Sequence[str | None] = ()) -> list[Row]:
        """A small result, whole."""
        with self._reading(), python_forms():
            return self._execute(query.as_bytes(self.conn), args).fetchall()

    def _execute(self, query: bytes, args: Sequence[str | None]) -> psycopg.RawCursor[Row]:
        # Parameters, or binary results, mean the extended protocol, which takes one statement only.
        cursor = psycopg.RawCursor(self.conn, row_factory=dict_row)
        register_loaders(cursor.adapters)
        return cursor.execute(query, [list(args)] if args else None, binary=not args)

    def _refuse_several(self, command: sql.Composed) -> None:
        """COPY goes by the simple protocol, which would run several statements; preparing it takes one only."""
        prepare(self.conn, command.as_bytes(self.conn))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with translated(), transaction(self.conn, self.settings, read_only=True):
            yield


def _leave_as_text(adapters: AdaptersMap) -> None:
    """Every value as Postgres sent it, whatever its type."""
    for known in psycopg.adapters.types:
        for oid in (known.oid, known.array_oid):
            adapters.register_loader(oid, psycopg.types.string.TextLoader)
