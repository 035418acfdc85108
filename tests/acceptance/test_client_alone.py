"""A client of an API that has no runner: what it says while it waits, and when it stops waiting."""

from collections.abc import Iterator
from threading import Thread

import pytest

from tests.acceptance.client import vitrina
from tests.contract.server import Api, serve
from tests.support import Lab
from vitrina.cli import watching


@pytest.fixture(scope="module")
def shared() -> Iterator[Api]:
    """No runner here."""
    with Lab.open("vitrina_template") as lab, serve(lab) as api:
        yield api


@pytest.mark.parametrize("command", [("run", "films", "--wait"), ("reconcile", "films"), ("repair", "films", "--wait")])
def test_it_says_that_there_is_no_runner(api: Api, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    monkeypatch.setattr(watching, "QUIET_SECONDS", 0)
    monkeypatch.setattr("vitrina.control.services.requests.WAIT_SECONDS", 0.1)
    api.create("films")
    said = vitrina(*command, "--timeout", "1", expect=1).err
    assert "no runner is alive" in said
    assert "the time is up" in said


def test_a_pause_that_comes_first_ends_the_waiting(api: Api) -> None:
    api.create("films")

    def pause() -> None:
        api.wait_for("films", "RUN_REQUESTED")
        api.post("/pipelines/films/pause")

    other = Thread(target=pause)
    other.start()
    said = vitrina("run", "films", "--wait", expect=1).err
    other.join()
    assert "films is PAUSED: somebody changed that before it ran" in said


def test_doctor_finds_that_nothing_will_run(api: Api) -> None:
    assert "none is alive" in vitrina("doctor", expect=1).out
