"""Who sees data of which source: the matrix of roles, by what an answer holds rather than by its status."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.server import Api, config, running
from tests.contract.test_console import sign_in
from tests.support import wait_for

SECRET = "planted-in-the-source"
TWICE = "SELECT f.title AS film_id FROM content.film_work f, generate_series(1, 2) n WHERE f.title LIKE 'planted%'"
STORED = "SELECT f.id AS film_id, f.title FROM content.film_work f"


@pytest.fixture
def planted(api: Api) -> Iterator[Api]:
    """A source row whose title is a secret, in a query that is stored and in others that are not."""
    before = api.lab.value("SELECT title FROM content.film_work ORDER BY id LIMIT 1")
    where = "WHERE id = (SELECT id FROM content.film_work ORDER BY id LIMIT 1)"
    api.lab.sql(f"UPDATE content.film_work SET title = '{SECRET}' {where}")
    api.create(source_query=STORED)
    yield api
    api.lab.sql(f"UPDATE content.film_work SET title = %s {where}", before)


def unstored(query: str) -> dict[str, Any]:
    return config("unstored", source_query=query)


# A question about a row of the source, answered by whether a key comes twice.
ORACLE = "SELECT 1 AS film_id FROM content.film_work f WHERE f.title LIKE '{}%' UNION ALL SELECT 1"


def answers(api: Api, role: str, query: str) -> str:
    return api.post("/validate", unstored(query), role=role).text


def test_validating_what_is_not_stored_shows_an_operator_no_data(planted: Api) -> None:
    assert SECRET not in answers(planted, "operator", TWICE)
    assert SECRET in answers(planted, "admin", TWICE)


def test_nor_does_it_answer_questions_about_it(planted: Api) -> None:
    yes, no = (answers(planted, "operator", ORACLE.format(start)) for start in (SECRET, "no title begins so"))
    assert yes == no
    yes, no = (answers(planted, "admin", ORACLE.format(start)) for start in (SECRET, "no title begins so"))
    assert yes != no


# By checks and by an impact query: the second fails, or finds something, if and only if there is such a row.
ASKING = "SELECT 1 / (count(*) - count(*) FILTER (WHERE title LIKE '{}%')) AS film_id FROM content.film_work f"
ASKED_BY_KEY = "SELECT f.id AS film_id FROM content.film_work f JOIN changed c ON c.id = f.id WHERE f.title LIKE '{}%'"
ELSEWHERE: list[dict[str, Any]] = [
    {"checks": [{"name": "c", "effect": "warn", "empty": ASKING}]},
    {"checks": [{"name": "c", "effect": "warn", "empty": ORACLE}]},
    {"mode": "live", "impact": {"content.film_work": ASKED_BY_KEY}},
]


@pytest.mark.parametrize("more", ELSEWHERE, ids=["check that fails", "check that finds", "impact"])
def test_nor_do_checks_and_impact_queries(planted: Api, more: dict[str, Any]) -> None:
    said = []
    for start in (SECRET, "no title begins so"):
        asking = json.loads(json.dumps(more).replace("{}%", f"{start}%"))
        said.append(planted.post("/validate", unstored(STORED) | asking, role="operator").text.replace(start, "…"))
    assert said[0] == said[1]
    assert "findings" in said[0]


def test_an_operator_still_learns_what_is_wrong_with_a_configuration(planted: Api) -> None:
    assert "pg_sleep is VOLATILE" in answers(planted, "operator", "SELECT pg_sleep(1)::text AS film_id")
    assert "rows were not looked at" in answers(planted, "operator", STORED)


PREVIEW = """
    INSERT INTO etl.etl_requests (kind, pipeline_id, status, result, finished_at)
    SELECT 'preview', {}, 'DONE', jsonb_build_object('rows', '[["{}"]]'::jsonb), now() RETURNING id
"""


@pytest.mark.parametrize(("pipeline", "least"), [("(SELECT id FROM etl.etl_pipelines)", "operator"), ("NULL", "admin")])
def test_a_preview_is_for_who_may_ask_for_it(planted: Api, pipeline: str, least: str) -> None:
    request = planted.lab.value(PREVIEW.format(pipeline, SECRET))
    sees = {role: SECRET in planted.ask("GET", f"/requests/{request}", role).text for role in planted.tokens}
    assert sees == {"viewer": False, "operator": least == "operator", "admin": True}


def test_everybody_sees_what_is_in_a_mart_by_api_and_console_alike(planted: Api) -> None:
    with running(planted.lab):
        planted.post("/pipelines/films/run")
        wait_for(lambda: planted.get("/pipelines/films/status")["status"] == "IDLE", 20)
        wait_for(lambda: planted.lab.value("SELECT count(*) FROM etl.etl_runs WHERE status = 'SUCCESS'") > 0, 20)
    for role in planted.tokens:
        with sign_in(planted, role) as browser:
            assert SECRET in browser.get("/pipelines/films/data").text


def test_the_console_lets_nobody_but_an_admin_look_at_what_is_not_stored(planted: Api) -> None:
    for role in planted.tokens:
        with sign_in(planted, role) as browser:
            form = {
                "name": "x",
                "source_query": f"{STORED} WHERE title LIKE 'planted%'",
                "target_table": "analytics.x",
                "key": "film_id",
            }
            answer = browser.post("/editor/preview", data=form, headers={"Origin": planted.url})
            assert (SECRET in answer.text) is (role == "admin"), (role, answer.status_code)


COMMENT = "planted-in-a-comment"


def test_what_tables_a_source_has_is_for_operators(planted: Api) -> None:
    planted.lab.sql(f"COMMENT ON COLUMN content.film_work.title IS '{COMMENT}'")
    for role in planted.tokens:
        api = planted.ask("GET", "/sources/warehouse", role).text + planted.ask("GET", "/sources", role).text
        with sign_in(planted, role) as browser:
            page = "".join(browser.get(f"/sources{page}").text for page in ("", "/warehouse", "/warehouse/look"))
        assert (COMMENT in api, COMMENT in page) == (role != "viewer", role != "viewer"), role


def test_what_a_capture_would_run_is_for_admins(planted: Api) -> None:
    answer = {"statements": [SECRET], "role": "owner", "digest": "x", "done": False}
    request = planted.lab.value(
        "INSERT INTO etl.etl_requests (kind, status, result, finished_at)"
        f" VALUES ('capture', 'DONE', '{json.dumps(answer)}', now()) RETURNING id"
    )
    sees = {role: SECRET in planted.ask("GET", f"/requests/{request}", role).text for role in planted.tokens}
    assert sees == {"viewer": False, "operator": False, "admin": True}
