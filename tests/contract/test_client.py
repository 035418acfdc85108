"""The client against the real API: kinds of errors, and answers that are lost on the way."""

from collections.abc import Iterator

import pytest

from tests.acceptance.processes import free_port
from tests.contract.line import BUSY, LOST, Line, line
from tests.contract.server import Api, config
from vitrina import client as kinds
from vitrina.client import Client, Conflict, Forbidden, Refused, TimedOut, Unauthorised, Unavailable, Unreachable
from vitrina.client import transport as sending


@pytest.fixture
def bad_line(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    """Between the client and the API."""
    monkeypatch.setattr(sending, "BACKOFF_SECONDS", 0.01)
    with line(api.url) as found:
        yield found


@pytest.fixture
def client(api: Api, bad_line: Line) -> Iterator[Client]:
    """An admin's, over that line."""
    with Client(bad_line.url, api.tokens["admin"]) as client:
        yield client


@pytest.mark.parametrize("ask", ["run", "repair"])
def test_a_lost_answer_starts_no_second_run(api: Api, client: Client, bad_line: Line, ask: str) -> None:
    api.create()
    bad_line.troubles += [LOST, LOST, BUSY]
    requested = getattr(client, ask)("films")
    assert (requested.changed, requested.status) == (True, "RUN_REQUESTED")
    assert bad_line.arrived == [f"POST /pipelines/films/{ask}"] * 3
    assert [row[1] for row in api.audit()] == ["create", "run"]


def test_the_same_key_is_the_same_request(api: Api, client: Client) -> None:
    api.create()
    first = client.run("films", key="nightly")
    api.lab.sql("UPDATE etl.etl_pipelines SET status = 'RUNNING' WHERE name = 'films'")
    api.lab.sql("UPDATE etl.etl_pipelines SET status = 'IDLE' WHERE name = 'films'")
    assert client.run("films", key="nightly") == first
    assert client.status("films").status == "IDLE"


@pytest.mark.parametrize("ask", ["pause", "enable", "disable", "status", "validate", "preview"])
def test_what_may_be_asked_twice_is_asked_again(api: Api, client: Client, bad_line: Line, ask: str) -> None:
    api.create()
    bad_line.troubles += [LOST, BUSY]
    getattr(client, ask)("films")
    assert len(bad_line.arrived) == 2


def test_what_may_not_is_not_once_it_may_have_arrived(api: Api, client: Client, bad_line: Line) -> None:
    bad_line.troubles += [LOST]
    with pytest.raises(Unreachable):
        client.create(config())
    assert bad_line.arrived == ["POST /pipelines"]
    assert client.pipeline("films").version == 1


def test_it_gives_up_in_the_end(client: Client, bad_line: Line) -> None:
    bad_line.troubles += [BUSY] * 5
    with pytest.raises(Unavailable, match="the database is away"):
        client.runners()
    with (
        Client(f"http://127.0.0.1:{free_port()}", "t", retries=1) as nobody,
        pytest.raises(Unreachable, match="vitrina up"),
    ):
        nobody.create(config())


def test_problems_become_exceptions_of_their_kind(api: Api, client: Client) -> None:
    api.create()
    for error, status, act in (
        ("NotFound", 404, lambda: client.status("nobody")),
        ("Conflict", 409, lambda: client.create(config())),
        ("Stale", 412, lambda: client.edit("films", {"batch_size": 7}, version=9)),
        ("Invalid", 422, lambda: client.create(config("x", source_query="SELECT pg_sleep(1)"))),
    ):
        with pytest.raises(getattr(kinds, error)) as caught:
            act()
        assert (caught.value.status, isinstance(caught.value, Refused)) == (status, True)
    with Client(api.url, "wrong") as stranger, pytest.raises(Unauthorised):
        stranger.runners()
    with Client(api.url, api.tokens["viewer"]) as viewer, pytest.raises(Forbidden):
        viewer.run("films")


def test_apply_creates_then_edits_only_what_differs_and_puts_back_what_is_left_out(api: Api, client: Client) -> None:
    assert client.apply(config(batch_size=7, description="mine")).version == 1
    assert client.apply(config(batch_size=7, description="mine")).version == 1
    edited = client.apply(config(batch_size=8))
    assert (edited.version, edited.config["batch_size"], edited.config["description"]) == (2, 8, "")
    renamed = client.apply(config("renamed", id=str(edited.id), target_table="analytics.films"))
    assert (renamed.id, renamed.name) == (edited.id, "renamed")


def test_waiting_ends_with_the_time(api: Api, client: Client) -> None:
    api.create()
    with pytest.raises(TimedOut, match="goes on without us"):
        client.wait(client.run("films"), timeout=0)


def test_a_failed_pipeline_has_nothing_to_pause(api: Api, client: Client) -> None:
    api.create()
    api.set_status("FAILED")
    with pytest.raises(Conflict, match="nothing to pause"):
        client.pause("films")
