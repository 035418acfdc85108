"""Checks as the API, the console and metrics show them."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client import generate_latest

from tests.contract.server import Api
from tests.contract.test_console import sign_in
from tests.contract.test_metrics import of_api, samples
from vitrina.meta.repos.runs import RunRepo
from vitrina.metrics.events import REGISTRY
from vitrina.runner.main import Runner

CHECKS: list[dict[str, Any]] = [
    {"name": "titled", "not_null": ["title"], "effect": "block"},
    {"name": "low", "condition": "rating < 100", "effect": "warn"},
    {"name": "enough", "row_count": {"at_least": 1_000}, "effect": "warn"},
]


@pytest.fixture
def films(api: Api) -> Api:
    """A mart with checks, and one film that breaks one."""
    api.create(checks=CHECKS)
    first = "(SELECT id FROM content.film_work ORDER BY id LIMIT 1)"
    api.lab.sql(f"UPDATE content.film_work SET rating = 100 WHERE id = {first}")
    return api


def run(api: Api) -> dict[str, Any]:
    """The row of a run that ends here."""
    assert api.post("/pipelines/films/run").status_code == 202
    Runner(api.lab.connections).run_once()
    id_ = api.lab.value("SELECT id FROM etl.etl_pipelines WHERE name = 'films'")
    return dict(RunRepo(api.lab.db).recent(id_, 1)[0])


@pytest.fixture
def browser(films: Api) -> Iterator[httpx.Client]:
    with sign_in(films, "viewer") as browser:
        yield browser


def test_status_and_run_tell_what_is_not_kept_in_words(films: Api) -> None:
    before = films.get("/pipelines/films/status")["checks"]
    assert [(check["name"], check["outcome"], check["said"]) for check in before] == [
        (check["name"], None, "has not been asked yet") for check in CHECKS
    ]
    done = run(films)
    status, key = (
        films.get("/pipelines/films/status"),
        str(films.lab.value("SELECT min(id::text) FROM content.film_work")),
    )
    assert [(c["name"], c["kind"], c["effect"], c["outcome"], c["rows"], c["run_id"]) for c in status["checks"]] == [
        ("titled", "not_null", "block", "kept", 0, done["id"]),
        ("low", "condition", "warn", "broken", 1, done["id"]),
        ("enough", "row_count", "warn", "broken", 60, done["id"]),
    ]
    assert status["checks"][1]["said"] == f"is broken by 1 row: film_id = {key}"
    assert status["checks"][2]["said"] == "is broken: the mart has 60 rows"
    assert [incident["kind"] for incident in status["incidents"]] == ["check"]
    broken = films.get(f"/runs/{done['id']}")["broken_checks"]
    assert [(c["name"], c["keys"]) for c in broken] == [("enough", []), ("low", [{"film_id": key}])]
    assert films.get("/pipelines/films/runs")["items"][0]["broken_checks"] == broken


def test_both_pages_show_them(films: Api, browser: httpx.Client) -> None:
    done = run(films)
    for page in ("/pipelines/films", f"/runs/{done['id']}"):
        shown = browser.get(page).text
        for words in ("titled", "kept", "low", "broken", "rows that break it: 1", "film_id = ", "the mart has 60 rows"):
            assert words in shown, page
    needs = browser.get("/").text.partition('id="needs"')[2].partition("</section>")[0]
    assert "breaks a check since" in needs
    assert "enough, low" in needs
    russian = browser.get("/pipelines/films", headers={"Accept-Language": "ru"}).text
    assert "нарушающих строк: 1" in russian
    assert "rows that break" not in russian


def test_metrics_count_them(films: Api) -> None:
    run(films)
    told = samples(of_api(films))
    assert told["vitrina_pipeline_checks_broken", ("films", "analytics.films")] == 2
    counted = samples(generate_latest(REGISTRY).decode())
    assert counted["vitrina_checks_broken_total", ("films", "broken", "analytics.films")] >= 2


def test_a_check_that_cannot_be_asked_is_refused_with_its_place(films: Api) -> None:
    refused = films.patch("films", {"checks": [{"name": "c", "condition": "nothing > 1"}]})
    assert refused.status_code == 422
    [found] = [f for f in refused.json()["findings"] if f["level"] == "error"]
    assert (found["where"], found["message"]) == ("checks", "check 'c': column \"nothing\" does not exist")


def test_the_form_takes_checks_as_yaml(films: Api) -> None:
    with sign_in(films, "admin") as admin:
        form = admin.get("/pipelines/films/edit").text
    assert 'name="checks"' in form
    assert "rating &lt; 100" in form
