"""Captures from the console: a runner says what it would do, and does just that once an admin has seen it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape

import httpx
import pytest
from psycopg.conninfo import make_conninfo

from tests.contract.server import Api, running, serve
from tests.contract.test_console import sign_in
from tests.support import Lab
from vitrina.meta.db import connect
from vitrina.meta.repos.captures import CaptureRepo

PAGE = "/sources/warehouse/capture"
LEFT = """SELECT (SELECT count(*) FROM pg_publication),
    (SELECT count(*) FROM pg_replication_slots WHERE database = current_database())"""


@pytest.fixture(scope="module")
def served() -> Iterator[Api]:
    with Lab.open("vitrina_template") as lab:
        lab.connections = replace(lab.connections, capture_owners={"warehouse": lab.conninfo})
        with serve(lab) as api, running(lab):
            yield api


@pytest.fixture
def admin(served: Api) -> Iterator[httpx.Client]:
    with sign_in(served, "admin") as client:
        yield client


def hidden(html: str) -> dict[str, str]:
    """What the button of a preview would send."""
    return {
        name: unescape(value) for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', html)
    }


def captured(api: Api) -> list[str]:
    with connect(api.lab.conninfo, "test") as conn:
        return [table for capture in CaptureRepo(conn).all() for table in capture.tables]


def test_what_was_shown_is_done_and_undone(served: Api, admin: httpx.Client) -> None:
    assert 'hx-post="/console/sources/warehouse/capture"' in admin.get("/sources/warehouse").text
    asked = {"action": "install", "tables": '"content"."film_work", content.genre', "kind": "wal"}
    shown = admin.post(PAGE, data=asked).text
    assert "The slot is made as vitrina_capture." in shown
    assert "CREATE PUBLICATION" in shown
    assert "SELECT pg_create_logical_replication_slot(" in shown
    assert (captured(served), served.lab.sql(LEFT)) == ([], [(0, 0)])
    done = admin.post(PAGE, data=hidden(shown)).text
    assert "Done." in done
    assert '<dd id="captured-by" hx-swap-oob="true">wal</dd>' in done
    assert 'name="kind"' not in admin.get("/sources/warehouse").text  # it stays what it is
    assert captured(served) == ["content.film_work", "content.genre"]
    removal = hidden(admin.post(PAGE, data={"action": "remove"}).text)
    assert served.lab.sql(LEFT) == [(1, 1)]
    assert "Done." in admin.post(PAGE, data=removal).text
    assert (captured(served), served.lab.sql(LEFT)) == ([], [(0, 0)])
    actions = [row[1] for row in served.audit()]
    assert [action for action in actions if action.startswith("capture-")] == ["capture-install", "capture-remove"]


def test_what_has_changed_since_it_was_shown_is_not_done(served: Api, admin: httpx.Client) -> None:
    shown = hidden(admin.post(PAGE, data={"action": "install", "tables": "content.genre"}).text)
    answer = admin.post(PAGE, data=shown | {"tables": "content.person"})
    assert "no longer what was shown" in answer.text
    assert (captured(served), served.lab.sql(LEFT)) == ([], [(0, 0)])


def test_a_name_that_is_no_tables_is_said(served: Api, admin: httpx.Client) -> None:
    answer = admin.post(PAGE, data={"action": "install", "tables": "content.genre, genre"})
    assert "genre names no table" in unescape(answer.text)
    assert captured(served) == []


def test_tables_that_no_query_may_read_are_not_captured(served: Api, admin: httpx.Client) -> None:
    asked = {"action": "install", "tables": "auth.users"}
    answer = admin.post(PAGE, data=asked)
    assert "queries may not read auth.users" in unescape(answer.text)
    assert captured(served) == []


def test_a_runner_without_the_owners_rights_says_whose_they_are(served: Api) -> None:
    with Lab.open("vitrina_template") as lab, serve(lab) as api, running(lab), sign_in(api, "admin") as client:
        asked = {"action": "install", "tables": "content.genre"}
        answer = client.post(PAGE, data=asked)
        assert "content.genre belongs to" in unescape(answer.text)
        assert lab.sql(LEFT) == [(0, 0)]


def test_who_cannot_stream_is_told_so_before_anything_is_made(served: Api) -> None:
    with Lab.open("vitrina_template") as lab:
        reader = make_conninfo(lab.conninfo, user="vitrina_reader")
        lab.connections = replace(
            lab.connections, captures={"warehouse": reader}, capture_owners={"warehouse": lab.conninfo}
        )
        with serve(lab) as api, running(lab), sign_in(api, "admin") as client:
            asked = {"action": "install", "tables": "content.genre"}
            answer = client.post(PAGE, data=asked)
            assert "vitrina_reader, who captures source 'warehouse', cannot stream" in unescape(answer.text)
            assert "VITRINA_CAPTURE_URL" in unescape(answer.text)
            assert lab.sql(LEFT) == [(0, 0)]


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_nobody_but_an_admin_may(served: Api, role: str) -> None:
    with sign_in(served, role) as client:
        assert client.post(PAGE, data={"action": "install", "tables": "content.genre"}).status_code == 403
        assert 'sources/warehouse/capture"' not in client.get("/sources/warehouse").text
    assert captured(served) == []
