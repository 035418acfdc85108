"""Pipelines to an index over HTTP, where no Elasticsearch is: the control plane talks to none."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.server import CHANGED_FILMS, FILMS, Api, config, serve
from tests.support import Lab

FILM_INDEX: dict[str, Any] = {"source_query": FILMS, "target_table": "es:films"}


@pytest.fixture(scope="module")
def shared() -> Iterator[Api]:
    """An API that allows indexes."""
    with Lab.open("vitrina_template", allowed_es_indexes=["films*"]) as lab, serve(lab) as api:
        yield api


def found(api: Api, level: str, **changes: Any) -> list[tuple[str, str]]:
    """Where and what validation says on a level."""
    answer = api.post("/validate", config(**(FILM_INDEX | changes)))
    assert answer.status_code == 200, answer.text
    return [(f["where"], f["message"]) for f in answer.json()["findings"] if f["level"] == level]


def test_the_mapping_that_the_query_gives_is_shown(api: Api) -> None:
    said = "would create index films with film_id keyword, title text, rating double"
    assert ("target_table", said) in found(api, "info")


def test_the_pipelines_own_mapping_wins(api: Api) -> None:
    said = "would create index films with film_id keyword, title search_as_you_type, rating double"
    assert ("target_table", said) in found(api, "info", mapping={"title": {"type": "search_as_you_type"}})


def test_no_elasticsearch_is_a_warning_and_the_only_one(api: Api) -> None:
    ((where, message),) = found(api, "warning")
    assert (where, "ELASTICSEARCH_URL is not set" in message) == ("target_table", True)
    assert found(api, "error") == []
    assert api.post("/pipelines", config(**FILM_INDEX)).status_code == 201


def test_a_run_without_elasticsearch_fails_in_a_sentence_and_no_other_run_does(api: Api) -> None:
    index, table = api.create(**FILM_INDEX), api.create("table")
    lab = api.lab
    for made in (index, table):
        api.post(f"/pipelines/{made['id']}/run")
    with lab.runner():
        assert api.wait_for("films", "FAILED", "IDLE")["status"] == "FAILED"
        assert api.wait_for("table", "FAILED", "IDLE")["status"] == "IDLE"
    run = api.get("/pipelines/films/runs")["items"][0]
    assert (run["status"], run["attempt"]) == ("FAILED", 1)
    assert "ELASTICSEARCH_URL is not set" in run["error"]
    assert run["remedy"].startswith("set it to http")


@pytest.mark.parametrize(
    ("wrong", "where", "said"),
    [
        ({"target_table": "es:people"}, "target_table", "VITRINA_ALLOWED_ES_INDEXES allows films*"),
        ({"target_table": "es:Films"}, "target_table", "no mart can be called so"),
        ({"mapping": {"titel": {"type": "text"}}}, "mapping", "mapping names titel"),
        ({"mapping": {"title": {}}}, "mapping", "mapping of title has no type"),
        ({"mapping": {"title": {"type": 5}}}, "mapping", "mapping of title has no type"),
        ({"key": ["nothing"]}, "target_table", "nothing"),
        ({"key": []}, "configuration", "needs a key"),
        ({"publish": "atomic"}, "configuration", "publish: atomic is for tables"),
        ({"source_query": 'SELECT id AS film_id, title AS "a.b" FROM content.film_work'}, "target_table", "'a.b'"),
        ({"target_table": "analytics.films", "adopt": True}, "configuration", "adopt is for an index"),
        ({"target_table": "analytics.films", "settings": {"a": 1}}, "configuration", "settings is for an index"),
    ],
)
def test_what_is_wrong_is_refused_with_where(api: Api, wrong: dict[str, Any], where: str, said: str) -> None:
    response = api.post("/pipelines", config(**(FILM_INDEX | wrong)))
    assert response.status_code == 422, response.text
    errors = [f for f in response.json()["findings"] if f["level"] == "error"]
    assert any(f["where"] == where and said in f["message"] for f in errors), errors


def test_a_type_that_nobody_knows_is_a_warning(api: Api) -> None:
    assert ("mapping", True) in [
        (where, "'texxt' is no type" in said)
        for where, said in found(api, "warning", mapping={"title": {"type": "texxt"}})
    ]


def test_adopting_warns_that_whole_documents_are_replaced(api: Api) -> None:
    warned = [said for where, said in found(api, "warning", adopt=True) if where == "adopt"]
    assert len(warned) == 1
    assert "whole documents" in warned[0]


def test_an_object_needs_no_type(api: Api) -> None:
    query = "SELECT id AS film_id, jsonb_build_object('a', 1) AS more FROM content.film_work"
    mapping = {"more": {"properties": {"a": {"type": "short"}}}}
    said = "would create index films with film_id keyword, more object"
    assert ("target_table", said) in found(api, "info", source_query=query, mapping=mapping)


def test_mapping_settings_and_adopt_are_stored_and_edited(api: Api) -> None:
    own: dict[str, Any] = {
        "mapping": {"title": {"type": "keyword"}},
        "settings": {"number_of_shards": 2},
        "adopt": True,
    }
    api.create(**FILM_INDEX, **own)
    assert {name: api.get("/pipelines/films")["config"][name] for name in own} == own
    edited = api.patch("films", {"mapping": {"rating": {"type": "float"}}, "settings": None, "adopt": None}).json()
    assert edited["config"]["mapping"] == {"rating": {"type": "float"}}
    assert (edited["config"]["settings"], edited["config"]["adopt"]) == ({}, False)


@pytest.mark.parametrize(
    "change",
    [
        {"mapping": {"title": {"type": "keyword", "null_value": "a\0b"}}},
        {"settings": {"a\0b": 1}},
        {"settings": {"a": float("nan")}},
        {"settings": {"a": "half a character \ud800"}},
    ],
    ids=["null character", "null name", "no number", "half a character"],
)
def test_what_postgres_cannot_hold_is_refused(api: Api, change: dict[str, Any]) -> None:
    body = json.dumps(config(**(FILM_INDEX | change)))
    response = api.ask("POST", "/pipelines", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 422, response.text
    assert api.get("/pipelines")["items"] == []


def test_incremental_and_transforms_validate_too(api: Api) -> None:
    query = {"source_query": CHANGED_FILMS, "mode": "incremental", "incremental_key": "modified"}
    assert found(api, "error", **query) == []
    assert found(api, "error", type="PYTHON", python_task="normalise_title") == []
