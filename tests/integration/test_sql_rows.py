"""Pipelines inserted with plain SQL are as good as any; what is wrong with them is said in etl_runs."""

from typing import Any

import psycopg
import pytest

from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.runner.main import Runner

FILMS = "SELECT id, title FROM content.film_work"


def insert(lab: Lab, **values: Any) -> Any:
    """A row of etl_pipelines, asked to run; its id."""
    row = {"name": "by hand", "source_query": FILMS, "target_table": "analytics.mart", "key": ["id"]} | values
    row |= {"status": "RUN_REQUESTED"}
    names, places = ", ".join(row), ", ".join(["%s"] * len(row))
    return lab.value(f"INSERT INTO etl.etl_pipelines ({names}) VALUES ({places}) RETURNING id", *row.values())


def run(lab: Lab, pipeline_id: Any) -> tuple[str, str | None]:
    Runner(lab.connections).run_once(pipeline_id)
    said = "SELECT status, nullif(concat_ws(' — ', error, remedy), '') FROM etl.etl_runs"
    found = lab.sql(f"{said} WHERE pipeline_id = %s ORDER BY id DESC", pipeline_id)
    status, error = found[0]
    return status, error


def refused(lab: Lab, **values: Any) -> str:
    pipeline_id = insert(lab, **values)
    status, error = run(lab, pipeline_id)
    assert status == "FAILED"
    assert lab.value("SELECT status FROM etl.etl_pipelines WHERE id = %s", pipeline_id) == "FAILED"
    assert lab.value("SELECT to_regclass('analytics.mart')") is None
    return str(error)


def test_a_row_runs(lab: Lab) -> None:
    assert run(lab, insert(lab)) == ("SUCCESS", None)
    assert lab.value("SELECT count(*) FROM analytics.mart") == 60


def test_a_row_with_tasks_runs(lab: Lab) -> None:
    with lab.db.transaction():
        pipeline_id = insert(lab, source_query=None)
        lab.sql(
            "INSERT INTO etl.etl_pipeline_tasks (pipeline_id, order_index, task_type, body, target_table) VALUES"
            " (%s, 20, 'PYTHON', 'normalise_title', 'analytics.tidy'), (%s, 10, 'SQL', %s, NULL)",
            *(pipeline_id, pipeline_id, FILMS),
        )
    assert run(lab, pipeline_id) == ("SUCCESS", None)
    assert lab.value("SELECT count(*) FROM analytics.tidy") == 60


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no SQL": ({"source_query": "SELEC 1"}, 'the query does not parse: syntax error at or near "SELEC", line 1'),
    "no such table": (
        {"source_query": "SELECT 1 AS id FROM content.nowhere"},
        'relation "content.nowhere" does not exist',
    ),
    "no such column": ({"source_query": "SELECT nope AS id FROM content.film_work"}, 'column "nope" does not exist'),
    "forbidden schema": ({"source_query": "SELECT id FROM etl.etl_tokens"}, "schema etl is not allowed"),
    "the catalog": ({"source_query": "SELECT oid AS id FROM pg_catalog.pg_authid"}, "schema pg_catalog is not allowed"),
    "no schema": ({"source_query": "SELECT id FROM film_work"}, "write schema.film_work"),
    "DML in a CTE": (
        {"source_query": "WITH d AS (DELETE FROM content.genre RETURNING id) SELECT id FROM d"},
        "DELETE inside a SELECT",
    ),
    "no SELECT": ({"source_query": "DROP TABLE content.genre"}, "the query must be a SELECT"),
    "two statements": ({"source_query": "SELECT 1 AS id; SELECT 2 AS id"}, "one SELECT, not 2 statements"),
    "a lock": ({"source_query": FILMS + " FOR UPDATE"}, "FOR UPDATE / SHARE"),
    "a parameter": ({"source_query": "SELECT $1::int AS id"}, "the parameter $1"),
    "no query": ({"source_query": None}, "needs either source_query or source_table"),
    "no key": ({"key": []}, "the pipeline names no key — set key"),
    "an odd key": ({"key": ["nope"]}, "key column nope is not in the query — the query gives id, title"),
    "unknown transform": ({"type": "PYTHON", "python_task": "nowhere"}, "there is no transform 'nowhere'"),
    "no transform": ({"type": "PYTHON"}, "type PYTHON and python_task go together"),
    "bad target": ({"target_table": "public.mart"}, "VITRINA_ALLOWED_TARGET_TABLES allows analytics.*"),
    "no target": ({"target_table": None}, "names no target_table"),
    "injected target": ({"target_table": 'analytics.x"; DROP TABLE y'}, "is not allowed"),
    "bad schedule": ({"schedule_interval": "now and then"}, "schedule_interval"),
    "no cursor": ({"mode": "incremental"}, "incremental needs incremental_key and incremental_id_key"),
    "an odd cursor": ({"mode": "incremental", "incremental_key": "nope"}, "cursor column nope is not in the query"),
    "unknown source": ({"source": "elsewhere"}, "there is no source 'elsewhere' (known: warehouse)"),
    "a column twice": ({"source_query": "SELECT id, id FROM content.film_work"}, "gives column 'id' twice"),
    "no column name": (
        {"source_query": "SELECT id, 1 + 1 FROM content.film_work"},
        "a column of the query has no name",
    ),
    "no columns": ({"source_query": "SELECT FROM content.film_work"}, "gives no columns"),
    "a record": ({"source_query": "SELECT id, ROW(1, 2) AS pair FROM content.film_work"}, "pseudo-type record"),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_what_is_wrong_is_said(lab: Lab, what: str) -> None:
    values, expected = WRONG[what]
    assert expected in refused(lab, **values)


def test_a_query_that_fails_on_its_rows_says_how(lab: Lab) -> None:
    pipeline_id = insert(lab, source_query="SELECT id, 1 / (id IS NULL)::int AS x FROM content.film_work")
    assert run(lab, pipeline_id) == ("FAILED", "division by zero")
    assert lab.value("SELECT count(*) FROM analytics.mart") == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "SPARK"},
        {"mode": "sometimes"},
        {"source_type": "oracle"},
        {"on_drift": "ignore"},
        {"publish": "never"},
        {"batch_size": 0},
        {"batch_size": 1_000_001},
        {"name": ""},
    ],
)
def test_values_outside_their_range_are_refused_at_once(lab: Lab, wrong: dict[str, Any]) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        insert(lab, **wrong)


@pytest.mark.parametrize("status", ["RUNNING", "FAILED", "PAUSE_REQUESTED", "nonsense"])
def test_a_new_row_is_idle_requested_or_paused(lab: Lab, status: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        lab.sql("INSERT INTO etl.etl_pipelines (name, status) VALUES ('x', %s)", status)


@pytest.mark.parametrize("task", ["(1, 'SPARK', 'x')", "(1, 'SQL', '  ')", "(1, 'sql', 'x')"])
def test_a_task_outside_its_range_is_refused_at_once(lab: Lab, task: str) -> None:
    pipeline_id = insert(lab)
    with pytest.raises(psycopg.errors.CheckViolation):
        lab.sql(
            "INSERT INTO etl.etl_pipeline_tasks (pipeline_id, order_index, task_type, body)"
            f" SELECT %s, a, b, c FROM (VALUES {task}) AS t (a, b, c)",
            pipeline_id,
        )


def test_two_tasks_of_one_order_are_refused_at_once(lab: Lab) -> None:
    pipeline_id = insert(lab)
    text = "INSERT INTO etl.etl_pipeline_tasks (pipeline_id, order_index, task_type, body) VALUES (%s, 1, 'SQL', 'x')"
    lab.sql(text, pipeline_id)
    with pytest.raises(psycopg.errors.UniqueViolation):
        lab.sql(text, pipeline_id)


# ── as whom the SELECT runs ──────────────────────────────────────────────────────────────────────────────────────

INCREMENTAL = {"mode": "incremental", "incremental_key": "at"}
PATHS = pytest.mark.parametrize("path", [{}, {"publish": "atomic"}, INCREMENTAL], ids=["full", "atomic", "incremental"])


@PATHS
def test_a_select_runs_as_the_reader(lab: Lab, path: dict[str, Any]) -> None:
    lab.sql("CREATE TABLE content.one AS SELECT n AS id, n AS at FROM generate_series(1, 3) n")
    select = "SELECT id, at, current_user::text AS me FROM content.one"
    pipeline_id = insert(lab, source_query=select, **path)
    assert run(lab, pipeline_id) == ("SUCCESS", None)
    lab.sql("UPDATE content.one SET at = 10 WHERE id = 1; UPDATE etl.etl_pipelines SET status = 'RUN_REQUESTED'")
    assert run(lab, pipeline_id) == ("SUCCESS", None)
    assert lab.sql("SELECT DISTINCT me FROM analytics.mart") == [("vitrina_reader",)]


@pytest.mark.scenario(62)
@PATHS
@pytest.mark.parametrize(
    "act",
    [
        "INSERT INTO content.log VALUES (1)",
        "UPDATE etl.etl_pipelines SET description = 'owned'",
        "CREATE TEMP TABLE mine ()",
        "PERFORM nextval('content.counted')",
        "PERFORM lo_from_bytea(0, 'x')",
        "RESET ROLE; INSERT INTO content.log VALUES (1)",
        "SET LOCAL ROLE vitrina_runner; INSERT INTO content.log VALUES (1)",
    ],
)
def test_a_function_inside_a_view_cannot_write_on_any_path(lab: Lab, path: dict[str, Any], act: str) -> None:
    if "lo_" in act and lab.db.info.server_version < 160_000:
        pytest.skip("before version 16, a transaction that is READ ONLY can make large objects")
    lab.configure(allowed_functions=["content.mark"])
    lab.sql("CREATE TABLE content.log (x int); GRANT INSERT ON content.log TO vitrina_runner, vitrina_reader")
    lab.sql("CREATE SEQUENCE content.counted; GRANT ALL ON SEQUENCE content.counted TO PUBLIC")
    lab.sql(f"CREATE FUNCTION content.mark() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN {act}; RETURN 1; END $f$")
    lab.sql("CREATE VIEW content.seen AS SELECT n AS id, n AS at, content.mark() AS mark FROM generate_series(1, 3) n")
    status, error = run(lab, insert(lab, source_query="SELECT * FROM content.seen", **path))
    assert (status, bool(error)) == ("FAILED", True)
    assert lab.value("SELECT count(*) FROM content.log") == 0
    assert lab.value("SELECT description FROM etl.etl_pipelines") == ""
    assert lab.value("SELECT is_called FROM content.counted") is False
    assert lab.value("SELECT count(*) FROM pg_largeobject_metadata") == 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT secret FROM auth.vault",
        "SELECT config::text FROM etl.etl_config_versions",
        "SELECT name FROM etl.etl_tokens",
    ],
)
def test_what_the_reader_may_not_read_stays_hidden_without_the_parser(lab: Lab, query: str) -> None:
    lab.sql("CREATE TABLE auth.vault AS SELECT 'xyzzy' AS secret")
    with (
        psycopg.connect(lab.connections.warehouse) as conn,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        conn.execute("SELECT * FROM etl.read_as_reader(%s, '{}') AS t (x text)", [query])


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM content.genre RETURNING name",
        "WITH d AS (DELETE FROM content.genre RETURNING name) SELECT name FROM d",
        "INSERT INTO etl.etl_audit (actor, action) VALUES ('x', 'x') RETURNING actor",
        "CREATE TABLE analytics.mine (x int)",
        "SELECT nextval('etl.etl_runs_id_seq')::text",
    ],
)
def test_the_reader_function_only_reads(lab: Lab, query: str) -> None:
    with psycopg.connect(lab.connections.warehouse) as conn, pytest.raises(psycopg.Error):
        conn.execute("SELECT * FROM etl.read_as_reader(%s, '{}') AS t (x text)", [query])
    assert lab.value("SELECT count(*) FROM content.genre") > 0


def test_only_the_runner_may_call_the_reader_function(lab: Lab) -> None:
    with psycopg.connect(lab.connections.reader) as conn:
        granted = conn.execute(
            "SELECT has_function_privilege('vitrina_api', 'etl.read_as_reader(text,text[])', 'EXECUTE')"
        )
        assert granted.fetchone() == (False,)


def test_a_row_reads_back_as_it_was_written(lab: Lab) -> None:
    pipeline_id = insert(lab)
    config = lab.value("SELECT config FROM etl.etl_config_versions WHERE pipeline_id = %s", pipeline_id)
    assert Pipeline.parse(config).source_query == FILMS
