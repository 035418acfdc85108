"""The doctor's look at the warehouse and the sources: their servers, the meta-store, roles and what these may read."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from vitrina import bootstrap
from vitrina.cli.checking import Check, Checks, captures, refused, temporary_files, waits
from vitrina.domain.diagnoses import Diagnosis
from vitrina.domain.errors import VitrinaError
from vitrina.domain.wording import Data
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta import compatibility, roles, server_rights
from vitrina.meta.db import Connection, connect, translated
from vitrina.meta.refusals import quoted
from vitrina.meta.repos.clock import Clock, ClockRepo
from vitrina.meta.services import find_service
from vitrina.settings import Settings
from vitrina.sources.connections import Connections

VERSIONS = range(15, 19)


@dataclass(frozen=True)
class Known:
    """What need not be said again of a role's session, and which of the allowed schemas sources have."""

    lacks: Collection[str]
    schemas: Collection[str]


def check_warehouse(settings: Settings) -> Checks:
    """The configured server, or the embedded one where it runs."""
    if own := bootstrap.own_warehouse(settings):
        yield from _database(own, settings)
        return
    server = bootstrap.embedded_server(settings)
    server.program("postgres")  # raises when the binaries are not there
    if not server.is_running():
        yield Check("warn", "Postgres", Diagnosis.POSTGRES_DOWN)
        return
    yield from _embedded(server, settings)


def _embedded(server: EmbeddedPostgres, settings: Settings) -> Checks:
    with connect(server.conninfo(), "doctor") as conn:
        known = conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", [bootstrap.DATABASE]).fetchone()
    if not known:
        yield Check("warn", "Postgres", Diagnosis.NO_DATABASE, {"database": bootstrap.DATABASE})
        return
    url = server.conninfo(bootstrap.DATABASE)
    yield from _database(bootstrap.Warehouse(url, url, server), settings)


def _database(warehouse: bootstrap.Warehouse, settings: Settings) -> Checks:
    try:
        owner = connect(warehouse.owner, "doctor")
    except VitrinaError as error:
        yield refused("Postgres", error, "start it, or correct VITRINA_DATABASE_URL")
        return
    with owner, translated():
        yield from _server(owner)
        schema = compatibility.find(owner)
        wrong = compatibility.misfit(schema)
        if wrong:
            yield refused("meta-store", wrong)
            return
        yield _meta_store(schema)
        yield clock(ClockRepo(owner).look())
        lacks = roles.find_lacking_roles(owner)
        yield from captures(owner, bootstrap.connections(warehouse, settings))
        yield from waits(owner)
    yield from _roles(warehouse, settings, lacks)
    connections = bootstrap.connections(warehouse, settings)
    seen: set[str] = set()
    sources = [check for name in settings.sources for check in _source(name, connections, seen)]
    yield from _as_roles(connections, settings, Known({lack.right.about for lack in lacks}, seen))
    yield from sources


def _meta_store(schema: compatibility.Schema) -> Check:
    if schema.version > compatibility.newest():
        newer: Data = {"version": schema.version, "program": schema.program}
        return Check("warn", "meta-store", Diagnosis.META_STORE_NEWER, newer)
    return Check("ok", "meta-store", Diagnosis.META_STORE, {"version": schema.version})


def clock(found: Clock) -> Check:
    """Whether the database's clock has jumped lately."""
    if found.was_set_back:
        return Check("warn", "clock", Diagnosis.CLOCK_BEHIND, {"seen_at": str(found.seen_at)})
    lately = found.jumped_at and found.jumped_by and found.now - found.jumped_at < timedelta(days=1)
    if not lately:
        return Check("ok", "clock", Diagnosis.CLOCK)
    code = Diagnosis.CLOCK_SET_FORWARD if (found.jumped_by or 0) > 0 else Diagnosis.CLOCK_SET_BACK
    by = timedelta(seconds=abs(round(found.jumped_by or 0)))
    return Check("warn", "clock", code, {"by": str(by), "at": str(found.jumped_at)})


def _server(conn: Connection) -> Checks:
    version = conn.info.server_version // 10_000
    data = {"version": conn.info.parameter_status("server_version")}
    if version in VERSIONS:
        yield Check("ok", "Postgres", Diagnosis.POSTGRES, data)
    else:
        yield Check("fail" if version < VERSIONS.start else "warn", "Postgres", Diagnosis.POSTGRES_UNTESTED, data)
    row = conn.execute("SHOW wal_level").fetchone()
    level = row["wal_level"] if row else "?"
    if level == "logical":
        yield Check("ok", "wal_level", Diagnosis.WAL_LEVEL, {"level": level})
    else:
        needed = {"level": level, "way": find_service(conn).logical}
        yield Check("warn", "wal_level", Diagnosis.WAL_LEVEL_LOW, needed)


def _roles(warehouse: bootstrap.Warehouse, settings: Settings, lacks: Sequence[roles.Lack]) -> Checks:
    urls = {"RUNNER_URL": settings.runner_url, "READER_URL": settings.reader_url, "API_ROLE_URL": settings.api_role_url}
    unset = [f"VITRINA_{name}" for name, url in urls.items() if url is None]
    if any(lack.essential for lack in lacks):
        yield Check("warn", "roles", Diagnosis.ROLES_MISSING)
        return
    for lack in lacks:
        data = {"without": lack.right.without, "who": lack.right.who, "statement": lack.statement}
        yield Check("warn", lack.right.about, Diagnosis.RIGHT_LACKS, data)
    if warehouse.embedded or not unset:
        yield Check("ok", "roles", Diagnosis.ROLES_APART)
    else:
        yield Check("warn", "roles", Diagnosis.SIGN_INS_UNSET, {"settings": unset})


def _as_roles(connections: Connections, settings: Settings, known: Known) -> Checks:
    for about, conninfo, check in (
        ("reader", connections.reader, _reader),
        ("runner", connections.warehouse, _runner),
    ):
        try:
            with connect(conninfo, "doctor") as conn, translated():
                yield from check(conn, settings, known)
        except VitrinaError as error:
            yield refused(about, error, "vitrina roles")


def _reader(conn: Connection, settings: Settings, known: Known) -> Checks:
    role = conn.info.user
    row = conn.execute("SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees").fetchone()
    if row and row["sees"]:
        yield Check("ok", "reader", Diagnosis.READER_SEES)
    elif server_rights.sees_all(role) not in known.lacks:
        grant = f"GRANT pg_read_all_stats TO {quoted(role)}"
        data = {"who": find_service(conn).administrator, "statement": grant}
        yield Check("warn", "reader", Diagnosis.READER_BLIND, data)
    if server_rights.parameter("temp_file_limit", role) not in known.lacks:
        yield temporary_files(conn, "reader", settings.temp_file_limit)
    for schema in settings.allowed_source_schemas:
        yield _source_schema(conn, schema, elsewhere=schema in known.schemas)


def _source_schema(conn: Connection, schema: str, *, elsewhere: bool) -> Check:
    about = f"source schema {schema}"
    row = conn.execute(
        """
        SELECT has_schema_privilege(n.oid, 'USAGE') AS usable, count(c.oid) AS tables,
               count(c.oid) FILTER (WHERE NOT has_table_privilege(c.oid, 'SELECT')) AS closed
        FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
        WHERE n.nspname = %s GROUP BY n.oid
        """,
        [schema],
    ).fetchone()
    if row is None:
        if elsewhere:
            return Check("ok", about, Diagnosis.SCHEMA_ELSEWHERE)
        return Check("warn", about, Diagnosis.SCHEMA_MISSING)
    data = {"closed": row["closed"], "tables": row["tables"]}
    if not row["usable"] or row["closed"]:
        code = Diagnosis.TABLES_CLOSED if row["usable"] else Diagnosis.SCHEMA_CLOSED
        return Check("warn" if elsewhere else "fail", about, code, data)
    return Check("ok", about, Diagnosis.SCHEMA_READABLE, data)


def _runner(conn: Connection, settings: Settings, known: Known) -> Checks:
    if server_rights.parameter("temp_file_limit", conn.info.user) not in known.lacks:
        yield temporary_files(conn, "runner", settings.temp_file_limit)
    for schema in settings.mart_schemas:
        row = conn.execute(
            "SELECT has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE') AS may"
            " FROM pg_namespace WHERE nspname = %s",
            [schema],
        ).fetchone()
        if row is None:
            yield Check("fail", f"mart schema {schema}", Diagnosis.MARTS_MISSING)
        elif not row["may"]:
            yield Check("fail", f"mart schema {schema}", Diagnosis.MARTS_CLOSED)
        else:
            yield Check("ok", f"mart schema {schema}", Diagnosis.MARTS_WRITABLE)


def _source(name: str, connections: Connections, seen: set[str]) -> Checks:
    """`seen` gets the schemas that it has."""
    settings = connections.settings
    try:
        with connections.resolve_reader(name) as reader:
            yield Check("ok", f"source {name}", Diagnosis.SOURCE_ANSWERS)
            seen |= {
                found.name for found in reader.sight(settings.allowed_source_schemas, None, "").schemas if found.exists
            }
            if reader.abilities.speaks_sql:
                yield temporary_files(reader.catalogue.conn, f"source {name}", settings.temp_file_limit)
    except VitrinaError as error:
        yield refused(f"source {name}", error, f"correct VITRINA_SOURCES__{name.upper()}")
