"""All rights, those in a database's schemas above all: of the meta-store, the marts, and the sources in the warehouse.

In the order in which they can be given: what comes later is looked up when its turn comes.
"""

from collections.abc import Iterator
from typing import LiteralString

from psycopg import sql

from vitrina.meta.db import Connection
from vitrina.meta.rights import READER, RUNNER, SQL, WRITER, Needs, Right, exists
from vitrina.meta.server_rights import of_roles

# Who may touch which tables: the runner those of its run-time, the API those that people manage.
RUN_TIME = [
    "etl_state",
    "etl_leases",
    "etl_runs",
    "etl_run_attempts",
    "etl_run_events",
    "etl_runners",
    "etl_requests",
    "etl_captures",
    "etl_change_segments",
    "etl_indexes",
    "etl_incidents",
    "etl_alerts",
    "etl_deliveries",
    "etl_destinations",
    "etl_behind",
    "etl_dependencies",
    "etl_dependency_looks",
    "etl_mart_audits",
    "etl_waits",
    "etl_postponed",
    "etl_clock",
    "etl_reads",
    "etl_latency",
    "etl_checks",
    "etl_run_checks",
    "etl_readings",
]
SETTLED = [
    "etl_pipelines",
    "etl_pipeline_tasks",
    "etl_config_versions",
    "etl_freshness",
    "etl_followers",
    "etl_upstream",
    "etl_schema_history",
]
MANAGED = [
    "etl_pipelines",
    "etl_pipeline_tasks",
    "etl_requests",
    "etl_tokens",
    "etl_sessions",
    "etl_idempotency",
    "etl_reads",
]


def rights(conn: Connection, needs: Needs) -> Iterator[Right]:
    """All of them."""
    yield from _schemas(conn, needs)
    yield from of_roles(conn)
    yield from _of_meta_store()
    for schema in needs.marts:
        yield from _of_marts(conn, schema)
    for schema in needs.sources:
        yield from of_source(conn, schema)


def _schemas(conn: Connection, needs: Needs) -> Iterator[Right]:
    for schema in needs.marts:
        there = sql.SQL("to_regnamespace(quote_ident({})) IS NOT NULL").format(sql.Literal(schema))
        text = sql.SQL("CREATE SCHEMA {} AUTHORIZATION {}").format(
            sql.Identifier(schema), sql.Identifier(conn.info.user)
        )
        who = f"who may create schemas in database {conn.info.dbname}"
        yield Right(f"schema {schema}", text, there, "there is no place for its marts", who, essential=True)


def _of_meta_store() -> Iterator[Right]:
    names = {"run_time": RUN_TIME, "settled": SETTLED, "managed": MANAGED}
    tables = {name: sql.SQL(", ").join(sql.Identifier("etl", each) for each in found) for name, found in names.items()}
    who = "the owner of schema etl"
    yield Right("the meta-store", sql.SQL(SQL["grant_meta"]).format(**tables), None, who=who, essential=True)
    reads = sql.SQL(SQL["reads_as_reader"])
    yield Right("etl.read_as_reader", sql.SQL(SQL["give_reading"]), reads,
                "the runner cannot read as the reader inside of a statement that writes",
                f"who may act as {READER}", essential=True)  # fmt: skip
    for schema in ("etl_stage", "etl_shadow"):
        yield _future(RUNNER, schema, "SELECT", READER, "scratch tables cannot be read, and nothing runs", True)
    yield Right("code of marts", sql.SQL(SQL["grant_sealing"]), None,
                "code of trusted owners runs with the runner's rights", who)  # fmt: skip


def _of_marts(conn: Connection, schema: str) -> Iterator[Right]:
    name, writes = sql.Identifier(schema), "SELECT, INSERT, UPDATE, DELETE"
    owner = _owner_of(conn, schema)
    for role, what in ((RUNNER, "USAGE, CREATE"), (READER, "USAGE"), (WRITER, "USAGE")):
        essential = role != WRITER
        yield _on_schema(schema, what, role, "no mart can be kept in it", owner, essential)
    yield from _on_tables(conn, schema, writes, RUNNER, "these marts cannot be written")
    yield from _on_tables(conn, schema, "SELECT", READER, "these marts cannot be compared")
    own = sql.SQL(SQL["future_marts"]).format(schema=name)
    yield Right(f"marts to come in {schema}", own, None, "marts that the owner makes must be granted", owner)
    yield _future(RUNNER, schema, "SELECT", READER, "marts that the runner makes cannot be compared", True)
    for row in conn.execute(SQL["of_others"], {"schemas": [schema]}).fetchall():
        yield _on_table(row["schema"], row["table"], writes, WRITER, row["owner"])


def of_source(conn: Connection, schema: str) -> Iterator[Right]:
    """Of a schema that pipelines may read in the warehouse; none if it does not exist."""
    owner = _owner_of(conn, schema)
    if not owner:
        return
    yield _on_schema(schema, "USAGE", READER, "its tables cannot be read", owner)
    for role in (RUNNER, WRITER):
        yield _on_schema(schema, "USAGE", role, "marts cannot have columns of its types", owner)
    yield from _on_tables(conn, schema, "SELECT", READER, "these tables cannot be read")
    own = sql.SQL("ALTER DEFAULT PRIVILEGES IN SCHEMA {} GRANT SELECT ON TABLES TO vitrina_reader")
    yield Right(f"tables to come in {schema}", own.format(sql.Identifier(schema)), None, "they must be granted", owner)
    for row in conn.execute(SQL["owners"], {"schema": schema}).fetchall():
        yield _future(row["owner"], schema, "SELECT", READER, f"tables that {row['owner']} makes must be granted")


def _owner_of(conn: Connection, schema: str) -> str:
    row = conn.execute(SQL["owner_of"], {"schema": schema}).fetchone()
    return str(row["owner"]) if row else ""


def _on_schema(schema: str, what: LiteralString, role: str, without: str, owner: str, essential: bool = False) -> Right:
    text = sql.SQL("GRANT {} ON SCHEMA {} TO {}").format(sql.SQL(what), sql.Identifier(schema), sql.Identifier(role))
    all_of = sql.SQL(" AND ").join(
        sql.SQL("has_schema_privilege({}, {}, {})").format(sql.Literal(role), sql.Literal(schema), sql.Literal(each))
        for each in what.split(", ")
    )
    there = sql.SQL("CASE WHEN {} THEN {} END").format(exists(role), all_of)
    return Right(f"{role} in schema {schema}", text, there, without, owner, essential)


def _on_tables(conn: Connection, schema: str, what: LiteralString, role: str, without: str) -> Iterator[Right]:
    """Owner by owner: who may grant on some tables may not on all."""
    params = {"schema": schema, "role": role, "privileges": what.split(", ")}
    for row in conn.execute(SQL["closed"], params).fetchall():
        tables = sql.SQL(", ").join(sql.Identifier(schema, table) for table in row["tables"])
        text = sql.SQL("GRANT {} ON {} TO {}").format(sql.SQL(what), tables, sql.Identifier(role))
        there = sql.SQL("NOT EXISTS (SELECT FROM ({}) AS closed WHERE owner = {})").format(
            sql.SQL(SQL["closed_now"]).format(**{name: sql.Literal(value) for name, value in params.items()}),
            sql.Literal(row["owner"]),
        )
        yield Right(f"{role} and tables of {schema}", text, there, without, row["owner"])


def _on_table(schema: str, table: str, what: LiteralString, role: str, owner: str) -> Right:
    text = sql.SQL("GRANT {} ON {} TO {}").format(sql.SQL(what), sql.Identifier(schema, table), sql.Identifier(role))
    all_of = sql.SQL(" AND ").join(
        sql.SQL("has_table_privilege({}, {}::regclass, {})").format(
            sql.Literal(role), sql.Literal(sql.Identifier(schema, table).as_string(None)), sql.Literal(each)
        )
        for each in what.split(", ")
    )
    there = sql.SQL("CASE WHEN {} THEN {} END").format(exists(role), all_of)
    return Right(f"{role} and {schema}.{table}", text, there, "it cannot be written if its code is trusted", owner)


def _future(maker: str, schema: str, what: LiteralString, role: str, without: str, essential: bool = False) -> Right:
    """Of what somebody makes there later on."""
    text = sql.SQL("ALTER DEFAULT PRIVILEGES FOR ROLE {} IN SCHEMA {} GRANT {} ON TABLES TO {}").format(
        sql.Identifier(maker), sql.Identifier(schema), sql.SQL(what), sql.Identifier(role)
    )
    there = sql.SQL(SQL["future"]).format(
        maker=sql.Literal(maker), schema=sql.Literal(schema), what=sql.Literal(what), role=sql.Literal(role)
    )
    return Right(f"tables to come of {maker} in {schema}", text, there, without, maker, essential)
