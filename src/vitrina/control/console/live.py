"""Live values: one stream of server-sent events a tab, which sends the parts of a page that have changed.

A page's parts are the same templates that rendered it. The tab says which it has (`have`: element:digest, …); what
differs is sent. A stream ends with its session, and after a minute, to be asked for anew.
With `once` the same is answered as JSON: for tabs that have no stream of their own.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from vitrina.control.api.auth import Plane, Role, needs
from vitrina.control.console import home, pipelines, runs, system
from vitrina.control.console.access import Visitor, recognise
from vitrina.control.console.render import Show
from vitrina.domain.errors import VitrinaError

router = APIRouter(prefix="/live")

LIFE_SECONDS = 60.0
LOOK_SECONDS = 1.0
ROW = re.compile("row-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Have = Annotated[str, Query(max_length=20_000)]
Once = Annotated[bool, Query()]
Parts = dict[str, str]


@dataclass
class Seen:
    """What a tab has: the digest of each part, and the last line of a log."""

    digests: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, have: str) -> "Seen":
        """From `element:digest,…`."""
        pairs = (item.partition(":") for item in have.split(",") if item)
        return cls({name: digest for name, _, digest in pairs})

    def news(self, parts: Parts) -> Parts:
        """Those of the parts that the tab does not have, and from now on has."""
        found = {name: html for name, html in parts.items() if self.digests.get(name) != _digest_in(html)}
        self.digests |= {name: _digest_in(html) for name, html in found.items()}
        return found

    @property
    def rows(self) -> list[UUID]:
        """The pipelines of a list."""
        return [UUID(name.removeprefix("row-")) for name in self.digests if ROW.fullmatch(name)]

    @property
    def line(self) -> int:
        """The last line of the log that the tab shows."""
        last = self.digests.get("log", "0")
        return int(last) if last.isascii() and last.isdigit() and len(last) < 19 else 0


@router.get("/home")
@needs(Role.VIEWER)
def live_home(show: Show, plane: Plane, _: Visitor, have: Have = "", once: Once = False) -> Response:
    """The rows of a list."""
    seen = Seen.parse(have)
    return _answer(show, plane, seen, lambda: home.look(show, plane, seen.rows), once)


@router.get("/pipelines/{which}/{tab}")
@needs(Role.VIEWER)
def live_pipeline(
    show: Show, plane: Plane, caller: Visitor, which: str, tab: str, have: Have = "", once: Once = False
) -> Response:
    """A pipeline's page."""
    return _answer(show, plane, Seen.parse(have), lambda: pipelines.look(show, plane, caller, which, tab), once)


@router.get("/runs/{run_id}")
@needs(Role.VIEWER)
def live_run(show: Show, plane: Plane, _: Visitor, run_id: runs.RunId, have: Have = "", once: Once = False) -> Response:
    """A run's page, with what is new in its log."""
    seen = Seen.parse(have)
    return _answer(
        show, plane, seen, lambda: runs.look(show, plane, run_id), once, lambda: runs.lines(show, plane, run_id, seen)
    )


@router.get("/system")
@needs(Role.VIEWER)
def live_system(show: Show, plane: Plane, _: Visitor, have: Have = "", once: Once = False) -> Response:
    """The runners."""
    return _answer(show, plane, Seen.parse(have), lambda: system.look(show, plane), once)


def _answer(
    show: Show, plane: Plane, seen: Seen, look: Callable[[], Parts], once: bool, lines: Callable[[], str] = lambda: ""
) -> Response:
    """All that is new as JSON, or as it comes. The first look is now: what is not there is said with a status."""
    first = _frame(seen, look, lines)
    if once:
        return JSONResponse(first)

    def look_again() -> dict[str, Any] | None:
        return _frame(seen, look, lines) if recognise(show.request, plane) else None

    return StreamingResponse(_stream(look_again, first), media_type="text/event-stream")


def _frame(seen: Seen, look: Callable[[], Parts], lines: Callable[[], str]) -> dict[str, Any]:
    frame: dict[str, Any] = {"swap": seen.news(look())}
    added = lines()
    return frame | {"append": {"log": added}} if added else frame


async def _stream(look_again: Callable[[], dict[str, Any] | None], first: dict[str, Any]) -> AsyncIterator[str]:
    deadline, frame = time.monotonic() + LIFE_SECONDS, first
    while time.monotonic() < deadline:
        yield _event("frame", frame) if frame["swap"] or "append" in frame else ": nothing new\n\n"
        await asyncio.sleep(LOOK_SECONDS)
        try:
            seen = await run_in_threadpool(look_again)
        except VitrinaError:
            return  # the tab asks again, and is told then
        if seen is None:
            return
        frame = seen
    yield _event("again", {})


def _event(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def _digest_in(html: str) -> str:
    """The one that the fragment carries."""
    return html.partition('data-live="')[2].partition('"')[0]
