"""A Postgres that Spark reads in parallel: many sessions, each a range of the key, all in one snapshot.

The SELECT stays Postgres': each session computes it for its range, and what is kept is the query as Postgres computes
it. One more transaction holds the snapshot until all of it is read; so it must be one server, a standby as well.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from psycopg import IsolationLevel, sql
from psycopg.conninfo import conninfo_to_dict

from vitrina.domain.errors import ConfigError
from vitrina.meta.db import PINNED, connect, describe_prepared, fetch_all, prepare, queries, transaction
from vitrina.settings import Settings
from vitrina.sources.engine import Engine, Errand
from vitrina.sources.postgres.reader import PostgresReader
from vitrina.sources.source import Abilities, Address
from vitrina.sources.spark.kind import SCHEME
from vitrina.sources.spark.merging import quoted
from vitrina.sql.describe import Column

SQL = queries("parallel")
PLAIN = {"boolean", "smallint", "integer", "bigint", "text"}  # given as they are; all else as its text, which is exact
LISTS = {"text": "string", "integer": "int", "smallint": "int", "bigint": "bigint", "boolean": "boolean"}
UNPARSED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
VIEW = "vitrina_read"
FETCHED = "10000"  # rows that a session of the engine gets at a time
SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET TRANSACTION SNAPSHOT '{}'"
HOLDING = {"idle_in_transaction_session_timeout": "0"}


@dataclass(frozen=True)
class ParallelPostgres(PostgresReader):
    """As any other Postgres; and marts in the lake are filled from it by the engine of the lake."""

    url: str
    app: Settings

    def engine(self, errand: Errand) -> Engine:
        from vitrina.sources.spark.sessions import engine_at

        return engine_at(self.app, errand, self.reading_in)

    @contextmanager
    def reading_in(self, session: Any, select: str, key: Sequence[str]) -> Iterator[str]:
        """What the engine reads for a SELECT, as long as its snapshot is held."""
        _refuse_marks(select)
        columns, settings = self.describe(select), self.app
        held = connect(self.url, "snapshot")
        held.isolation_level = IsolationLevel.REPEATABLE_READ
        try:
            with transaction(held, {**self.settings, **HOLDING}, read_only=True) as conn:
                parts = _ranges(conn, select, columns, key[0], settings.engine_sessions)
                name = fetch_all(conn, SQL["export"])[0]["snapshot"]
                table = f"({_given(select, columns).as_string(conn)}) AS vitrina_q"
                frame = session.read.jdbc(
                    _jdbc(self.url, self.settings), table, predicates=parts, properties=_options(name)
                )
                frame.createOrReplaceTempView(VIEW)
                yield f"SELECT {', '.join(map(_typed, columns))} FROM {VIEW}"
        finally:
            held.close()


def _refuse_marks(select: str) -> None:
    if "?" in UNPARSED.sub("", select):
        raise ConfigError(
            "an operator with ? in it cannot be read in parallel", "call its function: jsonb_exists(a, b)"
        )


def _given(select: str, columns: Sequence[Column]) -> sql.Composed:
    values = [sql.SQL("{} AS {}").format(_as_text(column), column.identifier) for column in columns]
    return sql.SQL("SELECT {} FROM ({}\n) AS q").format(sql.SQL(", ").join(values), sql.SQL(select))


def _as_text(column: Column) -> sql.Composable:
    value = sql.SQL("q.{}").format(column.identifier)
    if column.type in PLAIN:
        return value
    if column.type == "bytea":
        return sql.SQL("pg_catalog.encode({}, 'hex')").format(value)
    if column.type.endswith("[]"):
        if column.type.removesuffix("[]") not in LISTS:
            said = f"column {column.name} is {column.type}, which is not read in parallel"
            raise ConfigError(said, "read it from a source of postgresql://, or cast it in the query")
        return sql.SQL("pg_catalog.to_json({})::text").format(value)
    return sql.SQL("{}::text").format(value)


def _typed(column: Column) -> str:
    """The same column again, as the engine has it; what is text is cast to the mart's own type there."""
    name = quoted(column.name)
    if column.type == "bytea":
        return f"unhex({name}) AS {name}"
    if column.type.endswith("[]"):
        return f"from_json({name}, 'array<{LISTS[column.type.removesuffix('[]')]}>') AS {name}"
    return name


def _ranges(conn: Any, select: str, columns: Sequence[Column], key: str, sessions: int) -> list[str]:
    """Conditions that split the rows by the first column of the key: each row meets one."""
    [column] = [column for column in columns if column.name == key]
    ends = [*dict.fromkeys(_bounds(conn, select, columns, column, sessions))]
    name = sql.SQL("vitrina_q.{}").format(column.identifier)
    if not ends or column.type not in PLAIN:
        return ["true"]
    values = [sql.SQL("{}::{}").format(sql.Literal(end), column.sql_type) for end in ends]
    up_to = sql.SQL("{} {} {}").format(name, column.operator("<="), values[0])
    parts = [sql.SQL("{} OR {} IS NULL").format(up_to, name)]
    for lower, upper in pairwise(values):
        text = "{0} {1} {2} AND {0} {3} {4}"
        parts.append(sql.SQL(text).format(name, column.operator(">"), lower, column.operator("<="), upper))
    parts.append(sql.SQL("{} {} {}").format(name, column.operator(">"), values[-1]))
    return [part.as_string(conn) for part in parts]


def _bounds(conn: Any, select: str, columns: Sequence[Column], column: Column, sessions: int) -> list[str]:
    """In order: by what the server knows of the column that the key is, else by the keys themselves."""
    prepare(conn, select.encode())
    described = describe_prepared(conn)
    at = columns.index(column)
    origin = {"table": described.ftable(at), "column": described.ftablecol(at), "parts": sessions}
    if rows := fetch_all(conn, SQL["known_bounds"], origin):
        return list(rows[0]["bounds"])
    text = """SELECT pg_catalog.percentile_disc(
                         ARRAY(SELECT n / {parts}::float8 FROM pg_catalog.generate_series(1, {last}) AS n))
                     WITHIN GROUP (ORDER BY q.{key})::text[] AS bounds FROM ({select}\n) AS q"""
    asked = sql.SQL(text).format(
        parts=sql.Literal(sessions), last=sql.Literal(sessions - 1), key=column.identifier, select=sql.SQL(select)
    )
    row = conn.execute(asked).fetchone()
    return [bound for bound in row["bounds"] or [] if bound is not None]


def _jdbc(url: str, settings: Mapping[str, str]) -> str:
    """Where the engine finds it: settings of the session go along, as they are part of what a query means."""
    parts = conninfo_to_dict(url)
    if not parts.get("host") or str(parts["host"]).startswith("/"):
        raise ConfigError(
            "the engine cannot reach a Postgres by a socket", f"write {SCHEME}://reader@host:5432/database"
        )
    pinned = {**PINNED, **settings, "default_transaction_read_only": "on"}
    pinned = {name: value for name, value in pinned.items() if name not in ("client_encoding", "transaction_read_only")}
    options = " ".join(f"-c {name}={_escaped(value)}" for name, value in pinned.items())
    more = {
        "user": parts.get("user"),
        "password": parts.get("password"),
        "sslmode": parts.get("sslmode"),
        "options": options,
    }
    told = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in more.items() if value)
    return f"jdbc:postgresql://{parts['host']}:{parts.get('port', 5432)}/{quote(str(parts.get('dbname', '')))}?{told}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def _options(snapshot: str) -> dict[str, str]:
    return {
        "driver": "org.postgresql.Driver",
        "fetchsize": FETCHED,
        "sessionInitStatement": SNAPSHOT.format(snapshot),
    }


def open_reader(address: Address, abilities: Abilities) -> ParallelPostgres:
    """Two ways to one server: ours, and that of the engine."""
    if not address.settings.lake_engine:
        raise ConfigError(f"source {address.name!r} is read by an engine, and there is none", "set VITRINA_LAKE_ENGINE")
    url = "postgresql" + address.url.removeprefix(SCHEME)
    return ParallelPostgres(address.name, abilities, connect(url, "reader"), address.reading, url, address.settings)
