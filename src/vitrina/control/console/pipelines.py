"""One pipeline: how its run goes, its checkpoint and history, configuration, mart, comparison and lineage."""

from datetime import timedelta
from typing import Any

from fastapi import APIRouter, Response
from psycopg.rows import DictRow

from vitrina.control.api.auth import Actor, Plane, Role, needs
from vitrina.control.console.access import BASE, Visitor
from vitrina.control.console.health import Health
from vitrina.control.console.render import Screen, Show, link_to
from vitrina.control.plane import ControlPlane
from vitrina.control.problems import NotFound
from vitrina.control.services.details import Details
from vitrina.control.services.inspection import Inspection
from vitrina.control.services.latency import course
from vitrina.control.services.overview import Overview
from vitrina.control.services.pipelines import PipelineService
from vitrina.control.services.plans import differences, text_diff
from vitrina.control.services.progress import Progress, measure
from vitrina.control.services.requests import RequestService
from vitrina.domain.errors import VitrinaError
from vitrina.domain.lifecycle import RunStatus
from vitrina.domain.pipeline import Pipeline
from vitrina.domain.request import AFTER_REPAIR
from vitrina.meta.repos.pipelines import StoredPipeline
from vitrina.sinks.registry import abilities_of

router = APIRouter(prefix="/pipelines/{which}")
TABS = {
    "overview": "Overview",
    "config": "Configuration",
    "data": "Data",
    "reconcile": "Reconcile",
    "lineage": "Lineage",
}
SHOWN_RUNS, CHARTED_RUNS, SAMPLE_ROWS = 20, 200, 20
CHARTED_TIME = timedelta(hours=4)
WHOLE_TABS = {name: TABS[name] for name in ("overview", "config")}  # of several targets: the rest is each one's
LIVE_PARTS = {"overview": ("health", "progress", "checkpoint", "checks", "runs"), "reconcile": ("report",)}


@router.get("")
@needs(Role.VIEWER)
def overview(show: Show, plane: Plane, caller: Visitor, which: str) -> Response:
    """How it goes, and how it went."""
    stored = PipelineService(plane, caller.name).get(which)
    if stored.members:
        return _page(show, plane, caller, stored, "overview", "targets")
    runs = Details(plane).history(stored, CHARTED_RUNS)
    chart = _chart([run for run in runs if not run["bursts"]]) | _latency(plane, stored)
    tables = bool(stored.target) and abilities_of(str(stored.target)).is_compared_in_place
    return _page(show, plane, caller, stored, "overview", chart=chart, charted=len(chart["at"]), tables=tables)


@router.get("/changes")
@needs(Role.VIEWER)
def changes(show: Show, plane: Plane, caller: Visitor, which: str) -> Response:
    """A few rows that the last runs changed, before and after."""
    stored = PipelineService(plane, caller.name).get(which)
    return show.part("pipeline_changes.html", stored=stored, rows=Details(plane).changes(stored.id))


@router.get("/config")
@needs(Role.VIEWER)
def config(show: Show, plane: Plane, caller: Visitor, which: str) -> Response:
    """Every field, its versions, and who did what."""
    service = PipelineService(plane, caller.name)
    stored = service.get(which)
    return _page(
        show,
        plane,
        caller,
        stored,
        "config",
        fields=_fields(stored.config),
        versions=_versions(service.versions(str(stored.id))),
        audit=Details(plane).audit(stored, 50),
    )


@router.get("/data")
@needs(Role.VIEWER)
def data(show: Show, plane: Plane, caller: Visitor, which: str) -> Response:
    """The first rows of the mart."""
    stored = PipelineService(plane, caller.name).get(which)
    if stored.target and not abilities_of(stored.target).is_compared_in_place:
        return _page(show, plane, caller, stored, "data", sample=None, said=None)
    try:
        sample, said = Details(plane).sample(stored, SAMPLE_ROWS), None
    except VitrinaError as error:
        sample, said = {"columns": [], "rows": []}, error
    return _page(show, plane, caller, stored, "data", sample=sample, said=said)


@router.post("/sample")
@needs(Role.OPERATOR)
def sample(show: Show, plane: Plane, caller: Visitor, which: str) -> Response:
    """The first documents of an index: no process but a runner speaks with it."""
    stored = PipelineService(plane, caller.name).get(which)
    found = RequestService(plane, caller.name).sample(str(stored.id), SAMPLE_ROWS)
    return show.part("pipeline_sample.html", found=found, stored=stored)


@router.get("/reconcile")
@needs(Role.VIEWER)
def reconcile(show: Show, plane: Plane, caller: Visitor, which: str) -> Response:
    """The last comparison of mart and query."""
    return _page(show, plane, caller, PipelineService(plane, caller.name).get(which), "reconcile")


@router.get("/lineage")
@needs(Role.VIEWER)
def lineage(show: Show, plane: Plane, caller: Visitor, which: str) -> Response:
    """Where its columns come from."""
    stored = PipelineService(plane, caller.name).get(which)
    return _page(show, plane, caller, stored, "lineage", lineage=Inspection(plane).lineage_of(stored))


@router.get("/horizon")
@needs(Role.VIEWER)
def horizon(show: Show, plane: Plane, caller: Visitor, which: str) -> Response:
    """The safe horizon and who holds it: asked of the source, so after the page is there."""
    stored = PipelineService(plane, caller.name).get(which)
    return show.part("pipeline_horizon.html", horizon=Inspection(plane).horizon(stored))


def look(show: Screen, plane: ControlPlane, caller: Actor, which: str, tab: str) -> dict[str, str]:
    """What a tab keeps up to date."""
    return _parts(show, plane, caller, PipelineService(plane, caller.name).get(which), tab)


def _page(
    show: Screen,
    plane: ControlPlane,
    caller: Actor,
    stored: StoredPipeline,
    tab: str,
    page: str = "",
    **context: Any,
) -> Response:
    return show.page(
        f"pipeline_{page or tab}.html",
        stored=stored,
        tab=tab,
        tabs=WHOLE_TABS if stored.members else TABS,
        parts=_parts(show, plane, caller, stored, tab),
        live=f"{BASE}/live/pipelines/{stored.id}/{tab}",
        link=lambda *more: link_to(stored.name, stored.id, *more),
        **context,
    )


def _parts(show: Screen, plane: ControlPlane, caller: Actor, stored: StoredPipeline, tab: str) -> dict[str, str]:
    shown = Overview(plane).rows([stored.id])
    if not shown:
        raise NotFound(f"pipeline {stored.name!r} is gone")
    if stored.members:
        rows = Overview(plane).rows([member.id for member in stored.members]) if tab == "overview" else []
        head = {"head": show.fragment("pipeline_head.html", stored=stored, row=shown[0])}
        return head | {f"row-{row['id']}": show.fragment("home_row.html", row=row) for row in rows}
    context = {"stored": stored, "row": shown[0]} | _context(plane, caller, stored, shown[0], tab)
    names = ("head", *LIVE_PARTS.get(tab, ()))
    return {name: show.fragment(f"pipeline_{name}.html", **context) for name in names}


def _context(plane: ControlPlane, caller: Actor, stored: StoredPipeline, row: DictRow, tab: str) -> dict[str, Any]:
    service = RequestService(plane, caller.name)
    if tab == "reconcile":
        asked, report = service.latest(str(stored.id)), service.last_report(str(stored.id))
        return {"asked": asked, "report": report, "after_repair": AFTER_REPAIR}
    if tab != "overview":
        return {}
    details = Details(plane)
    runs = details.history(stored, SHOWN_RUNS)
    health = Health.of(row, stored.config, service.last_report(str(stored.id)), runs)
    known = {
        "runs": runs,
        "checks": details.checks(stored),
        "attempts": details.attempts([run["id"] for run in runs if run["attempt"] > 1]),
    }
    return known | {"health": health, "progress": _progress(details, runs), "state": details.state(stored)}


def _progress(details: Details, runs: list[DictRow]) -> Progress | None:
    """Of the run that is under way; None if none is."""
    if not runs or runs[0]["status"] != RunStatus.RUNNING or runs[0]["waiting_since"]:
        return None
    return measure(details.log(runs[0]["id"], limit=50))


def _chart(runs: list[DictRow]) -> dict[str, list[Any]]:
    """Runs that have ended, oldest first, a list a series."""
    ended = [run for run in reversed(runs) if run["finished_at"]]
    return {
        "at": [run["started_at"].timestamp() for run in ended],
        "seconds": [round((run["finished_at"] - run["started_at"]).total_seconds(), 3) for run in ended],
        "read": [run["rows_read"] for run in ended],
        "changed": [run["rows_written"] + run["rows_deleted"] for run in ended],
    }


def _latency(plane: ControlPlane, stored: StoredPipeline) -> dict[str, list[Any]]:
    """Of a live mart: how late its changes came over the last hours, and how much was left."""
    if stored.config.get("mode") != "live":
        return {}
    points = course(plane, stored, CHARTED_TIME).points
    return {
        "minutes": [point.at.timestamp() for point in points],
        "p50": [point.quantile_ms(0.5) for point in points],
        "p99": [point.quantile_ms(0.99) for point in points],
        "backlog": [point.backlog for point in points],
    }


def _fields(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Every field that is set, in the model's order, whatever fields there are."""
    known = [name for name in Pipeline.model_fields if name in config]
    names = known + [name for name in config if name not in known]
    about = {name: field.description or "" for name, field in Pipeline.model_fields.items()}
    given = ((name, config[name]) for name in names)
    return [{"name": n, "value": v, "about": about.get(n, "")} for n, v in given if v not in (None, "", [], {})]


def _versions(rows: list[DictRow]) -> list[dict[str, Any]]:
    """Each version with what it changed from the one before."""
    older = [*rows[1:], None]
    return [dict(row) | {"changes": _changes(before, row)} for row, before in zip(rows, older, strict=True)]


def _changes(before: DictRow | None, row: DictRow) -> dict[str, list[str]]:
    if before is None:
        return {}
    return {name: text_diff(*values) for name, values in differences(before["config"], row["config"])}
