"""The command line as a user meets it: real processes, a home of its own, exit codes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.acceptance.processes import Cli, free_port
from tests.faults.driver import runner_environment
from tests.patience import patient, wait_for
from tests.support import Lab

FILMS = "SELECT f.id AS film_id, f.title FROM content.film_work f"


@pytest.fixture
def cli(lab: Lab, tmp_path: Path) -> Cli:
    """On a server of one's own, by URL."""
    return Cli(tmp_path, runner_environment(lab) | {"VITRINA_HOME": str(tmp_path / "home")})


def runners(home: Path) -> list[str]:
    return sorted(file.read_text() for file in home.glob("home/**/runner-*.pid"))


def rows(conninfo: str, query: str) -> list[Any]:
    with psycopg.connect(conninfo.strip(), autocommit=True) as conn:
        cursor = conn.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


def test_help_names_every_command(cli: Cli) -> None:
    said = cli("--help")
    for command in ("demo", "up", "down", "logs", "migrate", "roles", "runner", "psql", "db"):
        assert f" {command} " in said


@pytest.mark.parametrize("arguments", [["nonsense"], ["runner", "--pipeline", "x"], ["up", "--runners", "99"]])
def test_wrong_usage_is_exit_code_2(cli: Cli, arguments: list[str]) -> None:
    cli(*arguments, expect=2)


@pytest.mark.long
def test_up_and_down_twice(stack: Cli, home: Path) -> None:
    port = free_port()
    said = stack("up", "--runners", "2", "--port", port)
    address, _, secret = said.split("quarter of an hour: ")[1].split()[0].partition("#")
    form, origin = {"link": secret}, {"Origin": f"http://127.0.0.1:{port}"}
    assert httpx.post(address, data=form, headers=origin, trust_env=False, timeout=60).status_code == 303
    assert httpx.post(address, data=form, headers=origin, trust_env=False, timeout=60).status_code == 401
    first = runners(home)
    assert len(first) == 2
    stack("up", "--runners", "2", "--port", port)
    assert runners(home) == first

    url = stack("db", "url")
    rows(url, "CREATE TABLE public.t (id int PRIMARY KEY); INSERT INTO public.t VALUES (1)")
    assert "up to date" in stack("migrate")
    assert rows(url, "SELECT has_database_privilege('vitrina_reader', current_database(), 'TEMP')") == [(False,)]
    rows(
        url,
        "INSERT INTO etl.etl_pipelines (name, source_table, target_table, key, status)"
        " VALUES ('t', 'public.t', 'analytics.t', '{id}', 'RUN_REQUESTED')",
    )
    wait_for(lambda: rows(url, "SELECT status FROM etl.etl_pipelines") == [("IDLE",)])
    assert rows(url, "SELECT status, error FROM etl.etl_runs") == [("SUCCESS", None)]
    assert rows(url, "SELECT id FROM analytics.t") == [(1,)]
    assert "succeeded" in stack("logs")

    assert "down" in stack("down")
    assert runners(home) == []
    assert "down" in stack("down")
    assert rows(stack("db", "url"), "SELECT count(*) FROM etl.etl_runs") == [(1,)]
    assert "the data is gone" in stack("down", "--purge")
    stack("down", "--purge")
    assert not (home / "home" / "postgres" / "data").exists()
    assert "vitrina up" in stack("logs", expect=1)


def test_the_demo_twice_rewrites_nothing(stack: Cli) -> None:
    small = ("demo", "--films", "50", "--ratings", "300", "--no-search")
    first = stack(*small)
    assert "NO:" not in first
    assert "Elasticsearch" not in first
    assert "nothing was rewritten" not in first
    assert "nothing was rewritten" in stack(*small)


def test_the_demo_ends_with_what_its_runner_has_died_of(stack: Cli) -> None:
    stack.environment["VITRINA_ALERTS__OPS__URL"] = "http://127.0.0.1:9"
    said = stack("demo", "--films", "50", "--ratings", "300", "--no-search", expect=1)
    assert "error: VITRINA_ALERTS__OPS__SECRET is not set" in said


def test_once_is_0_when_the_run_has_succeeded(cli: Cli, lab: Lab) -> None:
    pipeline = lab.add(source_query=FILMS, key=["film_id"])
    assert "mart: IDLE" in cli("runner", "--once", "--pipeline", "mart")
    lab.assert_equal(pipeline)
    cli("runner", "--once", "--pipeline", str(pipeline.id))
    assert lab.value("SELECT count(*) FROM etl.etl_runs WHERE status = 'SUCCESS'") == 2


WATCHED = """
import sys
from pathlib import Path
from vitrina.cli import app
from vitrina.runner.executor import PipelineExecutor

execute = PipelineExecutor.execute

def watched(*given):
    before = {*sys.modules}
    try:
        return execute(*given)
    finally:
        Path("imported").write_text(" ".join(sorted(sys.modules.keys() - before)))

PipelineExecutor.execute = watched
app(["runner", "--once", "--pipeline", "mart"])
"""


def test_a_first_run_waits_for_no_import(cli: Cli, lab: Lab, tmp_path: Path) -> None:
    """What runs need is there once a runner has started; else each `runner --once` counts it as the run's."""
    lab.add(source_query=FILMS, key=["film_id"])
    done = subprocess.run([sys.executable, "-c", WATCHED], env=cli.environment, cwd=tmp_path, capture_output=True)
    assert b"mart: IDLE" in done.stdout, done.stderr
    assert (tmp_path / "imported").read_text() == ""


def test_once_is_1_when_it_has_not(cli: Cli, lab: Lab) -> None:
    lab.add(source_query=FILMS, key=["nothing"])
    assert "mart: FAILED" in cli("runner", "--once", "--pipeline", "mart", expect=1)
    assert "there is no pipeline 'other'" in cli("runner", "--once", "--pipeline", "other", expect=1)
    lab.sql("UPDATE etl.etl_pipelines SET enabled = false")
    assert "disabled" in cli("runner", "--once", "--pipeline", "mart", expect=1)


def test_once_waits_no_longer_for_a_source_than_it_is_told(cli: Cli, lab: Lab) -> None:
    cli.environment["VITRINA_SOURCES__SHOP"] = "postgresql://nobody@127.0.0.1:1/shop"
    pipeline = lab.add(source="shop", source_query=FILMS, key=["film_id"])
    said = cli("runner", "--once", "--pipeline", "mart", "--patience", "0", expect=1)
    assert "mart waits for source shop: " in said
    assert "mart: RUN_REQUESTED" in said
    assert lab.last_run(pipeline)["status"] == "RUNNING"


@pytest.mark.parametrize(("end", "code"), [("IDLE", 0), ("FAILED", 1)])
def test_once_waits_for_another_runner_that_has_the_pipeline(cli: Cli, lab: Lab, end: str, code: int) -> None:
    lab.add(source_query=FILMS, key=["film_id"])
    lab.sql("UPDATE etl.etl_pipelines SET status = 'RUN_REQUESTED'")
    lab.sql("UPDATE etl.etl_pipelines SET status = 'RUNNING'")
    with cli.start("runner", "--once", "--pipeline", "mart") as once:
        assert once.stdout is not None
        assert any("another runner has it, waiting for its end" in line for line in once.stdout)
        lab.sql(f"UPDATE etl.etl_pipelines SET status = '{end}'")
        said, _ = once.communicate(timeout=patient(60))
    assert (f"mart: {end}" in said, once.returncode) == (True, code)


@pytest.mark.long
def test_up_names_the_port_that_it_has_and_serve_the_one_that_is_taken(stack: Cli) -> None:
    port = free_port()
    stack("up", "--runners", "0", "--port", port)
    assert f"up already, at http://127.0.0.1:{port}" in stack("up", "--port", free_port(), expect=1)
    assert f"cannot listen on 127.0.0.1, port {port}" in stack("serve", "--port", port, expect=1)
    assert "vitrina list" in stack("up", "--runners", "0")
    assert stack("psql", "-Atc", "SELECT 40 + 2") == "42\n"


def test_roles_print_a_way_in_for_each_that_has_none(cli: Cli) -> None:
    """The others, and their passwords, are used as they are."""
    said = cli("roles")
    assert [line.split("=")[0] for line in said.splitlines() if line.startswith("VITRINA_")] == [
        "VITRINA_API_ROLE_URL",
        "VITRINA_CAPTURE_URL",
    ]


def test_once_without_a_pipeline_works_off_what_is_due(cli: Cli, lab: Lab) -> None:
    pipeline = lab.add(source_query=FILMS, key=["film_id"])
    lab.request(pipeline)
    cli("runner", "--once")
    assert lab.status(pipeline) == "IDLE"
    cli("runner", "--once")
    assert lab.value("SELECT count(*) FROM etl.etl_runs") == 1


def test_a_database_that_is_not_there_is_a_sentence_without_the_password(cli: Cli) -> None:
    for name in ("DATABASE", "RUNNER", "READER"):
        cli.environment[f"VITRINA_{name}_URL"] = "postgresql://somebody:planted-secret@127.0.0.1:1/nothing"
    for arguments in (["migrate"], ["runner"], ["roles"]):
        said = cli(*arguments, expect=1)
        assert "cannot connect to Postgres" in said
        assert "planted-secret" not in said


def test_a_meta_store_that_is_not_migrated_names_the_remedy(cli: Cli, empty_db: str) -> None:
    for name in ("DATABASE", "RUNNER", "READER"):
        cli.environment[f"VITRINA_{name}_URL"] = empty_db
    assert "vitrina migrate" in cli("runner", "--once", expect=1)
    assert "up to date" in cli("migrate")
    cli("runner", "--once")
