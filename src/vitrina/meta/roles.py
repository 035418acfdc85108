"""The roles and exactly the rights they need. Idempotent; where roles cannot be created, that is said."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import psycopg
from psycopg import errors, sql

from vitrina.meta.db import SEARCH_PATH, Connection, queries, translated
from vitrina.meta.repos.marks import TURN, Mark

READER, RUNNER, API, CAPTURE = "vitrina_reader", "vitrina_runner", "vitrina_api", "vitrina_capture"
ALL = (READER, RUNNER, API, CAPTURE)  # who sign in
WRITER = "vitrina_writer"  # as whom code of somebody's own on a mart runs; nobody signs in as it
RACES = (errors.UniqueViolation, errors.InternalError)  # another database's Vitrina grants the same at this moment

SQL = queries("roles")

# Who may touch which tables: the runner those of its run-time, the API those that people manage.
RUN_TIME = [
    "etl_state",
    "etl_leases",
    "etl_runs",
    "etl_run_events",
    "etl_runners",
    "etl_requests",
    "etl_captures",
    "etl_change_segments",
    "etl_indexes",
    "etl_incidents",
    "etl_alerts",
    "etl_behind",
    "etl_dependencies",
    "etl_dependency_looks",
    "etl_mart_audits",
    "etl_waits",
    "etl_clock",
]
SETTLED = [
    "etl_pipelines",
    "etl_pipeline_tasks",
    "etl_config_versions",
    "etl_freshness",
    "etl_followers",
    "etl_schema_history",
]
MANAGED = ["etl_pipelines", "etl_pipeline_tasks", "etl_requests", "etl_tokens", "etl_sessions", "etl_idempotency"]


@dataclass(frozen=True)
class RoleReport:
    """What `ensure_roles` reached."""

    separated: bool
    notes: Sequence[str]


def ensure_roles(conn: Connection, source_schemas: Sequence[str], mart_schemas: Sequence[str]) -> RoleReport:
    """Create the roles where we may, and grant what the settings name."""
    with translated(), conn.transaction():
        _take_turn(conn)
        for schema in mart_schemas:
            conn.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
    try:
        with conn.transaction():
            _take_turn(conn)
            _create(conn)
            _grant_meta(conn)
            _grant_marts(conn, mart_schemas)
            notes = _grant_writer(conn, mart_schemas) + _grant_sources(conn, source_schemas)
    except errors.InsufficientPrivilege as error:
        return RoleReport(False, [f"one role does everything: {error.diag.message_primary}"])
    return RoleReport(True, notes)


def _take_turn(conn: Connection) -> None:
    """One process at a time, until the end of the transaction."""
    Mark(conn, "vitrina roles", TURN).leave()


def set_password(conn: Connection, role: str, password: str) -> None:
    """Let a role sign in by password; hashed here, so that no log of the server can show it."""
    hashed = conn.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    with translated():
        conn.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(hashed)))


def _create(conn: Connection) -> None:
    for role in (*ALL, WRITER):
        # Roles belong to the cluster: another database's Vitrina may create them at the same moment.
        with suppress(errors.DuplicateObject, errors.UniqueViolation), conn.transaction():
            if not conn.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                attributes = sql.SQL({CAPTURE: "LOGIN REPLICATION", WRITER: "NOLOGIN"}.get(role, "LOGIN"))
                conn.execute(sql.SQL("CREATE ROLE {} {}").format(sql.Identifier(role), attributes))
    sees = conn.execute("SELECT 1 WHERE pg_has_role('vitrina_reader', 'pg_read_all_stats', 'USAGE')").fetchone()
    if not sees:
        conn.execute("GRANT pg_read_all_stats TO vitrina_reader")
    for row in conn.execute(SQL["without_writer"], {"roles": [RUNNER]}).fetchall():
        with suppress(*RACES), conn.transaction():
            conn.execute(sql.SQL("GRANT vitrina_writer TO {}").format(sql.Identifier(row["name"])))
    _pin_paths(conn)
    _grant_setting(conn, "log_min_messages", READER)  # the SQL guard has the server print trees; they are not logged
    for role in (READER, RUNNER):
        _grant_setting(conn, "temp_file_limit", role)  # what a query may fill of the server's disk


def _pin_paths(conn: Connection) -> None:
    """For sessions behind a pooler, which can say nothing of themselves when they begin."""
    pinned = f"search_path={SEARCH_PATH}"
    loose = "SELECT rolname FROM pg_roles WHERE rolname = ANY (%s) AND NOT coalesce(rolconfig, '{}') @> ARRAY[%s]"
    for row in conn.execute(loose, [list(ALL), pinned]).fetchall():
        text = "ALTER ROLE {} SET search_path = pg_catalog, pg_temp"
        with suppress(*RACES), conn.transaction():
            conn.execute(sql.SQL(text).format(sql.Identifier(row["rolname"])))


def _grant_setting(conn: Connection, name: str, role: str) -> None:
    """Only superusers may; the doctor says where it could not be."""
    if not conn.execute("SELECT 1 WHERE has_parameter_privilege(%s, %s, 'SET')", [role, name]).fetchone():
        text = sql.SQL("GRANT SET ON PARAMETER {} TO {}").format(sql.Identifier(name), sql.Identifier(role))
        with suppress(errors.InsufficientPrivilege, *RACES), conn.transaction():
            conn.execute(text)


def _grant_meta(conn: Connection) -> None:
    run_time, settled, managed = (_tables(names) for names in (RUN_TIME, SETTLED, MANAGED))
    conn.execute(
        sql.SQL(
            """
            GRANT USAGE ON SCHEMA etl TO vitrina_runner, vitrina_api, vitrina_reader;
            GRANT SELECT ON {settled}, etl.alembic_version TO vitrina_runner, vitrina_api;
            GRANT UPDATE (status, run_options, due_at, last_due_at) ON etl.etl_pipelines TO vitrina_runner;
            GRANT SELECT, INSERT, UPDATE, DELETE ON {run_time} TO vitrina_runner;
            GRANT SELECT, INSERT, UPDATE, DELETE ON {managed} TO vitrina_api;
            GRANT SELECT ON {run_time} TO vitrina_api;
            GRANT SELECT, INSERT ON etl.etl_audit TO vitrina_api;
            GRANT USAGE, CREATE ON SCHEMA etl_stage, etl_shadow, etl_log TO vitrina_runner;
            GRANT USAGE ON SCHEMA etl_stage, etl_shadow TO vitrina_reader;
            ALTER DEFAULT PRIVILEGES FOR ROLE vitrina_runner IN SCHEMA etl_stage, etl_shadow
                GRANT SELECT ON TABLES TO vitrina_reader;
            GRANT CREATE ON SCHEMA etl TO vitrina_reader;
            ALTER FUNCTION etl.read_as_reader(text, text[]) OWNER TO vitrina_reader;
            REVOKE CREATE ON SCHEMA etl FROM vitrina_reader;
            GRANT EXECUTE ON FUNCTION etl.read_as_reader(text, text[]) TO vitrina_runner;
            GRANT EXECUTE ON FUNCTION etl.forget_managed(double precision, double precision, integer) TO vitrina_runner;
            """
        ).format(run_time=run_time, settled=settled, managed=managed)
    )


def _grant_marts(conn: Connection, schemas: Sequence[str]) -> None:
    for schema in schemas:
        conn.execute(
            sql.SQL(
                """
                GRANT USAGE, CREATE ON SCHEMA {schema} TO vitrina_runner;
                GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO vitrina_runner;
                GRANT USAGE ON SCHEMA {schema} TO vitrina_reader;
                GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO vitrina_reader;
                ALTER DEFAULT PRIVILEGES IN SCHEMA {schema}
                    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO vitrina_runner;
                ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO vitrina_reader;
                ALTER DEFAULT PRIVILEGES FOR ROLE vitrina_runner IN SCHEMA {schema}
                    GRANT SELECT ON TABLES TO vitrina_reader;
                """
            ).format(schema=sql.Identifier(schema))
        )


def _grant_writer(conn: Connection, schemas: Sequence[str]) -> list[str]:
    """On marts that exist and bring code of others along. Those of the runner's own it lends, for a step at a time."""
    conn.execute(
        """
        GRANT USAGE, CREATE ON SCHEMA etl_sealed TO vitrina_runner, vitrina_writer;
        GRANT USAGE ON SCHEMA etl_stage TO vitrina_writer;
        GRANT EXECUTE ON FUNCTION etl.ask_sealed(text, text[], text, text), etl.marks_held() TO vitrina_runner;
        GRANT EXECUTE ON FUNCTION etl.answer_sealed(text) TO vitrina_runner, vitrina_writer;
        """
    )
    for schema in schemas:
        conn.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO vitrina_writer").format(sql.Identifier(schema)))
    notes = []
    for row in conn.execute(SQL["of_others"], {"schemas": list(schemas)}).fetchall():
        grant = sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO vitrina_writer").format(
            sql.Identifier(row["schema"], row["table"])
        )
        try:
            with conn.transaction():
                conn.execute(grant)
        except errors.InsufficientPrivilege:
            notes.append(f"{row['owner']} has to do: {grant.as_string(conn)}")
    return notes


def _grant_sources(conn: Connection, schemas: Sequence[str]) -> list[str]:
    notes = []
    for schema in schemas:
        try:
            with conn.transaction():
                conn.execute(
                    sql.SQL(
                        """
                        GRANT USAGE ON SCHEMA {schema} TO vitrina_reader;
                        GRANT USAGE ON SCHEMA {schema} TO vitrina_runner, vitrina_writer;  -- for types
                        GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO vitrina_reader;
                        ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO vitrina_reader;
                        """
                    ).format(schema=sql.Identifier(schema))
                )
        except psycopg.errors.InvalidSchemaName:
            notes.append(f"schema {schema} (VITRINA_ALLOWED_SOURCE_SCHEMAS) does not exist yet")
    return notes


def _tables(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier("etl", name) for name in names)
