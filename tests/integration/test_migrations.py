"""The meta-store from nothing, again, and by many at once; and exactly the rights that each role needs."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support import QUICK, Lab
from vitrina.bootstrap import Warehouse, set_up
from vitrina.domain.errors import ConfigError, DatabaseLost
from vitrina.meta import migrate
from vitrina.meta.compatibility import require
from vitrina.meta.db import connect
from vitrina.meta.roles import ALL, ensure_roles
from vitrina.settings import Settings

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'etl' ORDER BY 1"


def build(conninfo: str) -> bool:
    return set_up(Warehouse(conninfo, conninfo, None), Settings(**QUICK)).separated


def names(conninfo: str, query: str) -> list[str]:
    with psycopg.connect(conninfo) as conn:
        return [name for (name,) in conn.execute(query.encode())]


def test_an_empty_database_gets_the_whole_meta_store(empty_db: str, lab: Lab) -> None:
    with pytest.raises(ConfigError, match="is not there"):
        require(empty_db)
    assert build(empty_db)
    require(empty_db)
    assert names(empty_db, TABLES) == names(lab.conninfo, TABLES)


def test_migrating_again_changes_nothing(lab: Lab) -> None:
    lab.add(source_query="SELECT 1 AS id", key=["id"])
    before = lab.sql("SELECT * FROM etl.etl_pipelines")
    assert build(lab.conninfo)
    assert lab.sql("SELECT * FROM etl.etl_pipelines") == before


@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_four_may_migrate_at_once(empty_db: str, isolation: str) -> None:
    with psycopg.connect(empty_db, autocommit=True) as conn:
        named = sql.Identifier(conn.info.dbname)
        setting = sql.SQL("ALTER DATABASE {} SET default_transaction_isolation = {}")
        conn.execute(setting.format(named, sql.Literal(isolation)))
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(build, [empty_db] * 4))
    require(empty_db)
    assert names(empty_db, "SELECT count(*)::text FROM etl.alembic_version") == ["1"]


def test_a_server_that_is_not_there_is_said_plainly() -> None:
    for ask in (migrate.upgrade, require):
        with pytest.raises(DatabaseLost, match="cannot connect to Postgres"):
            ask("postgresql://nobody@127.0.0.1:1/nothing")


@pytest.mark.parametrize(
    "conninfo", ["postgresql//u:planted@h/db", "host=h password=planted nonsense", "postgresql://u:planted@h:x/db"]
)
def test_a_connection_string_that_cannot_be_read_is_not_shown(conninfo: str) -> None:
    for ask in (migrate.upgrade, require, lambda text: connect(text, "test")):
        with pytest.raises((ConfigError, DatabaseLost)) as caught:
            ask(conninfo)
        assert "planted" not in str(caught.value)


# ── rights ───────────────────────────────────────────────────────────────────────────────────────────────────

READ, WRITE = ("SELECT",), ("SELECT", "INSERT", "UPDATE", "DELETE")
RUN_TIME = ("etl_state", "etl_leases", "etl_runs", "etl_run_events", "etl_runners", "etl_requests", "etl_indexes")
SETTLED = ("etl_pipelines", "etl_pipeline_tasks", "etl_config_versions", "etl_schema_history", "alembic_version")
CAPTURED = ("etl_captures", "etl_change_segments")
ALERTED = (
    *("etl_incidents", "etl_alerts", "etl_deliveries", "etl_destinations", "etl_behind"),
    *("etl_mart_audits", "etl_waits"),
)
WATCHED = ("etl_dependencies", "etl_dependency_looks", "etl_clock", "etl_run_attempts", "etl_postponed", "etl_latency")
CHECKED = ("etl_checks", "etl_run_checks", "etl_readings")
RIGHTS: dict[tuple[str, str], tuple[str, ...]] = {
    **{("vitrina_runner", table): WRITE for table in (*RUN_TIME, *CAPTURED, *ALERTED, *WATCHED, *CHECKED)},
    **{("vitrina_runner", table): READ for table in SETTLED},
    **{("vitrina_api", table): READ for table in (*RUN_TIME, *CAPTURED, *ALERTED, *WATCHED, *CHECKED, *SETTLED)},
    **{
        ("vitrina_api", table): WRITE for table in ("etl_pipelines", "etl_pipeline_tasks", "etl_requests", "etl_tokens")
    },
    ("vitrina_runner", "etl_reads"): WRITE,  # whoever saves a pipeline or runs it says what it reads
    ("vitrina_api", "etl_reads"): WRITE,
    ("vitrina_api", "etl_idempotency"): WRITE,
    ("vitrina_api", "etl_sessions"): WRITE,
    ("vitrina_api", "etl_audit"): ("SELECT", "INSERT"),
}
PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")


def test_each_role_has_exactly_its_rights_on_each_table_of_the_meta_store(lab: Lab) -> None:
    tables = names(lab.conninfo, TABLES)
    found = {
        (role, table): tuple(
            p for p in PRIVILEGES if lab.value("SELECT has_table_privilege(%s, %s, %s)", role, f"etl.{table}", p)
        )
        for role, table in product(ALL, tables)
    }
    assert {pair: rights for pair, rights in found.items() if rights} == RIGHTS


def test_the_runner_moves_pipelines_and_edits_none(lab: Lab) -> None:
    columns = lab.sql(
        "SELECT column_name FROM information_schema.column_privileges"
        " WHERE grantee = 'vitrina_runner' AND table_name = 'etl_pipelines' AND privilege_type = 'UPDATE' ORDER BY 1"
    )
    assert [name for (name,) in columns] == ["due_at", "last_due_at", "run_options", "status"]


@pytest.mark.parametrize("schema", ["content", "ugc", "auth"])
def test_no_role_writes_to_a_source(lab: Lab, schema: str) -> None:
    tables = lab.sql("SELECT format('%%I.%%I', schemaname, tablename) FROM pg_tables WHERE schemaname = %s", schema)
    assert tables
    for role, (table,) in product(ALL, tables):
        may = {p for p in PRIVILEGES if lab.value("SELECT has_table_privilege(%s, %s, %s)", role, table, p)}
        reads = role == "vitrina_reader" and schema != "auth"
        assert may == ({"SELECT"} if reads else set()), (role, table)
        assert not lab.value("SELECT has_schema_privilege(%s, %s, 'CREATE')", role, schema)


def test_the_reader_writes_nowhere(lab: Lab) -> None:
    for (table,) in lab.sql(
        "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables"
        " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
    ):
        for privilege in ("INSERT", "UPDATE", "DELETE", "TRUNCATE"):
            assert not lab.value("SELECT has_table_privilege('vitrina_reader', %s, %s)", table, privilege), table
    for schema in ("etl", "etl_stage", "analytics", "content", "ugc", "public"):
        assert not lab.value("SELECT has_schema_privilege('vitrina_reader', %s, 'CREATE')", schema), schema
    assert lab.value("SELECT pg_has_role('vitrina_reader', 'pg_read_all_stats', 'USAGE')")


@pytest.mark.parametrize("role", ALL)
def test_no_role_is_more_than_it_must_be(lab: Lab, role: str) -> None:
    attributes = "rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication"
    (found,) = lab.sql(f"SELECT {attributes} FROM pg_roles WHERE rolname = %s", role)
    assert found == (False, False, False, False, role == "vitrina_capture")


def test_only_the_runner_calls_the_reader_function_and_it_runs_as_the_reader(lab: Lab) -> None:
    function = "etl.read_as_reader(text, text[])"
    callers = [r for r in ALL if lab.value("SELECT has_function_privilege(%s, %s, 'EXECUTE')", r, function)]
    assert callers == ["vitrina_reader", "vitrina_runner"]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        lab.sql(
            "SET ROLE vitrina_runner; SELECT * FROM etl.read_as_reader('SELECT 1 FROM auth.users', '{}') AS r (x int)"
        )
    lab.sql("RESET ROLE")


def test_a_role_that_cannot_create_roles_is_told_so_and_works_alone(empty_db: str) -> None:
    """Its report says degraded. The roles are of the cluster, so they are there; granting is what it may not."""
    name = str(conninfo_to_dict(empty_db)["dbname"])
    with psycopg.connect(empty_db, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE ROLE plain_{} LOGIN").format(sql.SQL(name)))
        conn.execute(sql.SQL("ALTER DATABASE {} OWNER TO plain_{}").format(sql.Identifier(name), sql.SQL(name)))
        conn.execute(sql.SQL("CREATE SCHEMA content AUTHORIZATION plain_{}").format(sql.SQL(name)))
    plain = make_conninfo(empty_db, user=f"plain_{name}")
    try:
        migrate.upgrade(plain)
        with connect(plain, "test") as db:
            report = ensure_roles(db, ["content"], ["analytics"])
        assert not report.separated
        assert any("etl.read_as_reader" in str(lack) for lack in report.lacks if lack.essential)
    finally:
        with psycopg.connect(empty_db, autocommit=True) as conn:
            conn.execute(sql.SQL("REASSIGN OWNED BY plain_{} TO postgres").format(sql.SQL(name)))
            conn.execute(sql.SQL("DROP OWNED BY plain_{}").format(sql.SQL(name)))
            conn.execute(sql.SQL("DROP ROLE plain_{}").format(sql.SQL(name)))
