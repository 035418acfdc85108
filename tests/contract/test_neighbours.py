"""Who does not answer the runners, as people see it: console in both languages, API, metrics, doctor."""

import json

import pytest

from tests.contract.server import Api
from tests.contract.test_console import sign_in
from vitrina.cli.checking_services import find_neighbours
from vitrina.client import Client

FILMS = {"source_query": "SELECT id AS film_id, title FROM content.film_work", "key": ["film_id"]}
OUTAGE = {"shop": {"since": "2026-01-02T03:04:05+00:00", "error": "no route to host"}}


@pytest.fixture(autouse=True)
def _outage(api: Api) -> None:
    api.lab.sql(
        "INSERT INTO etl.etl_runners (id, name, version, slots, busy, neighbours)"
        " VALUES (gen_random_uuid(), 'here:1', '1', 4, 0, %s)",
        json.dumps(OUTAGE),
    )


@pytest.mark.parametrize(("language", "words"), [("en", "waits for shop since"), ("ru", "ждёт shop, началось")])
def test_the_console_tells_it_of_its_pipelines_and_of_no_others(api: Api, language: str, words: str) -> None:
    api.lab.add(name="waiting", target_table="analytics.waiting", source="shop", **FILMS)
    api.lab.add(name="healthy", target_table="analytics.healthy", **FILMS)
    with sign_in(api, "viewer") as browser:
        browser.headers["Accept-Language"] = language
        assert words in browser.get("/pipelines/waiting").text
        assert words not in browser.get("/pipelines/healthy").text
        assert words in browser.get("/system").text


@pytest.mark.parametrize(("language", "words"), [("en", "waits for the lake"), ("ru", "ждёт озеро")])
def test_the_console_tells_how_a_lake_answers(api: Api, language: str, words: str) -> None:
    seen, away = {"lake": {"version": "0.12.0", "milliseconds": 7.0}}, {"lake:": OUTAGE["shop"]}
    api.lab.sql("UPDATE etl.etl_runners SET sinks = %s, neighbours = %s", json.dumps(seen), json.dumps(away))
    with sign_in(api, "viewer") as browser:
        browser.headers["Accept-Language"] = language
        assert "pyiceberg 0.12.0" in browser.get("/system/health").text
        assert words in browser.get("/system").text


def test_the_api_and_doctor_tell_it(api: Api) -> None:
    assert api.get("/runners")[0]["neighbours"]["shop"]["error"] == "no route to host"
    with Client(api.url, api.tokens["viewer"]) as client:
        (check,) = find_neighbours(client.runners())
    assert (check.level, "waits for source shop since 2026-01-02" in check.message) == ("warn", True)


def test_the_metrics_tell_it(api: Api) -> None:
    assert "vitrina_neighbours_silent 1.0" in api.clients["viewer"].get("/metrics").text
