"""The doctor on sets-up of every kind."""

from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from tests.acceptance.client import vitrina
from tests.contract.server import Api
from vitrina import __version__
from vitrina.domain.diagnoses import Diagnosis


def levels(**expect: Any) -> dict[str, str]:
    """Each check's level, by what it is about."""
    return {check["about"]: check["level"] for check in vitrina("doctor", "-o", "json", **expect).json}


@pytest.fixture
def own_server(api: Api, monkeypatch: pytest.MonkeyPatch) -> Api:
    """By URL, with each role's own."""
    monkeypatch.setenv("VITRINA_DATABASE_URL", api.lab.conninfo)
    monkeypatch.setenv("VITRINA_ALLOWED_SOURCE_SCHEMAS", "content,ugc")
    for name, role in (("RUNNER_URL", "runner"), ("READER_URL", "reader"), ("API_ROLE_URL", "api")):
        monkeypatch.setenv(f"VITRINA_{name}", make_conninfo(api.lab.conninfo, user=f"vitrina_{role}"))
    return api


def test_all_is_well(own_server: Api) -> None:
    found = levels()
    assert set(found.values()) == {"ok"}
    files = {"temporary files, reader", "temporary files, runner"}
    machine = {"Python", "home", "disk", "transforms"}
    database = {"Postgres", "wal_level", "meta-store", "clock", "roles", "reader"}
    schemas = {"source schema content", "source schema ugc", "mart schema analytics"}
    assert set(found) == machine | database | schemas | files | {"Elasticsearch", "API", "token", "runners"}
    assert f"1 alive, version {__version__}" in vitrina("doctor").out


def test_nothing_is_running_is_no_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VITRINA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("vitrina.client.finding.DEFAULT_URL", "http://127.0.0.1:9")
    found = levels()
    assert (found["Postgres"], found["API"]) == ("warn", "warn")
    assert not (tmp_path / "home").exists()


def test_what_is_broken_is_named_with_its_remedy(own_server: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = own_server.lab
    lab.sql("REVOKE USAGE ON SCHEMA ugc FROM vitrina_reader; REVOKE CREATE ON SCHEMA analytics FROM vitrina_runner")
    monkeypatch.setenv("VITRINA_ALLOWED_SOURCE_SCHEMAS", "content,ugc,nowhere")
    monkeypatch.setenv("VITRINA_TRANSFORM_MODULES", "no_such_module")
    monkeypatch.setenv("VITRINA_SOURCES__FAR", "postgresql://127.0.0.1:9/far")
    monkeypatch.delenv("VITRINA_READER_URL")
    monkeypatch.setenv("VITRINA_TOKEN", "wrong")
    found = levels(expect=1)
    lab.sql("GRANT USAGE ON SCHEMA ugc TO vitrina_reader; GRANT CREATE ON SCHEMA analytics TO vitrina_runner")
    assert found["transforms"] == found["mart schema analytics"] == found["source far"] == found["token"] == "fail"
    assert found["source schema nowhere"] == found["roles"] == "warn"


def test_what_is_found_has_a_code_and_its_data_for_programs(own_server: Api) -> None:
    lab = own_server.lab
    lab.sql("REVOKE SELECT ON ugc.ratings FROM vitrina_reader")
    found = {check["about"]: check for check in vitrina("doctor", "-o", "json", expect=1).json}
    lab.sql("GRANT SELECT ON ugc.ratings TO vitrina_reader")
    closed = found["source schema ugc"]
    assert (closed["code"], closed["data"]["closed"]) == ("tables_closed", 1)
    assert closed["message"] == f"the reader may not read 1 of {closed['data']['tables']} tables"
    assert closed["remedy"] == "vitrina roles, as their owner"
    assert {check["code"] for check in found.values()} <= {*Diagnosis}


def test_a_reader_without_rights(own_server: Api) -> None:
    lab = own_server.lab
    lab.sql("REVOKE USAGE ON SCHEMA ugc FROM vitrina_reader; REVOKE SELECT ON content.genre FROM vitrina_reader")
    said = vitrina("doctor", expect=1).out
    lab.sql("GRANT USAGE ON SCHEMA ugc TO vitrina_reader; GRANT SELECT ON content.genre TO vitrina_reader")
    assert "source schema ugc: the reader may not read the schema" in said
    assert "source schema content: the reader may not read 1 of" in said


def test_no_migrations_no_server(api: Api, empty_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITRINA_DATABASE_URL", empty_db)
    assert levels(expect=1)["meta-store"] == "fail"
    monkeypatch.setenv("VITRINA_DATABASE_URL", "postgresql://127.0.0.1:9/nobody")
    assert levels(expect=1)["Postgres"] == "fail"
    monkeypatch.setenv("VITRINA_DATABASE_URL", "postgresql://u:hunter2@[broken")
    assert "hunter2" not in vitrina("doctor", expect=1).out


def test_wrong_settings_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITRINA_PORT", "many")
    assert "VITRINA_PORT" in vitrina("doctor", expect=1).err


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine with nothing on it."""
    monkeypatch.setenv("VITRINA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("vitrina.client.finding.DEFAULT_URL", "http://127.0.0.1:9")
    return monkeypatch


def about_search(*about: str, **expect: Any) -> list[tuple[str, str, str]]:
    """What it says about Elasticsearch, or these."""
    checks = vitrina("doctor", "-o", "json", **expect).json
    return [
        (c["about"], c["level"], c["message"]) for c in checks if c["about"] in (about or ("Elasticsearch", "indexes"))
    ]


def test_an_elasticsearch_that_answers(alone: pytest.MonkeyPatch, elastic: str) -> None:
    alone.setenv("ELASTICSEARCH_URL", elastic.replace("//", "//somebody:hunter2@"))
    server, indexes = about_search()
    assert server[:2] == ("Elasticsearch", "ok")
    assert f" at {elastic}, health " in server[2]
    assert indexes == ("indexes", "warn", "none is allowed: pipelines to es: are refused")
    alone.setenv("VITRINA_ALLOWED_ES_INDEXES", "film_*,people")
    assert about_search()[1] == ("indexes", "ok", "allowed: film_*, people")


def test_an_opensearch_is_looked_at_where_there_is_one(alone: pytest.MonkeyPatch, opensearch: str) -> None:
    about = ("OpenSearch", "OpenSearch indexes")
    assert about_search(*about) == []
    alone.setenv("OPENSEARCH_URL", opensearch.replace("//", "//somebody:hunter2@"))
    server, indexes = about_search(*about)
    assert server[:2] == ("OpenSearch", "ok")
    assert f" at {opensearch}, health " in server[2]
    assert indexes == ("OpenSearch indexes", "warn", "none is allowed: pipelines to os: are refused")
    alone.setenv("VITRINA_ALLOWED_OPENSEARCH_INDEXES", "film_*")
    assert about_search(*about)[1] == ("OpenSearch indexes", "ok", "allowed: film_*")
    alone.setenv("OPENSEARCH_URL", "http://somebody:hunter2@127.0.0.1:9")
    ((_, level, message),) = about_search(*about, expect=1)
    assert (level, "OpenSearch at http://127.0.0.1:9 does not answer" in message) == ("fail", True)


def test_an_elasticsearch_that_does_not_answer(alone: pytest.MonkeyPatch) -> None:
    alone.setenv("ELASTICSEARCH_URL", "http://somebody:hunter2@127.0.0.1:9")
    ((_, level, message),) = about_search(expect=1)
    assert level == "fail"
    assert "http://127.0.0.1:9 does not answer" in message
    assert "hunter2" not in vitrina("doctor", expect=1).out
