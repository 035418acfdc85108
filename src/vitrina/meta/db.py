"""Connections with pinned settings, named queries, and driver errors translated into ours."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, LiteralString, Self, TypeAlias, cast

import psycopg
from psycopg import IsolationLevel, errors, generators, pq, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import DictRow, dict_row, scalar_row

from vitrina.domain.errors import ConfigError, DatabaseLost, FatalError, RetryableError, VitrinaError
from vitrina.meta.conninfo import setting_of
from vitrina.meta.refusals import is_refusal, quoted, remedy

QUERIES = Path(__file__).parent / "queries"
NAMED = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)

Connection: TypeAlias = psycopg.Connection[DictRow]

# Where names of ours without a schema are found: nobody else can create there. Without pg_temp at its end, tables and
# types of it would come first.
SEARCH_PATH = "pg_catalog, pg_temp"
# How values look as text, and how queries are read: the same in every session, whatever a role, a database or the
# server sets, so that keys, cursors and casts come back exactly and a mart does not change with a setting.
PINNED = {
    "search_path": SEARCH_PATH,
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "xmlbinary": "base64",
    "xmloption": "content",
    "array_nulls": "on",
    "standard_conforming_strings": "on",
    "backslash_quote": "safe_encoding",
    "transform_null_equals": "off",
    "quote_all_identifiers": "off",
    "row_security": "on",
    "gin_fuzzy_search_limit": "0",
}


READ_ONLY = {"transaction_read_only": "on"}  # what SET TRANSACTION READ ONLY says
CANCEL_SECONDS = 5.0  # for a server to take the request
TEMP_FILES = "temp_file_limit"
BOUNDED = """CASE WHEN pg_catalog.has_parameter_privilege('temp_file_limit', 'SET')
                   AND pg_catalog.pg_size_bytes(pg_catalog.current_setting('temp_file_limit'))
                       NOT BETWEEN 0 AND pg_catalog.pg_size_bytes({1}) THEN {0} END"""


class Session(psycopg.Connection[DictRow]):
    """A session whose names mean what the server's own catalogue says, from its first statement on. Its transactions
    see what others did while they waited, unless they say otherwise. Both whatever a role or a database sets."""

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """By a startup option; where a pooler takes none, the role's own setting must say the same."""
        given = conninfo_to_dict(conninfo, **options)
        pinned = f"{given.get('options') or os.environ.get('PGOPTIONS', '')} -c search_path={PATH_OPTION}".strip()
        try:
            conn = super().connect(conninfo, **options | {"options": pinned})
        except psycopg.OperationalError as error:
            if REFUSES_OPTIONS not in str(error):
                raise
            conn = super().connect(conninfo, **options)
        _require_pinned(conn)
        conn.isolation_level = IsolationLevel.READ_COMMITTED
        return conn


PATH_OPTION = SEARCH_PATH.replace(" ", "")
REFUSES_OPTIONS = "unsupported startup parameter"  # so pgbouncer says


def _require_pinned(conn: Session) -> None:
    """A pooler may swallow the option, and other sessions of the role's would inherit what this one sets."""
    path = conn.info.parameter_status("search_path")  # newer servers tell it by themselves
    if path is None:
        path = psycopg.Cursor(conn, row_factory=scalar_row).execute("SHOW search_path").fetchone() or ""
        if not conn.autocommit:
            conn.rollback()
    if path.replace(" ", "") != PATH_OPTION:
        user = conn.info.user
        conn.close()
        raise ConfigError(
            f"the pooler passes no search_path on, and role {user} has none of its own",
            f"ALTER ROLE {quoted(user)} SET search_path = {SEARCH_PATH}"
            " (`vitrina migrate` does it for the roles of Vitrina)",
        )


def connect(conninfo: str, name: str, *, autocommit: bool = True, **options: str) -> Connection:
    """Open a connection that says who it is; a server that is not there is a DatabaseLost."""
    readable = make_conninfo(check_conninfo(conninfo), **options)
    try:
        return Session.connect(
            readable,
            autocommit=autocommit,
            row_factory=dict_row,
            application_name=f"vitrina {name}",
            connect_timeout=10,
            # A network that swallows everything and tells nobody is noticed within half a minute: by the system's own
            # defaults, a slot or the heartbeat would wait for a quarter of an hour.
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=30_000,
            prepare_threshold=None,  # transaction-pooling friendly
        )
    except psycopg.OperationalError as error:
        raise _unconnected(error, conninfo) from error


def _unconnected(error: psycopg.OperationalError, conninfo: str) -> VitrinaError:
    """Refused by somebody who answers, or not answered at all."""
    said, setting = f"cannot connect to Postgres: {error}".strip(), setting_of(conninfo)
    if is_refusal(said):
        return ConfigError(said, remedy(said, setting, conninfo_to_dict(conninfo)))
    return DatabaseLost(said, f"correct {setting}, or see that its server can be reached" if setting else "")


def cancel(conn: Connection) -> None:
    """End what a session does now, from another thread: by the driver, which needs no rights for it."""
    if not conn.closed:
        with suppress(psycopg.Error):
            conn.cancel_safe(timeout=CANCEL_SECONDS)


def check_conninfo(conninfo: str) -> str:
    """The same, if it can be read; else a ConfigError without a word of it, since the driver would quote a password."""
    name = setting_of(conninfo)
    try:
        host = str(conninfo_to_dict(conninfo).get("host") or "")
    except psycopg.ProgrammingError:
        remedy = f"write {name}{'=' if name else ''}postgresql://user:password@host:5432/db"
        raise ConfigError(f"{name or 'a connection string'} cannot be read", remedy) from None
    if "@" in host[1:]:  # the end of a password, taken for the host; at its beginning it is an abstract socket
        said = f"{name or 'a connection string'} has an @ in its host"
        raise ConfigError(said, "write an @ of the password as %40")
    return conninfo


def stall_limit(lease_seconds: float) -> str:
    """How long a transaction that locks may stand still: the server ends it before the lease of its owner is up."""
    return f"{int(lease_seconds * 800)}ms"


def _setting(name: str, value: sql.Composable) -> sql.Composable:
    """For this transaction. How much of the disk a session may fill is up to superusers and whom they let: where this
    role may not say it, the server's or the role's own limit holds, and one that is lower holds anyway."""
    said = sql.SQL("pg_catalog.set_config({}, {}, true)").format(sql.Literal(name), value)
    return sql.SQL(BOUNDED).format(said, value) if name == TEMP_FILES else said


@cache
def _settings(names: tuple[str, ...]) -> bytes:
    """The statement that begins every batch: composed once."""
    said = [_setting(name, sql.Placeholder(name)) for name in names]
    return sql.SQL("SELECT {}").format(sql.SQL(", ").join(said)).as_bytes(None)


def settings_text(settings: Mapping[str, str]) -> sql.Composed:
    """The same with its values, for a transaction that somebody else begins."""
    said = [_setting(name, sql.Literal(value)) for name, value in {**PINNED, **settings}.items()]
    return sql.SQL("SELECT {}").format(sql.SQL(", ").join(said))


@contextmanager
def transaction(
    conn: Connection,
    local: Mapping[str, str],
    *,
    read_only: bool = False,
    keep: bool = True,
    along: Callable[[], object] | None = None,
) -> Iterator[Connection]:
    """A transaction with the pinned settings and `local` ones, none of which outlives it; rolled back unless kept.

    It begins in one round trip, together with what is said `along`, whose answer nobody waits for meanwhile.
    """
    settings = {**(READ_ONLY if read_only else {}), **PINNED, **local}
    with translated(), ExitStack() as stack:
        with conn.pipeline():
            stack.enter_context(psycopg.Transaction(conn, force_rollback=not keep))  # outlives the pipeline
            conn.execute(_settings(tuple(settings)), settings)
            if along:
                along()
        yield conn


def prepare(conn: Connection, statement: bytes) -> None:
    """Have the server analyse one statement, and no more; the extended protocol takes no second one."""
    conn.pgconn.send_prepare(b"", statement)
    _await_result(conn)


def describe_prepared(conn: Connection) -> pq.abc.PGresult:
    """What the statement that was prepared last, in this transaction, would give."""
    conn.pgconn.send_describe_prepared(b"")
    return _await_result(conn)


def _await_result(conn: Connection) -> pq.abc.PGresult:
    # The driver's own waiting, since libpq's would stop every other thread, and the heartbeat with them.
    result: pq.abc.PGresult = conn.wait(generators.execute(conn.pgconn))[-1]
    if result.status != pq.ExecStatus.COMMAND_OK:
        raise errors.error_from_result(result)
    return result


@cache
def queries(name: str) -> dict[str, LiteralString]:
    """The named blocks of `queries/<name>.sql`."""
    text = (QUERIES / f"{name}.sql").read_text()
    return {block[1]: cast(LiteralString, block[2].strip()) for block in NAMED.finditer(text)}


def fetch_all(conn: Connection, query: LiteralString, params: Mapping[str, Any] | Sequence[Any] = ()) -> list[DictRow]:
    """Every row, errors translated."""
    with translated():
        return conn.execute(query, params).fetchall()


def fetch_one(conn: Connection, query: LiteralString, params: Mapping[str, Any] | Sequence[Any] = ()) -> DictRow | None:
    """The first row or nothing, errors translated."""
    with translated():
        return conn.execute(query, params).fetchone()


@contextmanager
def translated() -> Iterator[None]:
    """Turn driver errors into Vitrina's, by what the caller can do about them."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error) from error


LOST = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
)
MORE_FILES = "sort or join less at once, or allow more by VITRINA_TEMP_FILE_LIMIT (or by what the role has of its own)"
# Deadlocks, timeouts, cancellations, want of memory or disk; and a row that appeared meanwhile.
CURABLE = (psycopg.OperationalError, errors.UniqueViolation)


def translate(error: psycopg.Error) -> VitrinaError:
    """Which of our errors a driver error is: the server's detail tells what is wrong, its hint what to do about it."""
    told = (error.diag.message_primary or str(error).strip(), error.diag.message_detail)
    message = " — ".join(part for part in told if part)
    if isinstance(error, errors.ConfigurationLimitExceeded) and TEMP_FILES in message:
        return ConfigError(message, MORE_FILES)
    said = _kind(error)(message, error.diag.message_hint or "")
    said.at = int(error.diag.statement_position or 0)
    return said


def _kind(error: psycopg.Error) -> type[VitrinaError]:
    if isinstance(error, LOST) or (error.sqlstate is None and isinstance(error, psycopg.OperationalError)):
        return DatabaseLost
    if isinstance(error, CURABLE):
        return RetryableError
    is_asked_wrongly = isinstance(error, psycopg.ProgrammingError | psycopg.DataError | psycopg.IntegrityError)
    return ConfigError if is_asked_wrongly else FatalError
