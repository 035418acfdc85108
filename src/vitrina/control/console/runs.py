"""One run: its phases and batches over time, counters, attempts, log, and the error with its remedy."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import PlainTextResponse
from psycopg.rows import DictRow

from vitrina.control.api.auth import Plane, Role, needs
from vitrina.control.console import views
from vitrina.control.console.access import BASE
from vitrina.control.console.render import Screen, Show
from vitrina.control.plane import ControlPlane
from vitrina.control.services.checks import checks_of_run
from vitrina.control.services.details import Details
from vitrina.control.services.inspection import Inspection
from vitrina.domain.events import Said, named, shown

if TYPE_CHECKING:
    from vitrina.control.console.live import Seen

router = APIRouter(prefix="/runs/{run_id}")
RunId = Annotated[int, Path(ge=1, le=2**63 - 1)]
SHOWN_LINES, DOWNLOADED_LINES = 500, 1_000_000
WIDTH, LANE = 960, 22
SLOTS = WIDTH // 4  # of time in the timeline: a bar that is narrower cannot be told from its neighbour


@router.get("")
@needs(Role.VIEWER)
def run(show: Show, plane: Plane, run_id: RunId) -> Response:
    """The whole of it."""
    found = Inspection(plane).run(run_id)
    events = Details(plane).log(run_id, SHOWN_LINES)
    return show.page(
        "run.html",
        run=found,
        parts=look(show, plane, run_id),
        events=events,
        last=events[-1]["id"] if events else 0,
        full=len(events) == SHOWN_LINES,
        live=f"{BASE}/live/runs/{run_id}",
    )


@router.get("/log")
@needs(Role.VIEWER)
def search_log(show: Show, plane: Plane, run_id: RunId, q: Annotated[str, Query(max_length=200)] = "") -> Response:
    """The lines that hold a text."""
    text = q.replace("\0", "").strip()
    events = Details(plane).log(run_id, SHOWN_LINES, text, named(text, show.words))
    return show.part("run_lines.html", events=events)


@router.get("/log.txt")
@needs(Role.VIEWER)
def download_log(plane: Plane, run_id: RunId) -> Response:
    """All of it, a line an event."""
    Inspection(plane).run(run_id)
    lines = [_line(event) for event in Details(plane).log(run_id, DOWNLOADED_LINES)]
    name = f'attachment; filename="run-{run_id}.log"'
    return PlainTextResponse("\n".join([*lines, ""]), headers={"Content-Disposition": name})


def look(show: Screen, plane: ControlPlane, run_id: int) -> dict[str, str]:
    """What the page keeps up to date, its log aside."""
    inspection = Inspection(plane)
    found, steps = inspection.run(run_id), Details(plane).steps(run_id, SLOTS)
    beside = {"attempts": inspection.attempts(run_id), "checks": checks_of_run(plane, run_id)}
    beside |= {"changes": Details(plane).changes(found["pipeline_id"], run_id)}
    head = show.fragment("run_head.html", run=found, **beside)
    return {"head": head, "timeline": show.fragment("run_timeline.html", **timeline(found, steps))}


def lines(show: Screen, plane: ControlPlane, run_id: int, seen: "Seen") -> str:
    """What the run said since the last line that the tab has."""
    events = Inspection(plane).events(run_id, seen.line)
    if events:
        seen.digests["log"] = str(events[-1]["id"])
    return str(show.html("run_lines.html", events=events)) if events else ""


def timeline(run: DictRow, steps: list[DictRow]) -> dict[str, Any]:
    """Bars over time: a lane for each kind of event, a bar for each time, or for some side by side."""
    if not steps:
        return {"lanes": [], "bars": [], "steps": 0, "seconds": 0.0, "width": WIDTH, "lane": LANE}
    started: datetime = run["started_at"]
    ended: datetime = run["finished_at"] or max(step["ended"] for step in steps)
    seconds = max((ended - started).total_seconds(), 0.001)
    lanes = list(dict.fromkeys(step["event"] for step in steps))
    bars = list(_bars(steps, lanes, started, seconds))
    times = sum(step["times"] for step in steps)
    return {"lanes": lanes, "bars": bars, "steps": times, "seconds": seconds, "width": WIDTH, "lane": LANE}


def _bars(steps: list[DictRow], lanes: list[str], started: datetime, seconds: float) -> Iterator[dict[str, Any]]:
    for step in steps:
        begin = max((step["began"] - started).total_seconds(), 0.0)
        took = (step["ended"] - step["began"]).total_seconds()
        yield {
            "x": round(begin / seconds * WIDTH, 1),
            "width": round(max(took / seconds * WIDTH, 1.5), 1),
            "lane": lanes.index(step["event"]),
            "step": step,
        }


def _line(event: Said) -> str:
    at = f"{event['at']:%Y-%m-%dT%H:%M:%S.%fZ}"
    text, fields = shown(event["event"], event["fields"])
    return f"{at} {event['level']:7} {text} {views.shown_fields(fields)}".rstrip()
