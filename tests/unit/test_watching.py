"""Following a run: events become numbers, and a broken stream goes on where it broke."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from vitrina.cli.watching import Tally
from vitrina.client import Client, Event, Unreachable, events
from vitrina.client.events import parse_events
from vitrina.client.transport import Transport


def event(name: str, second: int, **fields: Any) -> dict[str, Any]:
    """As the API sends it."""
    return {"event": name, "at": f"2026-01-01T00:00:{second:02}+00:00", "fields": fields}


def tally(*events: dict[str, Any]) -> Tally:
    """All added up."""
    total = Tally()
    for one in events:
        total.add(one)
    return total


def test_rows_rate_batch_and_eta() -> None:
    seen = tally(
        event("started", 0),
        event("load_found", 1, batches=4),
        event("loaded", 3, done=1, of=4, rows_written=100, rows_read=100),
        event("loaded", 5, done=2, of=4, rows_written=100, rows_read=100),
    )
    assert seen.line() == "loaded, 200 rows, 40 rows/s, batch 2, 50%, ETA 4.0 s"


def test_events_are_parsed_and_comments_and_torn_ends_dropped() -> None:
    lines = ["id: 7", "event: info", 'data: {"a":', "data: 1}", "", ": ping", "", "event: end", "data: {}"]
    assert list(parse_events(lines)) == [Event("info", {"a": 1}, "7")]


def test_a_broken_stream_goes_on_after_the_last_event(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def stream(_: Transport, run_id: int, last: str, deadline: float | None) -> Iterator[Event]:
        asked.append(last)
        if len(asked) == 1:
            yield Event("info", {}, "5")
            raise httpx.RemoteProtocolError("cut")
        if len(asked) == 3:
            yield Event("end", {"status": "SUCCESS"})

    monkeypatch.setattr(events, "stream", stream)
    monkeypatch.setattr(events, "POLL_SECONDS", 0)
    assert [e.name for e in Client("http://127.0.0.1", "t").follow(1)] == ["info", "end"]
    assert asked == ["", "5", "5"]


def test_a_stream_that_never_comes_back_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(*_: object) -> Iterator[Event]:
        raise httpx.ConnectError("nobody")
        yield

    monkeypatch.setattr(events, "stream", stream)
    monkeypatch.setattr(events, "POLL_SECONDS", 0)
    with pytest.raises(Unreachable):
        list(Client("http://127.0.0.1", "t").follow(1))
