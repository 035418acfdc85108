"""Preview and reconcile over HTTP, the latter and plans with transforms through a real runner."""

import pytest

from tests.contract.server import FILMS, PLAN, Api, config
from tests.patience import wait
from vitrina.control.services import requests
from vitrina.control.services.validation import Validation
from vitrina.runner.main import Runner

ENDLESS = "SELECT count(*) AS film_id FROM generate_series(1, 20000) a, content.film_work b, content.film_work c"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a runner that is not there."""
    monkeypatch.setattr(requests, "WAIT_SECONDS", 0.2)


def test_preview_of_a_query(api: Api) -> None:
    api.create(source_query=FILMS + " ORDER BY title")
    shown = api.post("/pipelines/films/preview", {"limit": 3}).json()
    assert [column["name"] for column in shown["columns"]] == ["film_id", "title", "rating"]
    assert (len(shown["rows"]), shown["more"], [step["type"] for step in shown["steps"]]) == (3, True, ["SQL"])
    assert len(api.post("/pipelines/films/preview").json()["rows"]) == 20


def test_preview_of_a_plan_is_answered_by_a_runner(api: Api, runner: Runner) -> None:
    api.post("/pipelines", PLAN)
    response = api.post("/pipelines/catalog/preview", {"limit": 2})
    assert response.status_code == 200, response.text
    assert [step["name"] for step in response.json()["steps"]] == ["query", "normalise_title"]


@pytest.mark.usefixtures("impatient")
def test_preview_without_a_runner_says_where_to_look(api: Api) -> None:
    api.post("/pipelines", PLAN)
    response = api.post("/pipelines/catalog/preview")
    assert (response.status_code, response.json()["status"]) == (202, "REQUESTED")
    path = response.headers["Location"].removeprefix("/api/v1")
    assert api.get(path, role="operator")["id"] == response.json()["id"]
    assert api.ask("GET", path, role="viewer").status_code == 403  # a preview is data


def test_preview_never_writes(api: Api, runner: Runner) -> None:
    api.create()
    api.post("/pipelines", PLAN)
    api.post("/pipelines/films/preview")
    api.post("/pipelines/catalog/preview")
    assert api.lab.value("SELECT count(*) FROM pg_tables WHERE schemaname IN ('analytics', 'etl_stage')") == 0
    assert api.lab.value("SELECT count(*) FROM etl.etl_runs") == 0


def test_preview_of_what_the_guard_refuses_is_not_executed(api: Api) -> None:
    api.create()
    for select, said in (("SELECT pg_sleep(60)", "pg_sleep"), ("SELECT login FROM auth.users", "schema auth")):
        api.lab.sql("UPDATE etl.etl_pipelines SET source_query = %s", select)
        refused = api.post("/pipelines/films/preview")
        assert (refused.status_code, said in refused.json()["detail"]) == (422, True)


def test_preview_ends_in_time(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitrina.inquiries.preview.TIMEOUT_SECONDS", 0.3)
    api.create()
    api.lab.sql("UPDATE etl.etl_pipelines SET source_query = %s", ENDLESS)
    refused = api.post("/pipelines/films/preview")
    assert (refused.status_code, "first rows" in refused.json()["detail"]) == (422, True), refused.text


@pytest.mark.parametrize("body", [{"limit": 0}, {"limit": 201}, {"limit": "x"}, {"rows": 1}])
def test_preview_refuses_wrong_bodies(api: Api, body: dict[str, object]) -> None:
    assert api.post("/pipelines/films/preview", body).status_code == 422


def test_reconcile_before_anybody_asked(api: Api) -> None:
    api.create()
    assert api.get("/pipelines/films/reconcile") is None


def test_reconcile_shows_what_differs_and_repair_cures_it(api: Api, runner: Runner) -> None:
    api.create()
    api.post("/pipelines/films/run")
    wait(lambda: api.get("/pipelines/films/status"), lambda s: s["status"] == "IDLE" and s["last_run"])
    equal = api.post("/pipelines/films/reconcile").json()
    assert (equal["status"], equal["result"]["equal"], equal["result"]["mart_rows"]) == ("DONE", True, 60)

    (first,), (second,) = api.lab.sql("SELECT film_id FROM analytics.films LIMIT 2")
    api.lab.sql("UPDATE analytics.films SET title = 'wrong' WHERE film_id = %s", first)
    api.lab.sql("DELETE FROM analytics.films WHERE film_id = %s", second)
    asked = api.post("/pipelines/films/reconcile", {"sample": 1, "control_field": "rating"}).json()
    report = wait(lambda: api.get(f"/requests/{asked['id']}"), lambda row: row["finished_at"])["result"]
    assert (report["equal"], report["missing"], report["different"], report["extra"]) == (False, 1, 1, 0)
    assert report["control"]["field"] == "rating"
    assert api.get("/pipelines/films/reconcile", role="viewer")["result"] == report

    api.post("/pipelines/films/repair")
    wait(lambda: api.lab.value("SELECT count(*) FROM analytics.films WHERE title <> 'wrong'"), lambda n: n == 60)


@pytest.mark.usefixtures("impatient")
def test_the_last_report_is_shown_while_another_is_asked_for(api: Api) -> None:
    api.create()
    assert api.post("/pipelines/films/reconcile").status_code == 202
    assert api.get("/pipelines/films/reconcile")["status"] == "REQUESTED"
    api.lab.sql("UPDATE etl.etl_requests SET status = 'DONE', result = '{\"equal\": true}', finished_at = now()")
    api.post("/pipelines/films/reconcile")
    assert api.get("/pipelines/films/reconcile")["status"] == "DONE"
    assert [row[1] for row in api.audit()] == ["create", "reconcile", "reconcile"]


def test_a_reconcile_that_cannot_be_done_says_why(api: Api, runner: Runner) -> None:
    api.create()
    answer = api.post("/pipelines/films/reconcile").json()
    assert (answer["status"], "does not exist yet" in answer["error"]) == ("FAILED", True)


def test_a_request_that_is_not_there(api: Api) -> None:
    assert api.ask("GET", "/requests/9a9a9a9a-0000-4000-8000-000000000000").status_code == 404
    assert api.ask("GET", "/requests/x").status_code == 422


def test_validate_finds_without_storing(api: Api) -> None:
    assert api.post("/validate", config()).json()["valid"]
    bad = api.post("/validate", {"name": "x", "source_query": "SELECT 1", "target_table": "public.x"}).json()
    assert not bad["valid"]
    assert any(finding["where"] == "target_table" and finding["remedy"] for finding in bad["findings"])
    assert api.get("/pipelines")["items"] == []


def test_validate_executes_nothing_that_the_guard_refuses(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []
    monkeypatch.setattr(Validation, "_look_at", lambda *args: looked.append(args))
    for select in ("SELECT pg_sleep(1) AS film_id", "SELECT login AS film_id FROM auth.users", "DROP TABLE x"):
        assert api.post("/validate", config(source_query=select)).json()["valid"] is False
    assert looked == []


def test_validate_again_sees_what_has_changed(api: Api) -> None:
    api.create()
    assert api.post("/pipelines/films/validate").json()["valid"]
    api.lab.sql("CREATE TABLE analytics.films (film_id uuid PRIMARY KEY, other int)")
    again = api.post("/pipelines/films/validate").json()
    assert (again["valid"], again["findings"][-1]["where"] != "") == (False, True)
