"""The rights that belong to the server, whichever database they are for: roles, and what these are."""

from collections.abc import Iterator

from psycopg import sql

from vitrina.meta.db import SEARCH_PATH, Connection
from vitrina.meta.rights import (
    ALL,
    API,
    CAPTURE,
    READER,
    RUNNER,
    STANDS_FOR,
    WRITER,
    Right,
    Statement,
    exists,
    has_role,
)
from vitrina.meta.services import Service, find_service

ESSENTIAL = (READER, RUNNER, API)  # without one of these, one role does everything
WITH_OPTIONS = 160_000  # the first version whose memberships have any


def of_roles(conn: Connection) -> Iterator[Right]:
    """In the order in which they can be given."""
    service, version = find_service(conn), conn.info.server_version
    creator = "a user with CREATEROLE"
    for role in (*ALL, WRITER):
        yield _role(role, creator)
    for role in ALL:
        yield _enters(conn, role)
    for role in STANDS_FOR:
        yield _stand_in(conn, role, version, creator)
    yield _streams(service, version)
    yield _sees_all(service)
    yield _lends(RUNNER, version, creator)
    for role in ALL:
        yield _pinned(role, creator)
    # The SQL guard has the server print trees; they are not logged. And what a query may fill of the server's disk.
    for name, role in (("log_min_messages", READER), ("temp_file_limit", READER), ("temp_file_limit", RUNNER)):
        yield _parameter(name, role, service)


def _role(role: str, creator: str) -> Right:
    without = {
        CAPTURE: "changes of the warehouse's own tables are captured as its owner",
        WRITER: "code that marts of others bring along runs with the runner's rights",
    }.get(role, "one role does everything: its processes sign in as the owner")
    text = sql.SQL("CREATE ROLE {} {}").format(sql.Identifier(role), sql.SQL("NOLOGIN" if role == WRITER else "LOGIN"))
    return Right(f"role {role}", text, exists(role), without, creator, role in ESSENTIAL, creates=role)


def _enters(conn: Connection, role: str) -> Right:
    """Everybody may, unless somebody has taken that away."""
    database = conn.info.dbname
    text = sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(database), sql.Identifier(role))
    there = sql.SQL("CASE WHEN {} THEN has_database_privilege({}, {}, 'CONNECT') END").format(
        exists(role), sql.Literal(role), sql.Literal(database)
    )
    without, who = f"{role} cannot sign in", f"the owner of database {database}"
    return Right(f"{role} and database {database}", text, there, without, who, role in ESSENTIAL)


def _stand_in(conn: Connection, role: str, version: int, creator: str) -> Right:
    """Tables that the runner has made are granted, functions are given to the reader: by whoever installs."""
    me = conn.info.user
    there = has_role(sql.SQL("current_user"), role, "USAGE")
    if version >= WITH_OPTIONS:
        there = sql.SQL("{} AND {}").format(there, has_role(sql.SQL("current_user"), role, "SET"))
    options = sql.SQL(" WITH INHERIT TRUE, SET TRUE" if version >= WITH_OPTIONS else "")
    text = sql.SQL("GRANT {} TO {}{}").format(sql.Identifier(role), sql.Identifier(me), options)
    return Right(f"{me} for {role}", text, there, f"what belongs to {role} cannot be put right by migrations", creator)


def _streams(service: Service, version: int) -> Right:
    who = "a user with CREATEROLE and REPLICATION" if version >= WITH_OPTIONS else "a superuser"
    text: Statement = sql.SQL("ALTER ROLE vitrina_capture REPLICATION")
    there: Statement = sql.SQL("(SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = 'vitrina_capture')")
    if service.streams_by:
        text = sql.SQL("GRANT {} TO vitrina_capture").format(sql.Identifier(service.streams_by))
        there = sql.SQL("({} OR {})").format(there, has_role(sql.Literal(CAPTURE), service.streams_by, "MEMBER"))
    without = "the WAL of the warehouse cannot be read as it: live marts of its own tables need --kind trigger"
    return Right(f"{CAPTURE} and the WAL", text, there, without, service.administrator if service.name else who)


def _sees_all(service: Service) -> Right:
    without = "pipelines of mode incremental over the warehouse are refused: open transactions of others cannot be seen"
    text = sql.SQL("GRANT pg_read_all_stats TO vitrina_reader")
    there = has_role(sql.Literal(READER), "pg_read_all_stats", "USAGE")
    return Right(sees_all(READER), text, there, without, service.administrator)


def sees_all(role: str) -> str:
    """What that right is called."""
    return f"{role} and other sessions"


def parameter(name: str, role: str) -> str:
    """Likewise, to set a parameter of the server."""
    return f"{name} of {role}"


def _lends(role: str, version: int, creator: str) -> Right:
    options = sql.SQL(" WITH INHERIT TRUE, SET TRUE" if version >= WITH_OPTIONS else "")
    text = sql.SQL("GRANT vitrina_writer TO {}{}").format(sql.Identifier(role), options)
    without = "marts with code of trusted owners cannot be written"
    return Right(f"{role} and {WRITER}", text, has_role(sql.Literal(role), WRITER, "MEMBER"), without, creator)


def _pinned(role: str, creator: str) -> Right:
    """For sessions behind a pooler, which can say nothing of themselves when they begin."""
    text = sql.SQL("ALTER ROLE {} SET search_path = pg_catalog, pg_temp").format(sql.Identifier(role))
    there = sql.SQL("(SELECT rolconfig @> ARRAY[{}] FROM pg_roles WHERE rolname = {})").format(
        sql.Literal(f"search_path={SEARCH_PATH}"), sql.Literal(role)
    )
    return Right(f"search_path of {role}", text, there, "it cannot sign in through a pooler", creator)


def _parameter(name: str, role: str, service: Service) -> Right:
    instead = service.set_at_once("temp_file_limit", "20GB")
    without = {
        "temp_file_limit": f"VITRINA_TEMP_FILE_LIMIT does not hold for it; instead: {instead}",
        "log_min_messages": "the server's log grows by some 20 kB for each query that is checked",
    }[name]
    text = sql.SQL("GRANT SET ON PARAMETER {} TO {}").format(sql.Identifier(name), sql.Identifier(role))
    there = sql.SQL("CASE WHEN {} THEN has_parameter_privilege({}, {}, 'SET') END").format(
        exists(role), sql.Literal(role), sql.Literal(name)
    )
    who = service.administrator if service.gives_parameters else f"{service.name} (which may give it to nobody)"
    return Right(parameter(name, role), text, there, without, who)
