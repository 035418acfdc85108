"""Scratch tables of a run, in schema `etl_stage`: the keys that were found, and rows that had to be staged.

UNLOGGED, one of each per pipeline, made and dropped inside fenced transactions. Nothing resumes from them: a run
that starts again finds again, because the mart itself shows what is done.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from uuid import UUID

import psycopg
from psycopg import sql

from vitrina.meta.db import Connection, translated
from vitrina.sql.describe import Column

SCHEMA = "etl_stage"
COMMA = sql.SQL(", ")
MOST_COLUMNS = 1_599  # a table of Postgres has 1,600 at most, and one of them numbers the rows


def copy_in(
    conn: Connection, table: sql.Identifier, names: Sequence[str], copy_format: str
) -> AbstractContextManager[psycopg.Copy]:
    """COPY into some columns of a table."""
    columns = COMMA.join(map(sql.Identifier, names))
    command = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT {})").format(table, columns, sql.SQL(copy_format))
    return conn.cursor().copy(command)


@dataclass(frozen=True)
class Scratch:
    """A numbered table of typed columns."""

    pipeline_id: UUID
    columns: tuple[Column, ...]
    prefix = "t"

    @property
    def identifier(self) -> sql.Identifier:
        """Its name, quoted."""
        return sql.Identifier(SCHEMA, f"{self.prefix}_{self.pipeline_id.hex}")

    def create(self, conn: Connection) -> None:
        """Anew and empty."""
        self.drop(conn)
        text = sql.SQL("CREATE UNLOGGED TABLE {} (vitrina_n bigint GENERATED ALWAYS AS IDENTITY, {})")
        with translated():
            conn.execute(text.format(self.identifier, COMMA.join(self._definitions())))

    def drop(self, conn: Connection) -> None:
        """If it is there."""
        with translated():
            conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self.identifier))

    def truncate(self, conn: Connection) -> None:
        """Empty it and count from 1 again."""
        with translated():
            conn.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY").format(self.identifier))

    @contextmanager
    def copy_in(self, conn: Connection, copy_format: str) -> Iterator[psycopg.Copy]:
        """COPY into its columns."""
        with translated(), copy_in(conn, self.identifier, self.copied, copy_format) as copy:
            yield copy

    def slice(self) -> sql.Composed:
        """The rows numbered after $1 up to $2."""
        text = "(SELECT * FROM {} WHERE vitrina_n > $1::bigint AND vitrina_n <= $2::bigint)"
        return sql.SQL(text).format(self.identifier)

    def finish(self, conn: Connection) -> int:
        """It is filled: index its numbers, tell the planner how big it is, and tell how many rows there are."""
        with translated():
            conn.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (vitrina_n)").format(self.identifier))
            conn.execute(sql.SQL("ANALYZE {}").format(self.identifier))
            row = conn.execute(sql.SQL("SELECT count(*) AS rows FROM {}").format(self.identifier)).fetchone()
        assert row is not None
        return int(row["rows"])

    def _definitions(self) -> list[sql.Composed]:
        return [sql.SQL("{} {}").format(c.identifier, c.sql_type) for c in self.columns]

    @property
    def copied(self) -> list[str]:
        """The columns that COPY fills."""
        return [c.name for c in self.columns]


@dataclass(frozen=True)
class Stage(Scratch):
    """Rows as the query (or the last transform) gave them."""

    prefix = "s"

    def add_key_index(self, conn: Connection, key: Sequence[str]) -> None:
        """For finding rows by key; not unique, so that a duplicate is named rather than refused."""
        with translated():
            text = sql.SQL("CREATE INDEX ON {} ({})")
            conn.execute(text.format(self.identifier, COMMA.join(map(sql.Identifier, key))))


@dataclass(frozen=True)
class KeySegment(Scratch):
    """Keys in the order in which they will be converged, with why: i missing, u differs, d gone, b bound of a load."""

    prefix = "k"

    @property
    def key(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return tuple(c.name for c in self.columns)

    def _definitions(self) -> list[sql.Composed]:
        return [sql.SQL('vitrina_kind "char"').format(), *super()._definitions()]

    @property
    def copied(self) -> list[str]:
        """The columns that COPY fills."""
        return ["vitrina_kind", *self.key]
