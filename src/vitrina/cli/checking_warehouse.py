"""The doctor's look at the warehouse and the sources: their servers, the meta-store, roles and what these may read."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from vitrina import bootstrap
from vitrina.cli.checking import UP, Check, Checks, captures, temporary_files, waits
from vitrina.domain.errors import VitrinaError
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta import compatibility, roles, server_rights
from vitrina.meta.db import Connection, connect, translated
from vitrina.meta.refusals import quoted
from vitrina.meta.repos.clock import Clock, ClockRepo
from vitrina.meta.services import find_service
from vitrina.settings import Settings
from vitrina.sources.connections import Connections

VERSIONS = range(15, 19)
CLOCKS = "see that one time service keeps it: leases and schedules were put right, incremental marts are compared"


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
        yield Check("warn", "Postgres", "the embedded one is installed and not running", UP)
        return
    yield from _embedded(server, settings)


def _embedded(server: EmbeddedPostgres, settings: Settings) -> Checks:
    with connect(server.conninfo(), "doctor") as conn:
        known = conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", [bootstrap.DATABASE]).fetchone()
    if not known:
        yield Check("warn", "Postgres", f"the embedded one has no database {bootstrap.DATABASE} yet", UP)
        return
    url = server.conninfo(bootstrap.DATABASE)
    yield from _database(bootstrap.Warehouse(url, url, server), settings)


def _database(warehouse: bootstrap.Warehouse, settings: Settings) -> Checks:
    try:
        owner = connect(warehouse.owner, "doctor")
    except VitrinaError as error:
        yield Check("fail", "Postgres", error.message, error.remedy or "start it, or correct VITRINA_DATABASE_URL")
        return
    with owner, translated():
        yield from _server(owner)
        schema = compatibility.find(owner)
        wrong = compatibility.misfit(schema)
        if wrong:
            yield Check("fail", "meta-store", wrong.message, wrong.remedy)
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
        said = f"at {schema.version}, newer than this program, and works with it"
        return Check("warn", "meta-store", said, f"go on with the upgrade: install Vitrina {schema.program} here too")
    return Check("ok", "meta-store", f"up to date, at {schema.version}")


def clock(found: Clock) -> Check:
    """Whether the database's clock has jumped lately."""
    if found.was_set_back:
        return Check("warn", "clock", f"the database's clock was set back behind {found.seen_at}", CLOCKS)
    lately = found.jumped_at and found.jumped_by and found.now - found.jumped_at < timedelta(days=1)
    if not lately:
        return Check("ok", "clock", "has not jumped within a day")
    way, by = "forward" if (found.jumped_by or 0) > 0 else "back", timedelta(seconds=abs(round(found.jumped_by or 0)))
    return Check("warn", "clock", f"the database's clock was set {way} by {by} at {found.jumped_at}", CLOCKS)


def _server(conn: Connection) -> Checks:
    version = conn.info.server_version // 10_000
    said = f"version {conn.info.parameter_status('server_version')}"
    if version in VERSIONS:
        yield Check("ok", "Postgres", said)
    else:
        level: Literal["warn", "fail"] = "fail" if version < VERSIONS.start else "warn"
        yield Check(level, "Postgres", f"{said} is not one that Vitrina is tested with", "use Postgres 15 to 18")
    row = conn.execute("SHOW wal_level").fetchone()
    level_ = row["wal_level"] if row else "?"
    if level_ == "logical":
        yield Check("ok", "wal_level", "logical")
    else:
        remedy = f"only live marts of the warehouse's own tables by wal need it: {find_service(conn).logical}"
        yield Check("warn", "wal_level", level_, remedy)


def _roles(warehouse: bootstrap.Warehouse, settings: Settings, lacks: Sequence[roles.Lack]) -> Checks:
    urls = {"RUNNER_URL": settings.runner_url, "READER_URL": settings.reader_url, "API_ROLE_URL": settings.api_role_url}
    unset = [f"VITRINA_{name}" for name, url in urls.items() if url is None]
    if any(lack.essential for lack in lacks):
        remedy = "vitrina roles, as a user who may create roles; or have a script for who may: vitrina roles --sql"
        yield Check("warn", "roles", "degraded: one role does everything", remedy)
        return
    for lack in lacks:
        remedy = f"{lack.right.who} has to run: {lack.statement}"
        yield Check("warn", lack.right.about, f"degraded: {lack.right.without}", remedy)
    if warehouse.embedded or not unset:
        yield Check("ok", "roles", "each process signs in as its own")
    else:
        said = f"degraded: {', '.join(unset)} not set, so the owner signs in instead"
        yield Check("warn", "roles", said, "vitrina roles prints what to set")


def _as_roles(connections: Connections, settings: Settings, known: Known) -> Checks:
    for about, conninfo, check in (
        ("reader", connections.reader, _reader),
        ("runner", connections.warehouse, _runner),
    ):
        try:
            with connect(conninfo, "doctor") as conn, translated():
                yield from check(conn, settings, known)
        except VitrinaError as error:
            yield Check("fail", about, error.message, error.remedy or "vitrina roles")


def _reader(conn: Connection, settings: Settings, known: Known) -> Checks:
    role = conn.info.user
    row = conn.execute("SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees").fetchone()
    if row and row["sees"]:
        yield Check("ok", "reader", "sees other sessions, for the safe horizon")
    elif server_rights.sees_all(role) not in known.lacks:
        remedy = f"{find_service(conn).administrator} has to run: GRANT pg_read_all_stats TO {quoted(role)}"
        yield Check("warn", "reader", "cannot see other sessions: incremental pipelines will refuse to run", remedy)
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
            return Check("ok", about, "is in a source, and not in the warehouse")
        remedy = "create it, or correct VITRINA_ALLOWED_SOURCE_SCHEMAS"
        return Check("warn", about, "does not exist", remedy)
    if not row["usable"] or row["closed"]:
        said = f"{row['closed']} of {row['tables']} tables" if row["usable"] else "the schema"
        level: Literal["warn", "fail"] = "warn" if elsewhere else "fail"
        return Check(level, about, f"the reader may not read {said}", "vitrina roles, as their owner")
    return Check("ok", about, f"{row['tables']} tables, readable")


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
            yield Check("fail", f"mart schema {schema}", "does not exist", "vitrina migrate")
        elif not row["may"]:
            yield Check("fail", f"mart schema {schema}", "the runner may not create tables in it", "vitrina roles")
        else:
            yield Check("ok", f"mart schema {schema}", "the runner may write")


def _source(name: str, connections: Connections, seen: set[str]) -> Checks:
    """`seen` gets the schemas that it has."""
    settings = connections.settings
    try:
        with connections.resolve_reader(name) as reader:
            yield Check("ok", f"source {name}", "answers")
            seen |= {
                found.name for found in reader.sight(settings.allowed_source_schemas, None, "").schemas if found.exists
            }
            if reader.abilities.speaks_sql:
                yield temporary_files(reader.catalogue.conn, f"source {name}", settings.temp_file_limit)
    except VitrinaError as error:
        yield Check("fail", f"source {name}", error.message, error.remedy or f"correct VITRINA_SOURCES__{name.upper()}")
