"""The doctor: everything a newcomer trips over, each with its remedy. Starts nothing, changes nothing."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import timedelta
from typing import Literal

import typer
from rich.text import Text

from vitrina import __version__, bootstrap
from vitrina.cli.checking import Check, Checks, captures, temporary_files, waits
from vitrina.cli.output import STYLES, Format, Output, say_beside, say_json
from vitrina.cli.processes import Background
from vitrina.client import Client, ClientError, Runner, find_token, find_url, is_alive
from vitrina.domain.errors import VitrinaError
from vitrina.domain.policy import ES_TARGET_PREFIX
from vitrina.embedded.elasticsearch import embedded_elasticsearch, find_server
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta import compatibility, roles
from vitrina.meta.db import Connection, connect, translated
from vitrina.meta.repos.clock import Clock, ClockRepo
from vitrina.settings import Settings
from vitrina.sinks.elasticsearch.client import Elastic
from vitrina.sources.connections import Connections
from vitrina.transforms import REGISTRY
from vitrina.transforms.chain import load_transforms

LOW_DISK, FULL_DISK = 5_000_000_000, 500_000_000  # bytes
VERSIONS = range(15, 19)
SEARCH_VERSIONS = ("8", "9")
CLOCKS = "see that one time service keeps it: leases and schedules were put right, incremental marts are compared"
UP = "vitrina up"
UP_SEARCH = "vitrina up --search (after vitrina down, if the stack runs)"


def doctor(output: Output = Format.text) -> None:
    """Check the set-up, from Python to the runners, and say what to do; exit 1 if something is broken."""
    checks = list(examine(Settings()))
    if output is Format.json:
        say_json([asdict(check) for check in checks])
    else:
        for check in checks:
            say_beside(Text(f"{check.level:5}", STYLES[check.level]), f"{check.about}: {check.message}")
            if check.remedy:
                say_beside(Text(f"{'':5}"), f"remedy: {check.remedy}")
    if any(check.level == "fail" for check in checks):
        raise typer.Exit(1)


def examine(settings: Settings) -> Checks:
    """All checks; one that breaks is a fail of its own and hides no other."""
    for about, check in (
        ("machine", _machine),
        ("transforms", _transforms),
        ("Postgres", _warehouse),
        ("Elasticsearch", _elasticsearch),
        ("API", _api),
    ):
        yield from _guarded(about, check, settings)


def _guarded(about: str, check: Callable[[Settings], Checks], settings: Settings) -> Checks:
    try:
        yield from check(settings)
    except VitrinaError as error:
        yield Check("fail", about, error.message, error.remedy)


# ── the machine ──────────────────────────────────────────────────────────────────────────────────────────────


def _machine(settings: Settings) -> Checks:
    python = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= (3, 11):  # noqa: UP036 - pip checks, a folder on PYTHONPATH does not
        yield Check("ok", "Python", python)
    else:
        yield Check("fail", "Python", f"{python} is too old", "use Python 3.11 or newer")
    home = settings.home.absolute()
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    if existing.is_dir() and os.access(existing, os.W_OK):
        yield Check("ok", "home", f"{home} " + ("is writable" if existing == home else "can be made"))
    else:
        yield Check("fail", "home", f"{existing} is not writable", "set VITRINA_HOME to a folder of your own")
    free = shutil.disk_usage(existing).free
    said = f"{free / 1e9:,.1f} GB free at {existing}"
    if free < FULL_DISK:
        yield Check("fail", "disk", said, "free some space")
    else:
        yield Check("warn" if free < LOW_DISK else "ok", "disk", said, "free some space" if free < LOW_DISK else "")


def _transforms(settings: Settings) -> Checks:
    try:
        load_transforms(settings.transform_modules)
    except VitrinaError as error:
        yield Check("fail", "transforms", error.message, "install the module, or correct VITRINA_TRANSFORM_MODULES")
    except Exception as error:  # whatever the module of a user raises
        yield Check("fail", "transforms", f"{type(error).__name__}: {error}", "correct the module")
    else:
        yield Check("ok", "transforms", f"{len(REGISTRY)} registered: {', '.join(sorted(REGISTRY)) or 'none'}")


# ── the warehouse ────────────────────────────────────────────────────────────────────────────────────────────


def _warehouse(settings: Settings) -> Checks:
    if settings.database_url:
        url = settings.database_url.get_secret_value()
        direct = settings.direct_url.get_secret_value() if settings.direct_url else url
        yield from _database(bootstrap.Warehouse(url, direct, None), settings)
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
        separated = _roles_exist(owner)
        yield from captures(owner, bootstrap.connections(warehouse, settings))
        yield from waits(owner)
    yield from _roles(warehouse, settings, separated)
    connections = bootstrap.connections(warehouse, settings)
    yield from _as_roles(connections, settings)
    for name in settings.sources:
        yield from _source(name, connections)


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
        remedy = "only live marts by wal need it: ALTER SYSTEM SET wal_level = logical, then restart Postgres"
        yield Check("warn", "wal_level", level_, remedy)


def _roles_exist(conn: Connection) -> bool:
    row = conn.execute("SELECT count(*) AS n FROM pg_roles WHERE rolname = ANY (%s)", [list(roles.ALL)]).fetchone()
    return bool(row and row["n"] == len(roles.ALL))


def _roles(warehouse: bootstrap.Warehouse, settings: Settings, separated: bool) -> Checks:
    urls = {"RUNNER_URL": settings.runner_url, "READER_URL": settings.reader_url, "API_ROLE_URL": settings.api_role_url}
    unset = [f"VITRINA_{name}" for name, url in urls.items() if url is None]
    if not separated:
        yield Check(
            "warn", "roles", "degraded: one role does everything", "vitrina roles, as a user who may create roles"
        )
    elif warehouse.embedded or not unset:
        yield Check("ok", "roles", "each process signs in as its own")
    else:
        said = f"degraded: {', '.join(unset)} not set, so the owner signs in instead"
        yield Check("warn", "roles", said, "vitrina roles prints what to set")


def _as_roles(connections: Connections, settings: Settings) -> Checks:
    for about, conninfo, check in (
        ("reader", connections.reader, _reader),
        ("runner", connections.warehouse, _runner),
    ):
        try:
            with connect(conninfo, "doctor") as conn, translated():
                yield from check(conn, settings)
        except VitrinaError as error:
            yield Check("fail", about, error.message, error.remedy or "vitrina roles")


def _reader(conn: Connection, settings: Settings) -> Checks:
    row = conn.execute("SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees").fetchone()
    if row and row["sees"]:
        yield Check("ok", "reader", "sees other sessions, for the safe horizon")
    else:
        remedy = "GRANT pg_read_all_stats TO the reader's role (vitrina roles does)"
        yield Check("fail", "reader", "cannot see other sessions: incremental pipelines will refuse to run", remedy)
    yield temporary_files(conn, "reader", settings.temp_file_limit)
    for schema in settings.allowed_source_schemas:
        yield _source_schema(conn, schema)


def _source_schema(conn: Connection, schema: str) -> Check:
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
        remedy = "create it, correct VITRINA_ALLOWED_SOURCE_SCHEMAS, or load the demo's with: vitrina demo"
        return Check("warn", about, "does not exist", remedy)
    if not row["usable"] or row["closed"]:
        said = f"{row['closed']} of {row['tables']} tables" if row["usable"] else "the schema"
        return Check("fail", about, f"the reader may not read {said}", "vitrina roles, as their owner")
    return Check("ok", about, f"{row['tables']} tables, readable")


def _runner(conn: Connection, settings: Settings) -> Checks:
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


def _source(name: str, connections: Connections) -> Checks:
    try:
        with connections.resolve_reader(name) as reader:
            yield Check("ok", f"source {name}", "answers")
            if reader.abilities.speaks_sql:
                conn, limit = reader.catalogue.conn, connections.settings.temp_file_limit
                yield temporary_files(conn, f"source {name}", limit)
    except VitrinaError as error:
        yield Check("fail", f"source {name}", error.message, error.remedy or f"correct VITRINA_SOURCES__{name.upper()}")


# ── Elasticsearch ────────────────────────────────────────────────────────────────────────────────────────────


def _elasticsearch(settings: Settings) -> Checks:
    """Only pipelines to es: need it, so that none at all is well too."""
    found = bootstrap.running_search(settings)
    if found.elasticsearch_url:
        yield from _search_server(found)
        yield _indexes(found)
    elif embedded_elasticsearch(settings).exists():
        yield Check("warn", "Elasticsearch", "the embedded one is not running: pipelines to es: would fail", UP_SEARCH)
    else:
        yield Check("ok", "Elasticsearch", f"none, for no pipeline to es:; ELASTICSEARCH_URL names one, or {UP_SEARCH}")


def _search_server(settings: Settings) -> Checks:
    """Whether it answers, and how it is."""
    with closing(Elastic(settings)) as elastic:
        health, version = elastic.health().body["status"], elastic.version()
    said = f"version {version} at {find_server(settings).url}, health {health}"
    if health == "red":
        yield Check("fail", "Elasticsearch", said, "some index has lost a primary shard: GET _cluster/health/INDEX")
    elif version.split(".")[0] not in SEARCH_VERSIONS:
        yield Check("warn", "Elasticsearch", f"{said}: not one that Vitrina is tested with", "use Elasticsearch 8 or 9")
    else:
        yield Check("ok", "Elasticsearch", said)


def _indexes(settings: Settings) -> Check:
    allowed = ", ".join(settings.allowed_es_indexes)
    if allowed:
        return Check("ok", "indexes", f"allowed: {allowed}")
    remedy = "name them in VITRINA_ALLOWED_ES_INDEXES, e.g. film_*"
    return Check("warn", "indexes", "none is allowed: pipelines to es: are refused", remedy)


# ── the API and the runners ──────────────────────────────────────────────────────────────────────────────────


def _api(settings: Settings) -> Checks:
    url = find_url(settings.url, settings.home)
    try:
        is_alive(url)
    except ClientError as error:
        yield _silent(settings, url, error)
        return
    yield Check("ok", "API", f"answers at {url}")
    token = find_token(settings.token.get_secret_value() if settings.token else None, settings.home)
    if not token:
        yield Check("fail", "token", "there is none", "vitrina up, or set VITRINA_TOKEN")
        return
    with Client(url, token, retries=0) as client:
        try:
            runners = [runner for runner in client.runners() if runner.alive]
        except ClientError as error:
            yield Check("fail", "token", error.message, error.remedy)
            return
    yield Check("ok", "token", "good")
    yield from _runners([runner.version for runner in runners])
    yield from find_neighbours(runners)


def find_neighbours(runners: Sequence[Runner]) -> Checks:
    """Who does not answer the runners: their pipelines wait, and nobody else."""
    for runner in runners:
        for name, outage in runner.neighbours.items():
            who = "Elasticsearch" if name == ES_TARGET_PREFIX else f"source {name}"
            said = f"{runner.name} waits for {who} since {outage['since']}: {outage['error']}"
            yield Check("warn", "neighbours", said, "look at it; what waits goes on by itself once it answers")


def _silent(settings: Settings, url: str, error: ClientError) -> Check:
    if settings.url:
        return Check("fail", "API", error.message, "correct VITRINA_URL, or start it with: vitrina serve")
    if (settings.home / "api.pid").exists() and Background(settings.home, "api").pid is None:
        return Check("fail", "API", "it was started and has died", "see why in: vitrina logs; then: vitrina up")
    return Check("warn", "API", f"not running at {url}", UP)


def _runners(versions: list[str]) -> Checks:
    others = sorted({version for version in versions if version != __version__})
    if not versions:
        yield Check("fail", "runners", "none is alive: nothing will run", "vitrina up, or vitrina runner")
    elif others:
        said = f"{len(versions)} alive, of other versions too: {', '.join(others)} (this is {__version__})"
        yield Check("warn", "runners", said, "restart them: vitrina down, vitrina up")
    else:
        yield Check("ok", "runners", f"{len(versions)} alive, version {__version__}")
