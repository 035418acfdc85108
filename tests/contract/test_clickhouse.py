"""Pipelines to ClickHouse over HTTP, where there is none: the control plane talks to none."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from tests.contract.server import Api, config, serve
from tests.support import Lab
from vitrina.domain.errors import ConfigError
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.clickhouse.client import ClickHouse
from vitrina.sinks.registry import look_at_sinks

SELECT = "SELECT f.id AS film_id, f.title, {} FROM content.film_work f"
MART: dict[str, Any] = {
    "source_query": SELECT.format("CAST(f.rating AS numeric(4, 1)) AS rating"),
    "target_table": "ch:cinema.films",
}
COLUMNS = (
    "`film_id` UUID COMMENT 'uuid', `title` Nullable(String) COMMENT 'text',"
    " `rating` Nullable(Decimal(4, 1)) COMMENT 'numeric(4,1)', vitrina_id String, vitrina_version UInt64,"
    " vitrina_deleted UInt8"
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Api]:
    """An API that allows one database."""
    with Lab.open("vitrina_template", allowed_clickhouse_tables=["cinema.*"]) as lab, serve(lab) as api:
        yield api


def test_the_statements_of_the_next_run_are_shown(api: Api) -> None:
    findings = api.post("/validate", config(**MART)).json()["findings"]
    said = [f["data"]["statement"] for f in findings if f["code"] == "would_create_table"]
    assert said[0].startswith(f"CREATE TABLE `cinema`.`films-000001` ({COLUMNS}) ENGINE = Merge(")
    assert said[1] == (
        f"CREATE TABLE `cinema`.`films-000001-e1` ({COLUMNS}, INDEX by_id vitrina_id TYPE bloom_filter)"
        " ENGINE = ReplacingMergeTree(vitrina_version, vitrina_deleted) ORDER BY (`film_id`, vitrina_id)"
    )
    assert said[2].endswith(
        "AS SELECT `film_id`, `title`, `rating` FROM `cinema`.`films-000001` FINAL WHERE vitrina_deleted = 0"
    )


def test_no_clickhouse_is_a_warning_and_a_run_fails_in_a_sentence(api: Api) -> None:
    made = api.create(**MART)
    assert [f["code"] for f in made["findings"] if f["level"] in ("warning", "error")] == ["no_clickhouse"]
    api.post(f"/pipelines/{made['id']}/run")
    with api.lab.runner():
        api.wait_for("films", "FAILED", "IDLE")
    run = api.get("/pipelines/films/runs")["items"][0]
    assert (run["status"], run["error"]) == ("FAILED", "there is no ClickHouse: VITRINA_CLICKHOUSE_URL is not set")
    assert run["remedy"] == "set it to http://user:password@host:8123"


@pytest.mark.parametrize(
    ("wrong", "where", "said"),
    [
        ({"target_table": "ch:other.films"}, "target_table", "VITRINA_ALLOWED_CLICKHOUSE_TABLES allows cinema.*"),
        ({"target_table": "ch:films"}, "target_table", "no mart can be called so"),
        ({"target_table": "ch:cinema.Films"}, "target_table", "no mart can be called so"),
        ({"source_query": SELECT.format("f.rating::numeric AS rating")}, "target_table", "column rating is numeric"),
        ({"source_query": SELECT.format("f.title::bytea AS t")}, "target_table", "column t is bytea"),
        (
            {"source_query": SELECT.format("ARRAY[now()] AS t")},
            "target_table",
            "column t is timestamp",
        ),
        ({"source_query": SELECT.format('1 AS "a.b"')}, "target_table", "'a.b'"),
        ({"source_query": SELECT.format("1 AS vitrina_id")}, "source_query", "vitrina_id"),
        ({"key": []}, "configuration", "needs a key"),
        ({"publish": "atomic"}, "configuration", "publish: atomic is for tables"),
        ({"mapping": {"title": {"type": "text"}}}, "configuration", "mapping is for an index"),
    ],
)
def test_what_is_wrong_is_refused_with_where(api: Api, wrong: dict[str, Any], where: str, said: str) -> None:
    response = api.post("/pipelines", config(**(MART | wrong)))
    assert response.status_code == 422, response.text
    errors = [f for f in response.json()["findings"] if f["level"] == "error"]
    assert any(f["where"] == where and said in f["message"] and f["remedy"] for f in errors), errors


def test_without_the_package_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clickhouse_connect", None)
    with pytest.raises(ConfigError, match="need the package clickhouse-connect") as caught:
        ClickHouse(Settings(clickhouse_url=SecretStr("http://localhost:1"))).version()
    assert "pip install 'vitrina[clickhouse]'" in caught.value.remedy


UNREADABLE = ["localhost:8123", "tcp://host:9000", "http://", "http://me:plan/ted@host:8123", "http://me:plan[ted@host"]


@pytest.mark.parametrize("url", UNREADABLE)
def test_an_address_that_cannot_be_read_is_not_quoted(url: str) -> None:
    settings = Settings(clickhouse_url=SecretStr(url))
    with pytest.raises(ConfigError, match=r"VITRINA_CLICKHOUSE_URL cannot be read") as caught:
        ClickHouse(settings).version()
    assert "http://user:password@host:8123" in caught.value.remedy
    assert "plan" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert "cannot be read" in look_at_sinks(settings, Neighbours())["clickhouse"]["error"]


def test_a_secret_may_be_in_a_file_and_is_in_no_error(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "url").write_text("http://vitrina:planted@127.0.0.1:1\n")
    monkeypatch.setenv("VITRINA_CLICKHOUSE_URL_FILE", str(tmp_path / "url"))
    with pytest.raises(Exception, match="does not answer") as caught:
        ClickHouse(Settings()).version()
    assert "http://127.0.0.1:1" in str(caught.value)
    assert "planted" not in repr(caught.value) + str(Settings())
