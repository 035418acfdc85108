"""Everything that goes wrong has one shape, says no secret, and leaves nothing half done."""

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from psycopg.conninfo import make_conninfo

from tests.contract.server import FILMS, Api, config, serve
from tests.support import Lab, make_connections
from vitrina.control.api.limits import MAX_BODY

SECRET = "hunter2-planted"
FIELDS = {"type", "title", "status", "detail", "instance", "remedy", "findings", "code", "data"}
JSON = {"Content-Type": "application/json"}
DEEP = 5_000


def problem(response: httpx.Response) -> dict[str, Any]:
    """The body, if it has the one shape."""
    assert 400 <= response.status_code < 500, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert (set(body), body["status"]) == (FIELDS, response.status_code)
    assert body["detail"]
    return body


@pytest.mark.scenario(54)
@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"nothing", 422),
        (b"[]", 422),
        (b'"text"', 422),
        (b"null", 422),
        (b'{"name": 1}', 422),
        (b'{"name": "x", "batch_size": "many"}', 422),
        (b'{"name": "x", "nothing": 1}', 422),
        (b'{"name": "x", "\\ud800": 1}', 422),
        (b'{"name": "\\ud800"}', 422),
        (b'{"name": "x\\u0000"}', 422),
        (b'{"name": "x", "batch_size": ' + b"9" * 5_000 + b"}", 400),
        (b'{"name": "x", "batch_size": 1e999}', 422),
        (b'{"name": "x", "batch_size": NaN}', 422),
        (b'{"name": "\xff\xfe"}', 400),
        (b"[" * 100_000, 400),
        (b'{"name": "x", "tasks": ' + b"[" * DEEP + b"]" * DEEP + b"}", 400),
    ],
)
def test_bodies_that_cannot_be_read(shared: Api, content: bytes, status: int) -> None:
    response = shared.ask("POST", "/pipelines", content=content, headers=JSON)
    assert problem(response)["status"] in (status, 422), response.text


@pytest.mark.parametrize(
    "change",
    [
        {"name": "a\0b"},
        {"description": "a\0b"},
        {"source": "a\0b"},
        {"source_query": "SELECT 1 AS film_id, '\0'"},
        {"source_query": None, "source_table": "content.\0"},
        {"target_table": "analytics.\0"},
        {"key": ["\0"]},
        {"schedule_interval": "\0"},
        {"mode": "incremental", "incremental_key": "\0"},
        {"type": "PYTHON", "python_task": "\0"},
        {"tasks": [{"order_index": 1, "task_type": "SQL", "body": "\0"}]},
        {"target_table": "es:films", "mapping": {"title": {"type": "\0"}}},
        {"target_table": "es:films", "settings": {"\0": 1}},
        {"tasks": [{"order_index": 10**30, "task_type": "SQL", "body": FILMS}]},
    ],
)
@pytest.mark.parametrize("path", ["/pipelines", "/validate"])
def test_characters_and_numbers_that_postgres_cannot_hold(shared: Api, change: dict[str, Any], path: str) -> None:
    response = shared.post(path, config("nul") | change)
    assert response.status_code in (200, 422), response.text
    if response.status_code == 422:
        problem(response)


@pytest.mark.scenario(48)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1" + " + 1" * DEEP + " AS film_id",
        "SELECT film_id FROM " + "(SELECT film_id FROM " * DEEP + "content.film_work" + ") q" * DEEP,
        "SELECT 1 AS film_id" + " UNION SELECT 1" * DEEP,
        "SELECT " + "NOT " * DEEP + "true AS film_id",
        "SELECT '" + "x" * 1_100_000 + "' AS film_id",
        "SELECT " + "CASE WHEN true THEN " * DEEP + "1" + " END" * DEEP + " AS film_id",
    ],
)
def test_deep_and_long_queries(shared: Api, query: str) -> None:
    problem(shared.post("/pipelines", config("deep", source_query=query, key=["film_id"])))


def test_parentheses_alone_make_nothing_deep(shared: Api) -> None:
    query = "SELECT " + "(" * DEEP + "f.id" + ")" * DEEP + " AS film_id FROM content.film_work f"
    assert shared.post("/validate", config(source_query=query)).status_code == 200


@pytest.mark.scenario(54)
def test_a_body_that_says_it_is_huge(shared: Api) -> None:
    response = shared.ask("POST", "/pipelines", content=b"x" * (MAX_BODY + 1), headers=JSON)
    assert problem(response)["status"] == 413


@pytest.mark.scenario(54)
def test_a_body_that_does_not_say_how_huge_it_is(shared: Api) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"name": "'
        for _ in range(40):
            yield b"x" * 100_000

    response = shared.ask("POST", "/pipelines", content=chunks(), headers=JSON)
    assert problem(response)["status"] == 413


def test_a_body_that_lies_about_its_length(shared: Api) -> None:
    where = urlsplit(shared.url)
    with socket.create_connection((str(where.hostname), int(where.port or 0))) as line:
        line.sendall(b"POST /api/v1/pipelines HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n{}")
        assert line.recv(100).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "path", ["/nothing", "/api/v1/nothing", "/api/v2/pipelines", "/static/nothing", "/%00", "/%ff"]
)
def test_paths_that_are_not_there(shared: Api, path: str) -> None:
    assert problem(shared.clients["admin"].get(path))["status"] == 404


def test_a_wrong_method_names_the_right_ones(shared: Api) -> None:
    response = shared.ask("PUT", "/pipelines/x/run")
    assert (problem(response)["status"], response.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "path",
    [
        "/pipelines/%00",
        "/pipelines/%00/state",
        "/pipelines?name=%00",
        "/pipelines?after=%00",
        "/pipelines/" + "x" * 300,
        "/pipelines?limit=9999999999999999999999",
        "/runs/99999999999999999999",
        "/requests/%00",
    ],
)
def test_parameters_that_postgres_cannot_hold(shared: Api, path: str) -> None:
    assert problem(shared.ask("GET", path))["status"] == 422


def test_a_broken_character_in_a_path(shared: Api) -> None:
    assert problem(shared.ask("GET", "/pipelines/%ff%fe"))["status"] == 404


def test_what_validation_says_has_a_place(shared: Api) -> None:
    body = problem(shared.post("/pipelines", {"name": "", "batch_size": 0}))
    assert {finding["where"] for finding in body["findings"]} == {"body.name", "body.batch_size"}


# ── audit ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_change_without_its_audit_row_does_not_happen(api: Api) -> None:
    api.create()
    api.lab.sql("ALTER TABLE etl.etl_audit ADD CONSTRAINT closed CHECK (false) NOT VALID")
    before = api.lab.sql("SELECT * FROM etl.etl_pipelines")
    try:
        calls = [
            api.post("/pipelines", config("b")),
            api.patch("films", {"batch_size": 9}),
            api.ask("DELETE", "/pipelines/films"),
            api.post("/pipelines/films/run", headers={"Idempotency-Key": "one"}),
            api.post("/pipelines/films/pause"),
            api.post("/pipelines/films/disable"),
            api.post("/pipelines/films/reconcile"),
            api.post("/pipelines/films/repair"),
        ]
        assert [call.status_code < 400 for call in calls] == [False] * len(calls)
        assert api.lab.sql("SELECT * FROM etl.etl_pipelines") == before
        assert api.lab.value("SELECT count(*) FROM etl.etl_requests") == 0
        assert api.lab.value("SELECT count(*) FROM etl.etl_idempotency") == 0
    finally:
        api.lab.sql("ALTER TABLE etl.etl_audit DROP CONSTRAINT closed")


def test_the_audit_names_who_did_what(api: Api) -> None:
    made = api.create()
    api.post("/pipelines/films/run", {"restart": True}, role="operator")
    api.ask("DELETE", "/pipelines/films")
    assert api.audit() == [
        ("admin", "create", {"name": "films"}),
        ("operator", "run", {"restart": True}),
        ("admin", "delete", {"name": "films"}),
    ]
    assert str(api.lab.value("SELECT DISTINCT pipeline_id FROM etl.etl_audit")) == made["id"]


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def leaky(lab: Lab) -> Iterator[Api]:
    """Sources whose URLs hold a secret: one works, one is down, one cannot even be read."""
    lab.connections = make_connections(lab.conninfo)
    sources = {
        "good": make_conninfo(lab.conninfo, user="vitrina_reader", password=SECRET),
        "down": f"postgresql://me:{SECRET}@127.0.0.1:1/db",
        "unquoted": f"postgresql://me:x@{SECRET}@127.0.0.1:1/db",
        "unreadable": f"postgresql://me:{SECRET}@[::1/db",
    }
    lab.connections.sources.update(sources)  # type: ignore[attr-defined]
    with serve(lab) as api:
        yield api


@pytest.mark.scenario(52)
def test_a_secret_is_said_nowhere(leaky: Api, capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    for source in ("good", "down", "unquoted", "unreadable", "unknown"):
        body = config(source, source=source)
        said.append(leaky.post("/pipelines", body).text)
        said.append(leaky.post("/validate", body).text)
        leaky.lab.sql(
            "INSERT INTO etl.etl_pipelines (name, source, source_query, target_table, key, mode, incremental_key)"
            " VALUES (%s, %s, %s, %s, '{film_id}', 'incremental', 'rating')",
            f"hand {source}", source, FILMS, f"analytics.hand_{source}",
        )  # fmt: skip
        for method, path in (("GET", "state"), ("POST", "preview"), ("POST", "validate"), ("GET", "")):
            said.append(leaky.ask(method, f"/pipelines/hand {source}/{path}".rstrip("/")).text)
    said += [leaky.ask("GET", path).text for path in ("/pipelines", "/lineage", "/runners")]
    said.append(leaky.ask("GET", "/pipelines", headers={"Authorization": f"Bearer {SECRET}"}).text)
    rows = [str(leaky.lab.sql(f"SELECT * FROM etl.{table}")) for table in ("etl_audit", "etl_pipelines", "etl_tokens")]
    streams = capfd.readouterr()
    everything = "\n".join([*said, *rows, streams.out, streams.err])
    for secret in (SECRET, *leaky.tokens.values()):
        assert secret not in everything
    assert "cannot connect" in everything
    assert "cannot be read" in everything


def test_problems_are_json_whatever_the_client_accepts(shared: Api) -> None:
    response = shared.clients["nobody"].get("/api/v1/pipelines", headers={"Accept": "text/html"})
    assert json.loads(response.text) == problem(response)
