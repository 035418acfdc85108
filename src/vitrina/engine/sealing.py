"""Statements over a mart that brings code of somebody's own along: they run as `vitrina_writer`, and reach no further.

What the code may call is its owner's business; that it can touch nothing of ours is the server's, which executes such a
statement as it refreshes a materialized view: with the rights of the view's owner, and without any way to leave
something behind that would run later with the session's own (docs/adr/0005).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.policy import split_table
from vitrina.meta.db import Connection, fetch_all, queries
from vitrina.sql.owned import foreign_code, is_plain, loose_ends
from vitrina.transforms import Row

SQL = queries("marts")
ASK = sql.SQL("SELECT etl.ask_sealed({}::text, ARRAY[{}]::text[], {}::text, {}::text) AS rows")


@dataclass(frozen=True)
class Seal:
    """Of one mart, for one run: its scratch tables, by the end of their names, are lent for each statement."""

    mart: sql.Identifier
    scratch: str

    def ask(self, conn: Connection, statement: sql.Composable, params: Sequence[Any] | None = None) -> list[Row]:
        """The rows of a statement with `$1` parameters; values are as JSON has them."""
        text, mart = statement.as_string(conn), self.mart.as_string(conn)
        values = sql.SQL(", ").join(map(_as_text, params or ()))
        asked = ASK.format(sql.Placeholder(), values, sql.Placeholder(), sql.Placeholder())
        row = conn.execute(asked, [text, *(params or ()), self.scratch, mart]).fetchone()
        assert row is not None
        return list(row["rows"])

    def write(self, conn: Connection, statement: sql.Composable, params: Sequence[Any] | None = None) -> int:
        """How many rows a statement wrote that gives none."""
        return int(self.ask(conn, counted(statement), params)[0]["written"])


def counted(statement: sql.Composable) -> sql.Composed:
    """A statement that writes, and tells how many rows."""
    return sql.SQL("WITH done AS ({} RETURNING 1) SELECT count(*) AS written FROM done").format(statement)


def _as_text(value: object) -> sql.SQL:
    """How a parameter becomes the text that its cast in the statement reads: `$1::bigint`, `$1::text[]`."""
    return sql.SQL("%s::text[]::text" if isinstance(value, list) else "%s::text")


def is_sealed(conn: Connection, target: str, trusted: Sequence[str]) -> bool:
    """Whether a mart brings code of somebody's own along, which has to be trusted, and runs as the writer then; or may
    get some that nothing would keep away. Where there is no writer, because one role does everything, it runs as
    whoever writes."""
    schema, table = split_table(target)
    if is_plain(conn, schema, table):
        return False
    found = foreign_code(conn, schema, table)
    for code in found:
        if code.owner not in trusted:
            raise ConfigError.of(MartRefusal.FOREIGN_TRIGGER, target=target, function=code.function, owner=code.owner)
    found = found or loose_ends(conn, schema, table)
    if not found or not has_writer(conn):
        return False
    for row in fetch_all(conn, SQL["unwritable"], {"schema": schema, "table": table}):
        raise ConfigError.of(
            MartRefusal.WRITER_MAY_NOT,
            target=target,
            owner=found[0].owner,
            function=found[0].function,
            role=row["role"],
        )
    return True


def has_writer(conn: Connection) -> bool:
    """Whether this database has the role as which code of marts runs."""
    return bool(fetch_all(conn, SQL["writer"]))
