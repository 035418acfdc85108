"""A pipeline of several targets over HTTP: made, edited, run, and asked as one, or target by target."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.contract.server import CHANGED_FILMS, Api, config
from tests.contract.test_console import sign_in
from tests.patience import wait, wait_for
from vitrina.cli import changes
from vitrina.client import Client
from vitrina.meta.db import connect
from vitrina.runner.main import Runner

TARGETS = ["analytics.one", "analytics.two"]
ONE, TWO = (f"films@{target}" for target in TARGETS)


def shared(**more: Any) -> dict[str, Any]:
    made = config(targets=TARGETS) | more
    del made["target_table"]
    return made


def test_it_is_one_object_with_each_target_in_it(api: Api) -> None:
    made = api.post("/pipelines", shared())
    assert made.status_code == 201, made.text
    row = api.get("/pipelines/films")
    assert (row["target"], row["config"]["targets"]) == (None, TARGETS)
    assert [(each["name"], each["target"], each["status"]) for each in row["members"]] == [
        (ONE, TARGETS[0], "IDLE"),
        (TWO, TARGETS[1], "IDLE"),
    ]
    assert api.get(f"/pipelines/{ONE}")["config"]["part_of"] == row["id"]
    assert [each["name"] for each in api.get("/pipelines")["items"]] == ["films", ONE, TWO]


def test_what_is_true_of_one_target_alone_says_whose_it_is(api: Api) -> None:
    found = api.post("/validate", shared()).json()["findings"]
    assert [(f["code"], f["target"]) for f in found if f["where"] == "target_table"] == [
        ("would_create_table", target) for target in TARGETS
    ]
    assert [f["target"] for f in found if f["code"] == "gives"] == [None]
    wrong = api.post("/pipelines", shared(targets=["analytics.one", "elsewhere.two"]))
    assert wrong.status_code == 422
    assert [f["target"] for f in wrong.json()["findings"] if f["level"] == "error"] == ["elsewhere.two"]


def test_target_table_and_targets_exclude_each_other_and_part_of_is_not_to_be_set(api: Api) -> None:
    assert "leave one of them out" in api.post("/pipelines", config(targets=TARGETS)).text
    made = api.create()
    assert api.post("/pipelines", config("more", part_of=made["id"])).status_code == 422
    assert api.patch("films", {"part_of": made["id"]}).status_code == 422
    assert api.patch("films", {"part_of": None}).status_code == 200


def test_what_none_of_the_targets_takes_is_refused(api: Api) -> None:
    assert "mapping is for another kind" in api.post("/pipelines", shared(mapping={"title": {}})).text


def test_a_target_that_another_pipeline_keeps_is_refused(api: Api) -> None:
    api.create("other", target_table=TARGETS[1])
    refused = api.post("/pipelines", shared())
    assert (refused.status_code, "analytics.two" in refused.json()["detail"]) == (409, True)


def test_running_and_pausing_the_whole_is_asked_of_each(api: Api) -> None:
    api.post("/pipelines", shared())
    asked = api.post("/pipelines/films/run").json()
    assert [(each["name"], each["status"], each["changed"]) for each in asked["members"]] == [
        (ONE, "RUN_REQUESTED", True),
        (TWO, "RUN_REQUESTED", True),
    ]
    assert (asked["status"], asked["changed"]) == ("RUN_REQUESTED", True)
    assert api.lab.value("SELECT count(DISTINCT due_at) FROM etl.etl_pipelines WHERE part_of IS NOT NULL") == 1
    assert api.post("/pipelines/films/pause").json()["status"] == "PAUSED"
    assert api.post(f"/pipelines/{ONE}/run").json()["status"] == "RUN_REQUESTED"
    assert api.get(f"/pipelines/{TWO}")["status"] == "PAUSED"


def test_an_idempotency_key_stands_for_the_runs_of_all(api: Api) -> None:
    api.post("/pipelines", shared())
    key = {"Idempotency-Key": "once"}
    first = api.post("/pipelines/films/run", headers=key).json()
    api.post("/pipelines/films/pause")
    again = api.post("/pipelines/films/run", headers=key).json()
    assert [each["status"] for each in again["members"]] == [each["status"] for each in first["members"]]
    assert api.get("/pipelines/films")["status"] == "PAUSED"


def test_one_target_is_neither_edited_nor_deleted_nor_disabled_by_itself(api: Api) -> None:
    api.post("/pipelines", shared())
    for refused in (
        api.patch(ONE, {"batch_size": 7}),
        api.ask("DELETE", f"/pipelines/{ONE}"),
        api.post(f"/pipelines/{ONE}/disable"),
    ):
        assert (refused.status_code, refused.json()["remedy"]) == (409, "change 'films' instead")
    assert api.post("/pipelines/films/disable").status_code == 200
    assert api.get(f"/pipelines/{TWO}")["config"]["enabled"] is False


def test_what_only_one_mart_has_is_asked_of_one(api: Api) -> None:
    api.post("/pipelines", shared())
    for method, path in (("GET", "state"), ("GET", "runs"), ("POST", "reconcile"), ("GET", "reconcile")):
        refused = api.ask(method, f"/pipelines/films/{path}")
        assert (refused.status_code, refused.json()["remedy"]) == (409, f"name one of them: {ONE}, {TWO}")
    assert len(api.post("/pipelines/films/preview", {"limit": 3}).json()["rows"]) == 3


def test_an_edit_is_held_up_only_by_a_target_that_it_concerns(api: Api) -> None:
    api.post("/pipelines", shared())
    api.lab.sql("UPDATE etl.etl_pipelines SET status = 'RUNNING' WHERE name = %s", ONE)
    assert api.patch("films", {"source_query": CHANGED_FILMS}).status_code == 409
    assert api.patch("films", {"targets": [TARGETS[1]]}).status_code == 409
    assert api.patch("films", {"targets": [*TARGETS, "analytics.three"]}).status_code == 200
    assert api.patch("films", {"batch_size": 7}).status_code == 200
    assert api.ask("DELETE", "/pipelines/films").status_code == 409


def test_from_one_target_to_several_and_back_the_first_keeps_what_it_has_done(api: Api, runner: Runner) -> None:
    first = api.create()
    with Client(api.url, api.tokens["admin"]) as client:
        client.wait(client.run("films"), 30)
        asked = api.patch("films", {"target_table": None, "targets": ["analytics.films", "analytics.two"]})
        assert asked.status_code == 200, asked.text
        assert [each["name"] for each in asked.json()["members"]] == ["films@analytics.films", "films@analytics.two"]
        assert api.get("/pipelines/films@analytics.films")["id"] == first["id"]
        assert len(api.get("/pipelines/films@analytics.films/runs")["items"]) == 1
        done = client.wait(client.run("films"), 30)
        assert done.status == "SUCCESS"
        assert client.reconcile("films@analytics.two").equal
        back = api.patch("films", {"target_table": "analytics.films", "targets": None})
        assert back.status_code == 200, back.text
        assert (back.json()["id"], back.json()["members"]) == (first["id"], [])
        assert [each["name"] for each in api.get("/pipelines")["items"]] == ["films"]
        client.wait(client.run("films"), 30)
        assert api.patch("films", {"batch_size": 9}).status_code == 200


def test_the_client_waits_for_all_and_applies_what_is_there_as_nothing(api: Api, runner: Runner) -> None:
    with Client(api.url, api.tokens["admin"]) as client:
        client.apply(shared())
        assert client.apply(shared()).version == 1
        api.lab.sql("CREATE TABLE analytics.two (film_id text PRIMARY KEY, title integer)")
        asked = client.run("films")
        done = wait(lambda: client.outcome(asked), lambda outcome: outcome.ended)
        assert done.run is not None
        assert done.run.status == "FAILED"
        assert [each["status"] for each in client.status("films").members] == ["IDLE", "FAILED"]


def test_the_page_of_the_whole_has_a_row_for_each_and_that_of_one_leads_back(api: Api) -> None:
    api.post("/pipelines", shared())
    with sign_in(api, "admin") as console:
        assert console.get("/pipelines/films").text.count('id="row-') == 2
        assert "one of the targets of" in console.get(f"/pipelines/{ONE}").text
        listed = console.get("/").text
        assert (listed.count('id="row-'), ONE in listed) == (2, True)
        for path in ("/pipelines/films/config", "/pipelines/films/edit", "/live/pipelines/films/overview?once=true"):
            assert console.get(path).status_code == 200, path
        assert "run requested" in console.post("/pipelines/films/run").headers["HX-Trigger"]
    assert api.get("/pipelines/films")["status"] == "RUN_REQUESTED"


def test_the_whole_is_not_deleted_under_a_target_that_runs_whatever_the_others_are(api: Api) -> None:
    api.post("/pipelines", shared())
    api.lab.sql("UPDATE etl.etl_pipelines SET status = 'RUNNING' WHERE name = %s", ONE)
    for status in ("RUNNING", "FAILED"):
        api.lab.sql("UPDATE etl.etl_pipelines SET status = %s WHERE name = %s", status, TWO)
    refused = api.ask("DELETE", "/pipelines/films")
    assert (refused.status_code, ONE in refused.json()["detail"]) == (409, True)
    [edit] = changes.compare([], [api.get("/pipelines/films")], prune=True).changes
    assert [error["code"] for error in edit.errors] == ["deleted_under_way"]


def test_an_edit_that_leaves_out_the_target_that_there_is_is_refused(api: Api) -> None:
    made = api.create()
    refused = api.patch("films", {"target_table": None, "targets": TARGETS})
    assert (refused.status_code, "is not among the targets" in refused.json()["detail"]) == (409, True)
    assert api.get("/pipelines/films")["id"] == made["id"]


def test_asking_again_while_a_target_takes_rows_and_for_newer_rows(api: Api) -> None:
    api.post("/pipelines", shared())
    api.post("/pipelines/films/run")
    api.lab.sql("UPDATE etl.etl_pipelines SET due_at = '2020-01-01' WHERE part_of IS NOT NULL")
    with connect(api.lab.conninfo, "taking") as other, other.transaction():
        other.execute("SELECT FROM etl.etl_pipelines WHERE name = 'films' FOR KEY SHARE")  # as a foreign key does
        assert api.post("/pipelines/films/run").json()["changed"] is False
    assert api.lab.value(
        "SELECT min(due_at) > now() - interval '1 min' FROM etl.etl_pipelines WHERE part_of IS NOT NULL"
    )


def test_a_format_is_for_the_targets_that_have_one(api: Api) -> None:
    mixed = shared(targets=["analytics.one", "file:///nowhere/films"], format="parquet")
    found = api.post("/validate", mixed).json()["findings"]
    assert [f for f in found if "format is for" in f["message"]] == []
    assert "format is for another kind" in api.post("/pipelines", shared(format="parquet")).text


def test_a_target_that_is_claimed_while_somebody_deletes_the_whole_is_seen(api: Api) -> None:
    api.post("/pipelines", shared())
    waits = """SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%%NO KEY UPDATE%%'
        AND datname = current_database()"""
    with connect(api.lab.conninfo, "claiming") as other, ThreadPoolExecutor() as pool:
        with other.transaction():
            other.execute("UPDATE etl.etl_pipelines SET status = 'RUNNING' WHERE name = %s", [TWO])
            asked = pool.submit(api.ask, "DELETE", "/pipelines/films")
            wait_for(lambda: api.lab.value(waits) == 1)
        assert (asked.result().status_code, TWO in asked.result().json()["detail"]) == (409, True)
