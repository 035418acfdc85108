"""Pipelines over HTTP: create, look, edit, delete."""

from typing import Any
from uuid import uuid4

import pytest

from tests.contract.server import CHANGED_FILMS, FILMS, PLAN, Api, config
from vitrina.control.api.models import PipelinePatch
from vitrina.domain.pipeline import Pipeline
from vitrina.runner.main import Runner

LOCKED: dict[str, Any] = {
    "after": "upstream",
    "name": "other",
    "type": "PYTHON",
    "source": "elsewhere",
    "source_query": "SELECT f.id AS film_id, f.title FROM content.film_work f",
    "source_table": "content.film_work",
    "target_table": "analytics.other",
    "targets": ["analytics.films", "analytics.other"],
    "key": ["title"],
    "mode": "incremental",
    "incremental_key": "modified",
    "incremental_id_key": "film_id",
    "python_task": "normalise_title",
    "on_drift": "add",
    "publish": "atomic",
    "mapping": {"title": {"type": "keyword"}},
    "settings": {"number_of_shards": 2},
    "adopt": True,
    "impact": {"content.film_work": "SELECT id AS film_id FROM changed"},
    "checks": [{"name": "titled", "not_null": ["title"], "effect": "block"}],
    "keep_changes": 3,
    "format": "parquet",
    "partition_by": ["month(modified)"],
    "tasks": PLAN["tasks"],
}
FREE: dict[str, Any] = {
    "batch_size": 7,
    "schedule_interval": "5m",
    "enabled": False,
    "description": "new",
    "freshness_limit": "15m",
    "on_failure": "retry",
    "labels": ["team:search"],
}


# ── create ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_created_with_location_etag_and_findings(api: Api) -> None:
    response = api.post("/pipelines", config())
    assert response.status_code == 201
    made = response.json()
    assert (made["status"], made["version"], made["target"]) == ("IDLE", 1, "analytics.films")
    assert response.headers["ETag"] == '"1"'
    assert response.headers["Location"] == f"/api/v1/pipelines/{made['id']}"
    (found,) = [finding for finding in made["findings"] if finding["code"] == "would_create_table"]
    assert found["message"] == f"would run: {found['data']['statement']}"


def test_id_and_tasks_may_be_given(api: Api) -> None:
    wanted = str(uuid4())
    made = api.post("/pipelines", PLAN | {"id": wanted}).json()
    assert (made["id"], made["target"]) == (wanted, "analytics.catalog")
    assert [task["body"] for task in made["config"]["tasks"]][1] == "normalise_title"
    assert api.get(f"/pipelines/{wanted.upper()}")["name"] == "catalog"


@pytest.mark.parametrize(
    ("wrong", "where", "said"),
    [
        ({"source_query": "DELETE FROM content.film_work"}, "source_query", "must be a SELECT"),
        ({"source_query": "SELECT login FROM auth.users"}, "source_query", "schema auth is not allowed"),
        ({"source_query": "SELECT 1 AS film_id, pg_sleep(9)"}, "source_query", "pg_sleep"),
        ({"source_query": "SELECT nothing FROM content.film_work"}, "source_query", "does not exist"),
        ({"source_query": "SELECT 1 AS film_id FROM content.film_work"}, "key", "twice"),
        ({"key": ["nothing"]}, "target_table", "nothing"),
        ({"target_table": "content.film_work"}, "target_table", "VITRINA_ALLOWED_TARGET_TABLES"),
        ({"target_table": "analytics.Films"}, "target_table", "no mart can be called so"),
        ({"source": "elsewhere"}, "source_query", "there is no source"),
        ({"mode": "incremental"}, "configuration", "incremental_key"),
        ({"tasks": [{"order_index": 1, "task_type": "PYTHON", "body": "x"}]}, "configuration", "must be SQL"),
        ({"type": "PYTHON", "python_task": "nobody"}, "tasks", "no transform"),
    ],
)
def test_what_is_not_valid_is_refused_with_where_and_remedy(
    shared: Api, wrong: dict[str, Any], where: str, said: str
) -> None:
    response = shared.post("/pipelines", config("wrong") | wrong)
    assert response.status_code == 422, response.text
    errors = [finding for finding in response.json()["findings"] if finding["level"] == "error"]
    assert any(finding["where"] == where and said in finding["message"] for finding in errors), errors
    assert shared.ask("GET", "/pipelines/wrong").status_code == 404


def test_a_name_an_id_and_a_target_are_given_once(api: Api) -> None:
    made = api.create("films")
    for again, said in (
        (config("films", target_table="analytics.b"), "there is a pipeline 'films'"),
        (config("b", id=made["id"]), f"there is a pipeline with id {made['id']}"),
        (config("b", target_table="analytics.films"), "another pipeline writes to 'analytics.films'"),
    ):
        response = api.post("/pipelines", again)
        assert (response.status_code, said in response.json()["detail"]) == (409, True), response.text


def test_a_task_plan_cannot_take_a_target_either(api: Api) -> None:
    api.create("catalog", target_table="analytics.catalog")
    assert api.post("/pipelines", PLAN | {"name": "other"}).status_code == 409


# ── look ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_found_by_uuid_or_name(api: Api) -> None:
    made = api.create()
    assert api.get(f"/pipelines/{made['id']}") == api.get("/pipelines/films")
    assert api.get("/pipelines/films")["config"] == made["config"]


def test_a_uuid_wins_over_a_name_that_looks_like_one(api: Api) -> None:
    first = api.create("a")
    api.create(first["id"], target_table="analytics.b")
    assert api.get(f"/pipelines/{first['id']}")["name"] == "a"


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", p) for p in ("", "/status", "/state", "/runs", "/versions", "/reconcile")]
    + [("POST", p) for p in ("/run", "/pause", "/enable", "/disable", "/reload-config", "/validate")]
    + [("POST", p) for p in ("/preview", "/reconcile", "/repair")]
    + [("PATCH", ""), ("DELETE", "")],
)
@pytest.mark.parametrize("which", ["nothing", "9a9a9a9a-0000-4000-8000-000000000000", "фильмы ☃", "a%2Fb"])
def test_what_is_not_there_is_not_found(shared: Api, method: str, path: str, which: str) -> None:
    response = shared.ask(method, f"/pipelines/{which}{path}", json={} if method == "PATCH" else None)
    assert (response.status_code, response.json()["status"]) == (404, 404)


def test_pages_follow_the_name_even_while_rows_are_added(api: Api) -> None:
    for name in ("b", "d", "f"):
        api.create(name)
    first = api.get("/pipelines", params={"limit": 2})
    assert ([item["name"] for item in first["items"]], first["next"]) == (["b", "d"], "d")
    api.create("a")
    api.create("e")
    second = api.get("/pipelines", params={"limit": 2, "after": first["next"]})
    assert ([item["name"] for item in second["items"]], second["next"]) == (["e", "f"], None)


def test_filters(api: Api) -> None:
    for name in ("films", "Film_b", "other%"):
        api.create(name, target_table=f"analytics.{name[:5].lower().strip('%')}_")
    api.post("/pipelines/Film_b/disable")
    api.post("/pipelines/other%25/pause")

    def names(**params: Any) -> list[str]:
        return [item["name"] for item in api.get("/pipelines", params=params)["items"]]

    assert sorted(names(name="FILM")) == ["Film_b", "films"]
    assert names(name="%") == ["other%"]
    assert names(enabled=False) == ["Film_b"]
    assert names(status="PAUSED") == ["other%"]
    assert names(status="PAUSED", enabled=False) == []
    assert api.ask("GET", "/pipelines", params={"status": "ASLEEP"}).status_code == 422
    assert api.ask("GET", "/pipelines", params={"limit": 0}).status_code == 422


def test_a_row_written_by_hand_is_shown_as_it_is(api: Api) -> None:
    api.lab.sql("INSERT INTO etl.etl_pipelines (name, schedule_interval, source_query) VALUES ('odd', 'never', 'x')")
    assert api.get("/pipelines/odd")["config"]["schedule_interval"] == "never"
    assert api.post("/pipelines/odd/validate").status_code == 422
    assert api.patch("odd", {"description": "x"}).status_code == 422


# ── edit ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_left_out_stays_and_null_goes_back_to_the_default(api: Api) -> None:
    api.create(description="old", batch_size=7, schedule_interval="5m")
    edited = api.patch("films", {"description": None, "batch_size": None}).json()
    assert (edited["config"]["description"], edited["config"]["batch_size"]) == ("", 5000)
    assert edited["config"]["schedule_interval"] == "5m"
    assert api.patch("films", {"schedule_interval": None}).json()["config"]["schedule_interval"] is None
    assert api.patch("films", {"name": None}).status_code == 422


def test_an_edit_is_a_version_and_no_edit_is_none(api: Api) -> None:
    api.create()
    assert api.patch("films", {"batch_size": 9}).headers["ETag"] == '"2"'
    assert api.patch("films", {"batch_size": 9}).json()["version"] == 2
    assert api.patch("films", {}).json()["version"] == 2
    versions = api.get("/pipelines/films/versions")
    assert [(v["version"], v["config"]["batch_size"], v["changed_by"]) for v in versions] == [
        (2, 9, "admin"),
        (1, 5000, "admin"),
    ]
    assert [row[1:] for row in api.audit()] == [("create", {"name": "films"}), ("edit", {"fields": ["batch_size"]})]


def test_tasks_are_replaced_as_a_whole(api: Api) -> None:
    api.post("/pipelines", PLAN)
    tasks = [PLAN["tasks"][0] | {"order_index": 5, "target_table": "analytics.catalog"}]
    edited = api.patch("catalog", {"tasks": tasks}).json()
    assert [task["order_index"] for task in edited["config"]["tasks"]] == [5]
    assert api.patch("catalog", {"tasks": None}).status_code == 422  # then there is no query at all


def test_an_edit_is_validated(api: Api) -> None:
    api.create()
    refused = api.patch("films", {"source_query": "SELECT 1"})
    assert (refused.status_code, bool(refused.json()["findings"])) == (422, True)
    assert api.get("/pipelines/films")["version"] == 1
    api.create("b")
    assert api.patch("b", {"target_table": "analytics.films"}).status_code == 409
    assert api.patch("b", {"name": "films"}).status_code == 409


def test_an_edit_that_leaves_out_a_column_of_the_mart_is_refused_as_a_run_would(api: Api, runner: Runner) -> None:
    api.create(source_query="SELECT f.id AS film_id, f.title, f.rating FROM content.film_work f")
    api.post("/pipelines/films/run")
    api.wait_for("films", "IDLE")
    refused = api.patch("films", {"source_query": "SELECT f.id AS film_id, f.title FROM content.film_work f"})
    assert refused.status_code == 422
    assert "the query no longer gives rating" in refused.json()["detail"]
    as_text = "SELECT f.id AS film_id, f.title, f.rating::text FROM content.film_work f"
    retyped = api.patch("films", {"source_query": as_text})
    assert "changed the type of rating from" in retyped.json()["detail"]
    api.lab.sql("ALTER TABLE analytics.films DROP COLUMN rating")  # as the remedy says
    kept = api.patch("films", {"source_query": "SELECT f.id AS film_id, f.title FROM content.film_work f"})
    assert kept.status_code == 200


@pytest.mark.scenario(54)
@pytest.mark.parametrize("body", [{"nothing": 1}, {"id": str(uuid4())}, {"status": "RUNNING"}, {"version": 3}, [], 1])
def test_unknown_fields_are_refused(shared: Api, body: Any) -> None:
    assert shared.patch("films", body).status_code == 422


def test_a_stale_edit_is_refused_and_names_both_versions(api: Api) -> None:
    etag = api.post("/pipelines", config()).headers["ETag"]
    assert api.patch("films", {"batch_size": 9}, headers={"If-Match": etag}).status_code == 200
    refused = api.patch("films", {"batch_size": 10}, headers={"If-Match": etag})
    assert refused.status_code == 412
    assert "version 2" in refused.json()["detail"]
    assert "version 1" in refused.json()["detail"]
    assert api.patch("films", {"batch_size": 10}, headers={"If-Match": "*"}).status_code == 200
    assert api.patch("films", {"batch_size": 10}, headers={"If-Match": 'W/"3"'}).status_code == 200
    assert api.patch("films", {"batch_size": 10}, headers={"If-Match": "x"}).status_code == 412


def test_the_patch_knows_every_field_of_a_pipeline() -> None:
    assert PipelinePatch.model_fields.keys() == Pipeline.model_fields.keys() - {"id"}


# ── edit and delete, by status ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module", params=["RUNNING", "PAUSE_REQUESTED"])
def running(shared: Api, request: pytest.FixtureRequest) -> Api:
    """The shared API, with a pipeline `busy` that a run is under way of."""
    shared.lab.sql("UPDATE etl.etl_pipelines SET status = 'FAILED' WHERE name = 'busy'")
    shared.lab.sql("DELETE FROM etl.etl_pipelines WHERE name = 'busy'")
    shared.create("busy", source_query=FILMS)
    shared.set_status(request.param, "busy")
    return shared


@pytest.mark.parametrize("field", LOCKED)
def test_what_a_run_depends_on_is_locked_while_it_runs(running: Api, field: str) -> None:
    refused = running.patch("busy", {field: LOCKED[field]})
    assert (refused.status_code, field in refused.json()["detail"]) == (409, True), refused.text
    assert "PAUSED" in refused.json()["remedy"]


@pytest.mark.parametrize("field", FREE)
def test_what_no_run_depends_on_may_be_edited_while_it_runs(running: Api, field: str) -> None:
    assert running.patch("busy", {field: FREE[field]}).json()["config"][field] == FREE[field]


def test_every_field_is_locked_or_free() -> None:
    assert LOCKED.keys() | FREE.keys() == PipelinePatch.model_fields.keys() - {"source_type", "part_of"}


def test_a_locked_field_with_its_own_value_is_no_edit(running: Api) -> None:
    assert running.patch("busy", {"mode": "full", "source_query": FILMS}).status_code == 200


@pytest.mark.scenario(20)
def test_a_pipeline_is_not_deleted_while_it_runs(running: Api) -> None:
    refused = running.ask("DELETE", "/pipelines/busy")
    assert (refused.status_code, "pause it" in refused.json()["remedy"]) == (409, True)


@pytest.mark.parametrize("status", ["IDLE", "RUN_REQUESTED", "PAUSED", "FAILED"])
def test_everything_may_be_edited_and_deleted_when_nothing_runs(api: Api, status: str) -> None:
    api.create()
    api.set_status(status)
    query = {"source_query": CHANGED_FILMS, "mode": "incremental", "incremental_key": "modified"}
    assert api.patch("films", query).status_code == 200
    assert api.ask("DELETE", "/pipelines/films").status_code == 204
    assert api.ask("GET", "/pipelines/films").status_code == 404
    assert api.ask("DELETE", "/pipelines/films").status_code == 404


# ── labels ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_pipelines_are_listed_by_labels_all_of_which_must_be_there(api: Api) -> None:
    api.create("films", labels=["team:search", "tier:1"])
    api.create("people", labels={"team": "search"})
    api.create("genres")

    def found(*labels: str) -> list[str]:
        return [row["name"] for row in api.get("/pipelines", params={"label": labels})["items"]]

    assert found("team:search") == found("team") == ["films", "people"]
    assert found("team", "tier:1") == ["films"]
    assert found("team:sea") == []
    assert len(found()) == 3
    refused = api.ask("GET", "/pipelines", params={"label": "a b"})
    assert (refused.status_code, "label" in refused.text) == (422, True)
    assert api.patch("people", {"labels": None}).json()["config"]["labels"] == []
