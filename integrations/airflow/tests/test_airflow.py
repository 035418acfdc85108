"""A real Airflow runs pipelines of a real Vitrina: `make test-airflow`."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from integrations.airflow.tests.server import HERE, Airflow, airflow, wait
from tests.acceptance.conftest import sweep
from tests.contract.line import BUSY, LOST, Line, line
from tests.contract.server import Api, running, serve
from tests.contract.test_running import slow_mart
from tests.support import Lab

GUIDE = (HERE.parents[2] / "docs" / "airflow.md").read_text()
(EXAMPLE,) = re.findall(r"```python\n(from datetime.+?)```", GUIDE, flags=re.DOTALL)
DAGS = {"example.py": EXAMPLE, "pipelines.py": (HERE / "dags" / "pipelines.py").read_text()}
BROKEN = "SELECT f.id AS film_id, f.title, 1 / (length(f.title) * 0) AS rating FROM content.film_work f"
RATINGS = "SELECT r.id AS film_id, r.film_id::text AS title, r.rating::float8 AS rating FROM ugc.ratings r"


@pytest.fixture(scope="module")
def vitrina() -> Iterator[Api]:
    """An API and a runner."""
    with Lab.open("vitrina_template") as lab, serve(lab) as api, running(lab):
        yield api


@pytest.fixture(scope="module")
def way(vitrina: Api) -> Iterator[Line]:
    """From Airflow to it."""
    with line(vitrina.url) as found:
        yield found


@pytest.fixture(scope="module")
def dags(vitrina: Api, way: Line) -> Iterator[Airflow]:
    """An Airflow that knows it."""
    home = Path(tempfile.mkdtemp(prefix="vitrina-airflow-")) / "home"
    with airflow(home, way.url, vitrina.tokens["operator"], DAGS) as found:
        yield found


@pytest.fixture
def api(vitrina: Api) -> Api:
    """No pipelines, no marts."""
    sweep(vitrina.lab)
    return vitrina


def test_a_dag_runs_a_pipeline_waits_deferred_and_succeeds(api: Api, dags: Airflow, way: Line) -> None:
    api.create()
    with api.lab.db.transaction():
        api.lab.sql("LOCK TABLE content.film_work IN ACCESS EXCLUSIVE MODE")
        task = dags.run("deferred", "run")
        task.wait_for("deferred", "failed", "success")
        assert task.state == "deferred", task.said
        api.wait_for("films", "RUNNING", seconds=60)
        assert task.link == f"{way.url}/console/pipelines/films"
    task.wait_for("success", "failed")
    assert task.state == "success", task.said
    (run,) = api.get("/pipelines/films/runs")["items"]
    assert task.xcom("return_value") | {"run_id": run["id"], "rows_written": 60, "attempt": 1} == task.xcom(
        "return_value"
    )
    assert task.link == f"{way.url}/console/runs/{run['id']}"
    assert httpx.get(task.link.replace(way.url, api.url), follow_redirects=True, timeout=60).status_code == 200


@pytest.mark.parametrize("dag", ["deferred", "by_a_worker"])
def test_the_task_fails_when_the_pipeline_fails_and_says_why(api: Api, dags: Airflow, dag: str) -> None:
    api.create(source_query=BROKEN)
    task = dags.run(dag, "run")
    task.wait_for("failed", "success")
    assert task.state == "failed"
    assert "films ended as FAILED in run" in task.said
    assert "division by zero" in task.said


@pytest.mark.parametrize("dag", ["deferred", "by_a_worker"])
def test_a_killed_task_pauses_the_pipeline(api: Api, dags: Airflow, dag: str) -> None:
    slow_mart(api.lab)
    api.create(source_query=RATINGS, batch_size=1)  # 400 batches, two minutes
    task = dags.run(dag, "run")
    wait(lambda: task.said, lambda said: "waiting for films" in said, lambda: task.said)
    api.wait_for("films", "RUNNING", seconds=60)
    assert task.state == ("deferred" if dag == "deferred" else "running")
    task.set_state("failed")
    assert api.wait_for("films", "PAUSED", "IDLE", seconds=60)["status"] == "PAUSED"
    assert 0 < api.lab.value("SELECT count(*) FROM analytics.films") < 400
    assert [row[1] for row in api.audit()] == ["create", "run", "pause"]


def test_a_lost_answer_and_an_api_that_is_away_start_nothing_twice(api: Api, dags: Airflow, way: Line) -> None:
    api.create()
    way.troubles += [LOST]
    with api.lab.db.transaction():
        api.lab.sql("LOCK TABLE content.film_work IN ACCESS EXCLUSIVE MODE")
        task = dags.run("deferred", "run")
        wait(lambda: task.said, lambda said: "waiting for films" in said, lambda: task.said)
        way.troubles += [BUSY] * 12  # more than the client tries by itself, twice
        wait(lambda: len(way.troubles), lambda left: left == 0, lambda: task.said)
    task.wait_for("success", "failed")
    assert task.state == "success", task.said
    assert [row[1] for row in api.audit()] == ["create", "run"]


def test_each_try_has_a_key_and_a_run_of_its_own(api: Api, dags: Airflow) -> None:
    api.create(source_query=BROKEN)
    task = dags.run("tried_twice", "run")
    task.wait_for("failed", "success")
    assert api.lab.value("SELECT count(*) FROM etl.etl_idempotency WHERE key LIKE 'airflow-%%'") == 2
    asked = [row for row in api.audit() if row[1] == "run"]
    assert len(asked) == 2


def test_the_sensor_waits_until_the_mart_is_fresh(api: Api, dags: Airflow) -> None:
    api.create()
    task = dags.run("fresh", "wait")
    task.wait_for("running")
    api.post("/pipelines/films/run")
    task.wait_for("success", "failed")
    assert task.xcom("return_value") == api.get("/pipelines/films/runs")["items"][0]["started_at"].replace(
        "Z", "+00:00"
    )


def test_airflow_knows_the_connection_type_and_tests_a_connection(api: Api, dags: Airflow) -> None:
    (form,) = [meta for meta in dags.get("/ui/connections/hook_meta") if meta["connection_type"] == "vitrina"]
    fields: dict[str, Any] = form["standard_fields"]
    assert (fields["host"]["title"], fields["password"]["title"], fields["port"]["hidden"]) == ("URL", "Token", True)
    good = {"connection_id": "a", "conn_type": "vitrina", "host": api.url, "password": api.tokens["viewer"]}
    assert dags.ask("POST", "/api/v2/connections/test", json=good)["status"] is True
    bad = dags.ask("POST", "/api/v2/connections/test", json=good | {"password": "wrong"})
    assert (bad["status"], "token" in bad["message"]) == (False, True)


def test_the_example_of_the_page_runs(api: Api, dags: Airflow) -> None:
    api.create("film_dim_full")
    api.create("film_rating_agg_full")
    task = dags.run("marts", "report")
    task.wait_for("success", "failed", "upstream_failed")
    assert task.state == "success", task.said
    wait(lambda: task.said, lambda said: "60 rows" in said, lambda: task.said)
