"""Who keeps a mart from going live, as people see it: API, command line, doctor, console in both languages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.acceptance.client import vitrina
from tests.contract.server import Api
from tests.contract.test_console import sign_in
from tests.living import living
from vitrina.cli import watching
from vitrina.cli.checking import waits

RATINGS = "SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id"


@dataclass
class Held:
    """A pipeline that waits for somebody's transaction."""

    api: Api
    pid: int


@pytest.fixture
def held(api: Api) -> Iterator[Held]:
    """By a real run, behind a real writer."""
    lab = api.lab
    with living(lab, "wal") as live, psycopg.connect(lab.conninfo, application_name="a slow writer") as writer:
        pipeline = live.add(RATINGS, name="votes", target_table="analytics.votes")
        lab.add(name="free", source_query=RATINGS, target_table="analytics.free", key=["film_id"])
        writer.execute("UPDATE ugc.ratings SET rating = rating")
        lab.run(pipeline)
        yield Held(api, writer.info.backend_pid)
    lab.sql("DROP TABLE content.marks")


def test_it_is_named_everywhere(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    api, said = held.api, f"session {held.pid} of postgres (a slow writer), idle in transaction, open since "
    found = api.get("/pipelines/votes/status", role="viewer")["waits"]
    assert (found["holder"]["pid"], found["holder"]["application_name"]) == (held.pid, "a slow writer")
    assert found["said"].startswith(said)
    assert f"pg_terminate_backend({held.pid})" in found["remedy"]
    assert api.get("/pipelines/free/status")["waits"] is None

    monkeypatch.setenv("VITRINA_URL", api.url)
    monkeypatch.setenv("VITRINA_TOKEN", api.tokens["viewer"])
    shown = " ".join(vitrina("status", "votes").out.split())
    assert said in shown
    assert "waits since" in shown

    (check,) = waits(api.lab.db)
    assert (check.level, check.about) == ("warn", "pipeline votes")
    assert said in check.message
    assert f"pg_terminate_backend({held.pid})" in check.remedy

    with sign_in(api, "viewer") as browser:
        told = {"en": "waits for an open transaction since", "ru": "ждёт открытую транзакцию, началось"}
        for language, words in told.items():
            browser.headers["Accept-Language"] = language
            page = browser.get("/pipelines/votes").text
            assert words in page
            assert "a slow writer" in page
            assert words in browser.get("/").text
            assert words not in browser.get("/pipelines/free").text


AWAY = """INSERT INTO etl.etl_runners (id, name, version, slots, busy, neighbours)
    VALUES (gen_random_uuid(), 'r', '0', 1, 0, jsonb_build_object('warehouse', jsonb_build_object(
        'since', now(), 'error', 'nobody answers', 'next_at', now() + interval '1 min')))"""


def test_whoever_waits_for_a_run_is_told_why_nobody_begins_it(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.create()
    api.lab.sql(AWAY)
    monkeypatch.setenv("VITRINA_URL", api.url)
    monkeypatch.setenv("VITRINA_TOKEN", api.tokens["operator"])
    monkeypatch.setattr(watching, "QUIET_SECONDS", 0)
    said = vitrina("run", "films", "--wait", "--timeout", "2", expect=1).err
    assert "films waits for the warehouse: nobody answers, next try in" in said
    assert said.count("waits for") == 1
    assert re.search(r"films +RUN_REQUESTED, waits for the warehouse .* in \d+ s ", vitrina("list").out)
    assert "ago" not in re.findall("^next .*", vitrina("status", "films").out, re.MULTILINE)[0]


@pytest.mark.parametrize(("language", "words"), [("en", "Pause now: cancel"), ("ru", "Остановить сейчас")])
def test_the_console_can_pause_at_once_what_runs(api: Api, language: str, words: str) -> None:
    api.create()
    with sign_in(api, "operator") as browser:
        browser.headers["Accept-Language"] = language
        assert words not in browser.get("/pipelines/films").text
        api.set_status("RUNNING")
        assert words in browser.get("/pipelines/films").text
        assert browser.post("/pipelines/films/pause", data={"now": "on"}).status_code < 300
    assert api.lab.sql("SELECT status, run_options FROM etl.etl_pipelines") == [("PAUSE_REQUESTED", {"now": True})]


def test_the_command_line_can_pause_at_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.create()
    api.set_status("RUNNING")
    monkeypatch.setenv("VITRINA_URL", api.url)
    monkeypatch.setenv("VITRINA_TOKEN", api.tokens["operator"])
    assert "films is PAUSE_REQUESTED" in vitrina("pause", "films", "--now").out
    assert api.lab.value("SELECT run_options FROM etl.etl_pipelines") == {"now": True}
