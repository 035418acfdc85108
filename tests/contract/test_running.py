"""Running over HTTP: run, pause, enable, disable, reload, status, state, runs, repair."""

import threading
from typing import Any

import pytest

from tests.contract.server import CHANGED_FILMS, Api
from tests.patience import patient, wait
from tests.support import BLOCKED, Lab
from vitrina.runner.main import Runner

SLOW = {
    "slow": "CREATE OR REPLACE FUNCTION analytics.slow() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$",
    "on": "CREATE TRIGGER slow AFTER INSERT OR UPDATE ON {} FOR EACH STATEMENT EXECUTE FUNCTION analytics.slow()",
}


def slow_mart(lab: Lab, name: str = "films") -> None:
    """A mart that takes 0.3 s a batch."""
    lab.sql(f"CREATE TABLE analytics.{name} (film_id uuid PRIMARY KEY, title text, rating double precision)")
    lab.sql(SLOW["slow"])
    lab.sql(SLOW["on"].format(f"analytics.{name}"))
    lab.sql(f"ALTER TABLE analytics.{name} OWNER TO vitrina_runner")


# ── run ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_run_is_idempotent(api: Api) -> None:
    api.create()
    first, second = api.post("/pipelines/films/run"), api.post("/pipelines/films/run")
    assert (first.status_code, first.json()["status"], first.json()["changed"]) == (202, "RUN_REQUESTED", True)
    assert (second.status_code, second.json()["status"], second.json()["changed"]) == (202, "RUN_REQUESTED", False)
    assert [row[1] for row in api.audit()] == ["create", "run"]


@pytest.mark.scenario(22)
def test_run_twice_at_once_is_one_run(api: Api) -> None:
    api.create()
    answers: list[bool] = []
    threads = [
        threading.Thread(target=lambda: answers.append(api.post("/pipelines/films/run").json()["changed"]))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False] * 5 + [True]


def test_a_disabled_pipeline_does_not_run(api: Api) -> None:
    api.create()
    api.post("/pipelines/films/disable")
    refused = api.post("/pipelines/films/run")
    assert (refused.status_code, refused.json()["remedy"]) == (409, "enable it first")
    api.post("/pipelines/films/enable")
    assert api.post("/pipelines/films/run").status_code == 202


def test_a_key_replays_the_first_answer(api: Api) -> None:
    api.create()
    key = {"headers": {"Idempotency-Key": "one"}}
    first = api.post("/pipelines/films/run", **key)
    assert api.post("/pipelines/films/run", **key).json() == first.json()
    assert first.json()["changed"]


def test_a_key_replays_after_the_run_has_ended(api: Api, runner: Runner) -> None:
    api.create()
    key = {"headers": {"Idempotency-Key": "one"}}
    first = api.post("/pipelines/films/run", **key).json()
    wait(lambda: api.get("/pipelines/films/status")["last_run"], lambda run: run and run["status"] == "SUCCESS")
    assert api.post("/pipelines/films/run", **key).json() == first
    assert len(api.get("/pipelines/films/runs")["items"]) == 1


def test_a_key_stands_for_one_request(api: Api) -> None:
    api.create()
    api.create("b")
    key = {"headers": {"Idempotency-Key": "one"}}
    api.post("/pipelines/films/run", **key)
    assert api.post("/pipelines/b/run", **key).status_code == 409
    assert api.post("/pipelines/films/run", {"restart": True}, **key).status_code == 409
    assert api.get("/pipelines/b/status")["status"] == "IDLE"


def test_one_key_for_two_pipelines_at_once_starts_one(api: Api) -> None:
    first, _ = api.create("a"), api.create("b")
    answers: list[int] = []
    key = {"Idempotency-Key": "one"}
    thread = threading.Thread(
        target=lambda: answers.append(api.post("/pipelines/b/run", headers=key).status_code), daemon=True
    )
    with api.lab.db.transaction():  # the other call, between its answer and its COMMIT
        api.lab.sql("INSERT INTO etl.etl_idempotency VALUES ('one', %s, '{\"options\": {}}')", first["id"])
        thread.start()
        wait(lambda: api.lab.value(BLOCKED), bool)
    thread.join(patient(10))
    assert answers == [409]
    assert api.get("/pipelines/b/status")["status"] == "IDLE"


def test_a_key_is_forgotten_after_a_day(api: Api) -> None:
    api.create()
    key = {"headers": {"Idempotency-Key": "one"}}
    api.post("/pipelines/films/run", **key)
    api.lab.sql("UPDATE etl.etl_idempotency SET created_at = now() - interval '25 hours'")
    assert api.post("/pipelines/films/run", **key).json()["changed"] is False


def test_options_reach_the_run(api: Api, runner: Runner) -> None:
    api.create()
    api.post("/pipelines/films/run", {"restart": True, "allow_deletes": True})
    run = wait(lambda: api.get("/pipelines/films/status")["last_run"], bool)
    assert {name for name, value in run["options"].items() if value} == {"restart", "allow_deletes"}
    assert api.post("/pipelines/films/run", {"repair": True}).status_code == 422
    assert api.post("/pipelines/films/run", {"restart": "perhaps"}).status_code == 422


# ── pause, enable, disable ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "code", "then", "changed"),
    [
        ("IDLE", 202, "PAUSED", True),
        ("RUN_REQUESTED", 202, "PAUSED", True),
        ("RUNNING", 202, "PAUSE_REQUESTED", True),
        ("PAUSE_REQUESTED", 202, "PAUSE_REQUESTED", False),
        ("PAUSED", 202, "PAUSED", False),
        ("FAILED", 409, "FAILED", None),
    ],
)
def test_pause_from_each_status(api: Api, status: str, code: int, then: str, changed: bool | None) -> None:
    api.create()
    api.set_status(status)
    response = api.post("/pipelines/films/pause")
    assert (response.status_code, response.json().get("changed")) == (code, changed)
    assert api.get("/pipelines/films/status")["status"] == then


def test_a_pause_may_be_wanted_at_once_also_when_it_was_asked_for_before(api: Api) -> None:
    api.create()
    api.set_status("RUNNING")
    options = "SELECT run_options FROM etl.etl_pipelines"
    assert api.post("/pipelines/films/pause", role="operator").json()["changed"] is True
    assert api.lab.value(options) == {}
    for changed in (True, False):
        answer = api.post("/pipelines/films/pause", {"now": True}, role="operator").json()
        assert (answer["status"], answer["changed"]) == ("PAUSE_REQUESTED", changed)
    assert api.lab.value(options) == {"now": True}
    assert [(action, details) for _, action, details in api.audit()][1:] == [("pause", {}), ("pause", {"now": True})]
    assert api.post("/pipelines/films/pause", {"soon": True}).status_code == 422


@pytest.mark.parametrize(
    ("status", "then", "changed"),
    [
        ("PAUSE_REQUESTED", "RUNNING", True),  # the pause is called off
        ("PAUSED", "RUN_REQUESTED", True),
        ("FAILED", "RUN_REQUESTED", True),
        ("RUNNING", "RUNNING", False),
    ],
)
def test_run_from_each_status(api: Api, status: str, then: str, changed: bool) -> None:
    api.create()
    api.set_status(status)
    answer = api.post("/pipelines/films/run").json()
    assert (answer["status"], answer["changed"]) == (then, changed)


def test_enable_and_disable_change_nothing_twice(api: Api) -> None:
    api.create()
    assert api.post("/pipelines/films/disable").json()["config"]["enabled"] is False
    assert api.post("/pipelines/films/disable").json()["version"] == 2
    assert api.post("/pipelines/films/enable").json()["config"]["enabled"] is True
    assert [row[1] for row in api.audit()] == ["create", "disable", "enable"]


# ── a run and its configuration ──────────────────────────────────────────────────────────────────────────────


def test_a_run_keeps_its_version_until_reload(api: Api, runner: Runner) -> None:
    slow_mart(api.lab)
    api.create(batch_size=10)
    api.post("/pipelines/films/run")
    run = wait(lambda: api.get("/pipelines/films/status")["last_run"], lambda run: run and run["batches"] >= 1)
    assert api.patch("films", {"batch_size": 60}).json()["version"] == 2
    wait(lambda: api.get(f"/runs/{run['id']}"), lambda run: run["batches"] >= 3)
    assert api.post("/pipelines/films/reload-config").json() == {"version": 2}
    ended = wait(lambda: api.get(f"/runs/{run['id']}"), lambda run: run["finished_at"])
    assert (ended["status"], ended["config_version"], ended["rows_written"]) == ("SUCCESS", 1, 60)
    assert ended["batches"] < 6
    assert any(event["event"] == "reloaded" for event in api_events(api, run["id"]))


@pytest.mark.parametrize("mode", [{}, {"source_query": CHANGED_FILMS, "mode": "incremental"}])
def test_reload_takes_effect_at_the_next_batch_whatever_the_mode(
    api: Api, runner: Runner, mode: dict[str, Any]
) -> None:
    api.lab.sql("CREATE TABLE analytics.films (film_id uuid PRIMARY KEY, title text, rating float8, modified text)")
    api.lab.sql("ALTER TABLE analytics.films ALTER modified TYPE timestamptz USING NULL")
    api.lab.sql("INSERT INTO analytics.films SELECT id, 'old' FROM content.film_work LIMIT 1")
    api.lab.sql(SLOW["slow"])
    api.lab.sql(SLOW["on"].format("analytics.films"))
    api.lab.sql("ALTER TABLE analytics.films OWNER TO vitrina_runner")
    api.create(batch_size=10, incremental_key="modified", **mode)
    api.post("/pipelines/films/run")
    run = wait(lambda: api.get("/pipelines/films/status")["last_run"], lambda run: run and run["batches"] >= 1)
    api.patch("films", {"batch_size": 1000})
    api.post("/pipelines/films/reload-config")
    ended = wait(lambda: api.get(f"/runs/{run['id']}"), lambda run: run["finished_at"])
    assert (ended["status"], ended["error"], ended["batches"] <= 4) == ("SUCCESS", None, True), ended


def test_reload_needs_a_run(api: Api) -> None:
    api.create()
    for status in ("IDLE", "PAUSED"):
        api.set_status(status)
        refused = api.post("/pipelines/films/reload-config")
        assert (refused.status_code, status in refused.json()["detail"]) == (409, True)


def test_pause_and_run_again_end_equal(api: Api, runner: Runner) -> None:
    slow_mart(api.lab)
    api.create(batch_size=10)
    api.post("/pipelines/films/run")
    wait(lambda: api.get("/pipelines/films/status")["last_run"], lambda run: run and run["batches"] >= 1)
    assert api.post("/pipelines/films/pause").json()["status"] == "PAUSE_REQUESTED"
    paused = api.wait_for("films", "PAUSED")
    assert paused["last_run"]["status"] == "PAUSED"
    assert 0 < paused["last_run"]["rows_written"] < 60
    api.post("/pipelines/films/run")
    api.wait_for("films", "IDLE")
    assert api.lab.value("SELECT count(*) FROM analytics.films") == 60


# ── status, state, runs, repair ──────────────────────────────────────────────────────────────────────────────


def test_state_shows_the_checkpoint(api: Api) -> None:
    api.create()
    state = api.get("/pipelines/films/state")
    assert (state["checkpoint"], state["seq"], state["horizon"]) == (None, 0, None)


def test_state_shows_the_horizon_and_who_holds_it(api: Api) -> None:
    api.create(source_query=CHANGED_FILMS, mode="incremental", incremental_key="modified")
    with api.lab.db.transaction():
        api.lab.sql("SET LOCAL application_name = 'a long report'")
        api.lab.sql("SELECT 1")
        horizon = api.get("/pipelines/films/state")["horizon"]
    assert horizon["at"] < horizon["now"]
    assert horizon["held_by"]["application_name"] == "a long report"


def test_a_source_that_is_not_there_does_not_hide_the_checkpoint(api: Api) -> None:
    api.create(source_query=CHANGED_FILMS, mode="incremental", incremental_key="modified")
    api.lab.sql("UPDATE etl.etl_pipelines SET source = 'gone'")
    assert "there is no source 'gone'" in api.get("/pipelines/films/state")["horizon"]["error"]


def test_runs_come_in_pages_even_while_runs_are_added(api: Api) -> None:
    made = api.create()

    def add(count: int) -> None:
        api.lab.sql(
            "INSERT INTO etl.etl_runs (pipeline_id, status, config_version, runner, finished_at)"
            " SELECT %s, 'SUCCESS', 1, 'r', now() FROM generate_series(1, %s)",
            made["id"],
            count,
        )

    add(5)
    first = api.get("/pipelines/films/runs", params={"limit": 2})
    add(3)
    second = api.get("/pipelines/films/runs", params={"limit": 2, "before": first["next"]})
    third = api.get("/pipelines/films/runs", params={"limit": 2, "before": second["next"]})
    ids = [run["id"] for page in (first, second, third) for run in page["items"]]
    assert len(ids) == 5
    assert ids == sorted(set(ids), reverse=True)
    assert third["next"] is None
    assert api.get(f"/runs/{ids[0]}")["name"] == "films"
    assert api.ask("GET", "/runs/999999999").status_code == 404
    assert api.ask("GET", "/runs/x").status_code == 422


def test_repair_converges_whatever_the_mode(api: Api, runner: Runner) -> None:
    api.create(source_query=CHANGED_FILMS, mode="incremental", incremental_key="modified")
    api.post("/pipelines/films/run")
    wait(lambda: api.get("/pipelines/films/status")["last_run"], lambda run: run and run["status"] == "SUCCESS")
    api.lab.sql("DELETE FROM analytics.films WHERE film_id IN (SELECT film_id FROM analytics.films LIMIT 3)")
    answer = api.post("/pipelines/films/repair", {"allow_deletes": True})
    assert (answer.status_code, answer.json()["changed"]) == (202, True)
    wait(lambda: api.lab.value("SELECT count(*) FROM analytics.films"), lambda n: n == 60)
    options = api.get("/pipelines/films/runs")["items"][0]["options"]
    assert (options["repair"], options["allow_deletes"]) == (True, True)


def api_events(api: Api, run_id: int) -> list[dict[str, Any]]:
    """What a run said, from the table."""
    rows = api.lab.db.execute("SELECT event FROM etl.etl_run_events WHERE run_id = %s", [run_id])
    return rows.fetchall()
