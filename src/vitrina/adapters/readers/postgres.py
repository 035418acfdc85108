"""Reading a Postgres source: always in READ ONLY transactions, as the reader."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg import sql
from psycopg.adapt import Loader
from psycopg.rows import dict_row

from vitrina.adapters.documents import JsonLoader
from vitrina.domain.errors import ConfigError
from vitrina.meta.db import Connection, prepare, transaction, translated
from vitrina.sql.describe import Column, describe
from vitrina.transforms import Row


class TextLoader(Loader):
    """A value as Postgres writes it: for types that Python would round or refuse."""

    def load(self, data: bytes | bytearray | memoryview) -> str:
        """The text itself."""
        return bytes(data).decode()


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

    def batches(self, query: sql.Composable, size: int) -> Iterator[list[Row]]:
        """A query's rows for Python, `size` at a time, through a server-side cursor; $1 is an empty array."""
        with self._reading(), _python_forms():
            cursor = psycopg.RawServerCursor(self.conn, "vitrina_rows", row_factory=dict_row)
            _register_loaders(cursor)
            with cursor:
                cursor.execute(query.as_bytes(self.conn), [[]])
                while rows := cursor.fetchmany(size):
                    yield rows

    def fetch(self, query: sql.Composable, args: Sequence[str | None] = ()) -> list[Row]:
        """A small result, whole."""
        with self._reading(), _python_forms():
            return self._execute(query.as_bytes(self.conn), args).fetchall()

    def _execute(self, query: bytes, args: Sequence[str | None]) -> psycopg.RawCursor[Row]:
        # Parameters, or binary results, mean the extended protocol, which takes one statement only.
        cursor = psycopg.RawCursor(self.conn, row_factory=dict_row)
        _register_loaders(cursor)
        return cursor.execute(query, [list(args)] if args else None, binary=not args)

    def _refuse_several(self, command: sql.Composed) -> None:
        """COPY goes by the simple protocol, which would run several statements; preparing it takes one only."""
        prepare(self.conn, command.as_bytes(self.conn))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with translated(), transaction(self.conn, self.settings, read_only=True):
            yield


def _register_loaders(cursor: psycopg.Cursor[Row] | psycopg.ServerCursor[Row]) -> None:
    cursor.adapters.register_loader("interval", TextLoader)
    for type_ in ("json", "jsonb"):
        cursor.adapters.register_loader(type_, JsonLoader)


@contextmanager
def _python_forms() -> Iterator[None]:
    """A value that Python cannot hold, such as the date infinity, is the query's to cast."""
    try:
        yield
    except psycopg.DataError as error:
        if error.sqlstate:
            raise
        raise ConfigError(f"a value has no Python form: {error}", "cast its column to text") from error
