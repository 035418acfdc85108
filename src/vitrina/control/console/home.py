"""Home: every pipeline, where it stands and how it went, a page at a time; filters and sort live in the URL."""

from typing import Annotated, Any
from urllib.parse import urlencode
from uuid import UUID

from fastapi import APIRouter, Query, Response
from psycopg.rows import DictRow

from vitrina.control.api.auth import Plane, Role, needs
from vitrina.control.console.access import BASE
from vitrina.control.console.render import Screen, Show
from vitrina.control.plane import ControlPlane
from vitrina.control.services.overview import SORTS, Filters, Group, Overview
from vitrina.domain.labels import LABEL
from vitrina.domain.lifecycle import Status

router = APIRouter()
PAGE_SIZE = 50
DISABLED = "disabled"
Text = Annotated[str, Query(max_length=200)]


@router.get("/")
@needs(Role.VIEWER)
def home(
    show: Show,
    plane: Plane,
    q: Text = "",
    status: Text = "",
    mode: Text = "",
    label: Text = "",
    group: Text = "",
    sort: Text = "name",
    desc: Text = "",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    """The list; what a reader's own URL gets wrong is simply left out."""
    asked = {"q": q.replace("\0", "").strip(), "status": status, "mode": mode, "label": label, "group": group}
    asked |= {"sort": sort, "desc": desc}
    filters = _filters(asked)
    found = Overview(plane).page(filters, PAGE_SIZE, page)
    groups = found.groups or [Group(None, found.total, found.rows)]
    return show.page(
        "home.html",
        groups=[(group, [_row(show, row) for row in group.rows]) for group in groups],
        names=sorted({text.partition(":")[0] for text in found.labels}),
        found=found,
        filters=filters,
        asked=asked,
        page=page,
        pages=max(1, -(-found.total // PAGE_SIZE)),
        statuses=[*Status, DISABLED],
        url=lambda **changes: _url(asked, page, changes),
        tally=tally(show, found.tally, found.disabled),
        needs=_needs(show, plane),
        live=f"{BASE}/live/home",
    )


def look(show: Screen, plane: ControlPlane, ids: list[UUID]) -> dict[str, str]:
    """What the page keeps up to date: the rows that it shows, and how many are in each status."""
    overview = Overview(plane)
    rows = {f"row-{row['id']}": _row(show, row) for row in overview.rows(ids)}
    return rows | {"tally": tally(show, *overview.tally()), "needs": _needs(show, plane)}


def _needs(show: Screen, plane: ControlPlane) -> str:
    """What needs a person, above everything else."""
    rows = Overview(plane).needs()
    return show.fragment("home_needs.html", needs=rows, total=rows[0]["total"] if rows else 0)


def tally(show: Screen, counts: dict[str, int], disabled: int) -> str:
    """How many are in each status."""
    return show.fragment("home_tally.html", counts=counts, disabled=disabled)


def _row(show: Screen, row: DictRow) -> str:
    return show.fragment("home_row.html", row=row)


def _filters(asked: dict[str, str]) -> Filters:
    status = asked["status"]
    return Filters(
        text=asked["q"] or None,
        status=status if status in [*Status] else None,
        enabled=False if status == DISABLED else None,
        mode=asked["mode"].replace("\0", "") or None,
        labels=[asked["label"]] if LABEL.fullmatch(asked["label"]) else [],
        group=asked["group"] if LABEL.fullmatch(asked["group"]) and ":" not in asked["group"] else None,
        sort=asked["sort"] if asked["sort"] in SORTS else "name",
        descending=asked["desc"] == "1",
    )


def _url(asked: dict[str, str], page: int, changes: dict[str, Any]) -> str:
    """This list with something else; another filter or order starts at its first page."""
    wanted = asked | {"page": str(page)} | {"page": "1"} | {name: str(value) for name, value in changes.items()}
    if wanted["sort"] == "name":
        wanted["sort"] = ""
    kept = {name: value for name, value in wanted.items() if value and (name, value) != ("page", "1")}
    return f"{BASE}/?{urlencode(kept)}" if kept else f"{BASE}/"
