"""Events, lineage, runners, health and documentation over HTTP."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.server import PLAN, Api, serve
from tests.patience import wait
from tests.support import Lab
from vitrina.runner.main import Runner


def events(api: Api, run_id: int, **more: Any) -> list[dict[str, Any]]:
    """The events of a stream, which ends by itself."""
    response = api.ask("GET", f"/runs/{run_id}/events", role="viewer", **more)
    assert response.headers["content-type"].startswith("text/event-stream"), response.text
    blocks = [dict(re.findall(r"^(\w+): (.*)$", block, re.MULTILINE)) for block in response.text.split("\n\n")]
    return [block | {"data": json.loads(block["data"])} for block in blocks if "data" in block]


@pytest.fixture
def run_id(api: Api, runner: Runner) -> int:
    """A run that has ended."""
    api.create(batch_size=20)
    api.post("/pipelines/films/run")
    last = wait(lambda: api.get("/pipelines/films/status")["last_run"], lambda run: run and run["finished_at"])
    return int(last["id"])


def test_events_of_a_run_end_with_its_outcome(api: Api, run_id: int) -> None:
    said = events(api, run_id)
    assert said[0]["data"]["event"] == "started"
    assert ("mart_ready", "mart is ready") in [(e["data"].get("event"), e["data"].get("message")) for e in said]
    assert [event["event"] for event in said[-1:]] == ["end"]
    assert (said[-1]["data"]["status"], said[-1]["data"]["rows_written"]) == ("SUCCESS", 60)


def test_events_are_replayed_after_the_last_one_seen(api: Api, run_id: int) -> None:
    said = events(api, run_id)
    again = events(api, run_id, headers={"Last-Event-ID": said[1]["id"]})
    assert [event.get("id") for event in again] == [event.get("id") for event in said[2:]]
    assert events(api, run_id, headers={"Last-Event-ID": "what"}) == said
    assert len(events(api, run_id, headers={"Last-Event-ID": "9" * 40})) == 1


def test_a_running_run_is_not_waited_for_unless_asked(api: Api) -> None:
    made = api.create()
    run = api.lab.value(
        "INSERT INTO etl.etl_runs (pipeline_id, config_version, runner) VALUES (%s, 1, 'r') RETURNING id", made["id"]
    )
    assert events(api, run, params={"follow": "false"})[-1]["data"]["status"] == "RUNNING"


@pytest.mark.parametrize(("gone", "status"), [("etl_runs", "SUCCESS"), ("etl_pipelines", "FAILED")])
def test_a_run_that_is_gone_was_added_to_its_hour_or_deleted_with_its_pipeline(
    api: Api, gone: str, status: str
) -> None:
    made = api.create()
    run = api.lab.value(
        "INSERT INTO etl.etl_runs (pipeline_id, config_version, runner) VALUES (%s, 1, 'r') RETURNING id", made["id"]
    )
    with api.clients["viewer"].stream("GET", f"/api/v1/runs/{run}/events") as response:
        api.lab.sql(f"DELETE FROM etl.{gone}")
        assert f'"status": "{status}"' in response.read().decode()


def test_a_run_is_followed_while_it_runs(api: Api) -> None:
    made = api.create()
    run = api.lab.value(
        "INSERT INTO etl.etl_runs (pipeline_id, config_version, runner) VALUES (%s, 1, 'r') RETURNING id", made["id"]
    )
    with api.clients["viewer"].stream("GET", f"/api/v1/runs/{run}/events") as response:
        lines = (line for line in response.iter_lines() if line.startswith("data:"))
        api.lab.sql("INSERT INTO etl.etl_run_events (run_id, level, event) VALUES (%s, 'info', 'one')", run)
        assert json.loads(next(lines)[5:])["event"] == "one"
        api.lab.sql("DELETE FROM etl.etl_pipelines")
        assert json.loads(next(lines)[5:])["status"] == "FAILED"
        assert list(lines) == []


def test_events_of_no_run_are_a_problem_and_no_stream(api: Api) -> None:
    response = api.ask("GET", "/runs/999999999/events")
    assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")


# ── lineage ──────────────────────────────────────────────────────────────────────────────────────────────────

LINEAGE = {
    "joined": (
        "SELECT f.id AS film_id, f.title, g.name AS genre FROM content.film_work f"
        " JOIN content.genre_film_work fg ON fg.film_work_id = f.id JOIN content.genre g ON g.id = fg.genre_id",
        {"film_id": ["content.film_work.id"], "genre": ["content.genre.name"]},
    ),
    "cte": (
        "WITH r AS (SELECT film_id, avg(rating) AS a FROM ugc.ratings GROUP BY film_id)"
        " SELECT f.id AS film_id, coalesce(r.a, f.rating) AS rating FROM content.film_work f"
        " LEFT JOIN r ON r.film_id = f.id",
        {"film_id": ["content.film_work.id"], "rating": ["content.film_work.rating", "ugc.ratings.rating"]},
    ),
    "subquery": (
        "SELECT s.film_id, s.upper FROM (SELECT id AS film_id, upper(title) FROM content.film_work) s",
        {"film_id": ["content.film_work.id"], "upper": ["content.film_work.title"]},
    ),
    "star": (
        "SELECT * FROM content.genre",
        {"id": ["content.genre.id"], "name": ["content.genre.name"]},
    ),
}


@pytest.mark.parametrize("shape", LINEAGE)
def test_lineage_follows_columns(api: Api, shape: str) -> None:
    select, expected = LINEAGE[shape]
    api.lab.add(name=shape, source_query=select, target_table="analytics.x", key=[next(iter(expected))])
    (found,) = api.get("/lineage", role="viewer")
    assert (found["pipeline"], found["target"], found["error"]) == (shape, "analytics.x", None)
    sources = {column["name"]: column["sources"] for column in found["columns"]}
    assert {name: sources[name] for name in expected} == expected
    assert {source.rpartition(".")[0] for names in expected.values() for source in names} <= set(found["tables"])


def test_lineage_goes_through_a_plan_and_names_what_it_cannot_read(api: Api) -> None:
    api.post("/pipelines", PLAN)
    api.lab.sql("INSERT INTO etl.etl_pipelines (name, source_query) VALUES ('odd', 'x')")
    catalog, odd = api.get("/lineage")
    assert catalog["columns"][1] == {"name": "title", "type": "text", "sources": ["content.film_work.title"]}
    assert odd["error"]


# ── runners, health, documentation ───────────────────────────────────────────────────────────────────────────


def test_runners_are_listed(api: Api, runner: Runner) -> None:
    (found,) = wait(lambda: api.get("/runners", role="viewer"), bool)
    assert (found["name"], found["alive"], found["slots"]) == (runner.identity.name, True, 4)


@pytest.fixture
def alone(lab: Lab) -> Iterator[Api]:
    """A server with a database that may be taken away."""
    with serve(lab) as api:
        yield api


def test_health_follows_the_database(alone: Api) -> None:
    public = alone.clients["nobody"]
    assert [public.get(path).status_code for path in ("/livez", "/readyz", "/health")] == [200, 200, 200]
    name = alone.lab.value("SELECT current_database()")
    with Lab.open("template1") as other:
        other.sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        other.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND usename = 'vitrina_api'",
            name,
        )
        gone = public.get("/readyz")
        assert (gone.status_code, gone.json()["status"]) == (503, "unavailable")
        assert public.get("/livez").status_code == 200
        refused = alone.ask("GET", "/pipelines")
        assert (refused.status_code, refused.headers["content-type"]) == (503, "application/problem+json")
        other.sql(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    wait(lambda: public.get("/readyz").status_code, lambda status: status == 200)
    assert alone.get("/pipelines")["items"] == []


def test_the_documentation_works_offline(shared: Api) -> None:
    public = shared.clients["nobody"]
    page = public.get("/docs").text
    assert re.findall(r"https?://[^\s\"']+|[\"']//[^\s\"']+", page) == []
    assets = re.findall(r"(?:src|href)=\"(/[^\"]+)\"", page)
    assert {Path(asset).suffix for asset in assets} >= {".js", ".css"}
    for asset in [*assets, "/openapi.json"]:
        assert public.get(asset).status_code == 200


def test_validation_of_a_star_over_a_join_is_no_crash(api: Api) -> None:
    select = "SELECT * FROM content.film_work JOIN content.genre_film_work ON film_work_id = film_work.id"
    body = {"name": "x", "source_query": select, "target_table": "analytics.x", "key": ["id"]}
    assert api.post("/validate", body).json()["valid"] is False
