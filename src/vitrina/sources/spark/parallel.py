"""A Postgres that Spark reads in parallel: many sessions, each a range of the key, all in one snapshot.

The SELECT stays Postgres': each session computes it for its range, and what is kept is the query as Postgres computes
it. One more transaction holds the snapshot until all of it is read; so it must be one server, a standby as well.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from psycopg import IsolationLevel, sql
from psycopg.conninfo import conninfo_to_dict

from vitrina.domain.errors import ConfigError
from vitrina.domain.source_refusals import SourceRefusal
from vitrina.meta.db import (
    PINNED,
    TEMP_FILES,
    Connection,
    cancel,
    connect,
    describe_prepared,
    fetch_all,
    prepare,
    queries,
    settings_text,
    transaction,
)
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
PADDED = re.compile(r"character(\(\d+\))?|bpchar")
DEEP = "has arrays of several dimensions or from another number than 1: read it from a source of postgresql://, here "
# The cast fails, and says why; nothing is known of it before a row is there.
FLAT = """CASE WHEN pg_catalog.array_ndims({0}) OPERATOR(pg_catalog.>) 1
                 OR pg_catalog.array_lower({0}, 1) OPERATOR(pg_catalog.<>) 1
               THEN pg_catalog.concat({1}, pg_catalog.array_dims({0}))::boolean::text
               ELSE pg_catalog.to_json({0})::text END"""
UNPARSED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
VIEW = "vitrina_read"
FETCHED = "10000"  # rows that a session of the engine gets at a time
SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET TRANSACTION SNAPSHOT '{}'"
CARRIED = {"host", "port", "dbname", "user", "password", "sslmode", "options"}  # parts of an address
OURS = {"application_name", "fallback_application_name", "connect_timeout", "client_encoding", "keepalives"}
NO_OPTION = {"client_encoding", TEMP_FILES}  # the driver's own matter; and what not every role may set
HOLDING = {"idle_in_transaction_session_timeout": "0"}


@dataclass(frozen=True)
class ParallelPostgres(PostgresReader):
    """As any other Postgres; and marts in the lake are filled from it by the engine of the lake."""

    url: str
    app: Settings
    holding: list[Connection] = field(default_factory=list)  # sessions that hold a snapshot

    def cancel(self) -> None:
        super().cancel()
        for held in [*self.holding]:
            cancel(held)

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
        self.holding.append(held)
        try:
            with transaction(held, {**self.settings, **HOLDING}, read_only=True) as conn:
                parts = _ranges(conn, select, columns, key[0], settings.engine_sessions)
                name = fetch_all(conn, SQL["export"])[0]["snapshot"]
                table = f"({_given(select, columns).as_string(conn)}) AS vitrina_q"
                where, how = _jdbc(self.url, self.settings), _options(name, self.settings)
                frame = session.read.jdbc(where, table, predicates=parts, properties=how)
                frame.createOrReplaceTempView(VIEW)
                yield f"SELECT {', '.join(map(_typed, columns))} FROM {VIEW}"
        finally:
            self.holding.remove(held)
            held.close()


def _refuse_marks(select: str) -> None:
    if "?" in UNPARSED.sub("", select):
        raise ConfigError.of(SourceRefusal.PARALLEL_OPERATOR)


def _given(select: str, columns: Sequence[Column]) -> sql.Composed:
    values = [sql.SQL("{} AS {}").format(_as_text(column), column.identifier) for column in columns]
    return sql.SQL("SELECT {} FROM ({}\n) AS q").format(sql.SQL(", ").join(values), sql.SQL(select))


def _as_text(column: Column) -> sql.Composable:
    value = sql.SQL("q.{}").format(column.identifier)
    if column.type in PLAIN:
        return value
    if column.type == "bytea":
        return sql.SQL("pg_catalog.encode({}, 'hex')").format(value)
    if PADDED.fullmatch(column.type):  # its cast to text would strip the blanks
        return sql.SQL("CASE WHEN {0} IS NOT NULL THEN pg_catalog.concat({0}) END").format(value)
    if column.type.endswith("[]"):
        if column.type.removesuffix("[]") not in LISTS:
            raise ConfigError.of(SourceRefusal.PARALLEL_TYPE, column=column.name, type=column.type)
        return sql.SQL(FLAT).format(value, sql.Literal(f"{column.name} {DEEP}"))
    return sql.SQL("{}::text").format(value)


def _typed(column: Column) -> str:
    """The same column again, as the engine has it; what is text is cast to the mart's own type there."""
    name = quoted(column.name)
    if column.type == "bytea":
        return f"unhex({name}) AS {name}"
    if column.type.endswith("[]"):
        items = LISTS[column.type.removesuffix("[]")]
        return f"from_json({name}, 'array<{items}>', map('mode', 'FAILFAST')) AS {name}"
    return name


def _ranges(conn: Any, select: str, columns: Sequence[Column], key: str, sessions: int) -> list[str]:
    """Conditions that split the rows by the first column of the key: each row meets one."""
    [column] = [column for column in columns if column.name == key]
    is_split = column.type in PLAIN and sessions > 1
    ends = [*dict.fromkeys(_bounds(conn, select, columns, column, sessions))] if is_split else []
    if not ends:
        return ["true"]
    name = sql.SQL("vitrina_q.{}").format(column.identifier)
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
    """Where the engine finds it: settings of the session go along, for when it asks what columns there are."""
    parts = conninfo_to_dict(url)
    host = _host(parts)
    pinned = {**PINNED, **settings, "default_transaction_read_only": "on"}
    said = [f"-c {name}={_escaped(value)}" for name, value in pinned.items() if name not in NO_OPTION]
    given = [str(parts["options"])] if parts.get("options") else []
    more = {name: parts.get(name) for name in ("user", "password", "sslmode")} | {"options": " ".join([*given, *said])}
    told = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in more.items() if value)
    return f"jdbc:postgresql://{host}:{parts.get('port', 5432)}/{quote(str(parts.get('dbname', '')), safe='')}?{told}"


def _host(parts: Mapping[str, Any]) -> str:
    """As an address has it; what the engine would not be told is refused."""
    host = str(parts.get("host") or "")
    if not host or host.startswith("/"):
        raise ConfigError.of(SourceRefusal.PARALLEL_ADDRESS, scheme=SCHEME)
    if "," in host:
        raise ConfigError.of(SourceRefusal.PARALLEL_HOSTS)
    if lost := sorted(name for name in parts if name not in CARRIED | OURS):
        raise ConfigError.of(SourceRefusal.PARALLEL_OPTION, option=lost[0], scheme=SCHEME)
    return f"[{host}]" if ":" in host else host


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def _options(snapshot: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Settings once more, within the transaction: the driver has sent a time zone of its own, which outdoes options."""
    return {
        "driver": "org.postgresql.Driver",
        "fetchsize": FETCHED,
        "sessionInitStatement": f"{SNAPSHOT.format(snapshot)}; {settings_text(settings).as_string(None)}",
    }


def open_reader(address: Address, abilities: Abilities) -> ParallelPostgres:
    """Two ways to one server: ours, and that of the engine."""
    if not address.settings.lake_engine:
        raise ConfigError.of(SourceRefusal.NO_ENGINE, name=address.name)
    url = "postgresql" + address.url[len(SCHEME) :]
    return ParallelPostgres(address.name, abilities, connect(url, "reader"), address.reading, url, address.settings)
