"""What a run says while it runs: server-sent events, over a stream that may break."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .errors import Json, TimedOut
from .transport import CONNECT_SECONDS, READ_SECONDS, Transport, answer, unreachable

PATIENCE = 10  # times that a stream may break in a row
POLL_SECONDS = 0.3


@dataclass(frozen=True)
class Event:
    """A server-sent event; `end` carries the run, every other one what the run said."""

    name: str
    data: Json
    id: str = ""


def follow(transport: Transport, run_id: int, deadline: float | None) -> Iterator[Event]:
    """From a run's start to its end; a broken stream goes on where it broke."""
    import httpx

    last, broken = "", 0
    while True:
        try:
            for event in stream(transport, run_id, last, deadline):
                last, broken = event.id or last, 0
                yield event
                if event.name == "end":
                    return
        except httpx.TransportError as error:
            check_deadline(deadline)
            if broken > PATIENCE:
                raise unreachable(transport.url) from error
        broken += 1
        time.sleep(POLL_SECONDS)


def stream(transport: Transport, run_id: int, last: str, deadline: float | None) -> Iterator[Event]:
    """One connection's worth, after the event `last`."""
    import httpx

    left = READ_SECONDS if deadline is None else min(READ_SECONDS, max(0.1, deadline - time.monotonic()))
    headers = {"Last-Event-ID": last} if last else {}
    timeout = httpx.Timeout(left, connect=CONNECT_SECONDS)
    with transport.http.stream("GET", f"/runs/{run_id}/events", headers=headers, timeout=timeout) as response:
        if response.is_error:
            response.read()
            answer(response)
        yield from parse_events(_until(response.iter_lines(), deadline))


def parse_events(lines: Iterable[str]) -> Iterator[Event]:
    """Server-sent events: fields up to an empty line; comments and what is cut off at the end are dropped."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            if "data" in fields:
                yield Event(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id", ""))
            fields = {}
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value


def check_deadline(deadline: float | None) -> None:
    """Raise TimedOut once it has passed."""
    if deadline is not None and time.monotonic() > deadline:
        raise TimedOut("the time is up; it goes on without us", "look at: vitrina status NAME")


def _until(lines: Iterator[str], deadline: float | None) -> Iterator[str]:
    for line in lines:
        check_deadline(deadline)
        yield line
