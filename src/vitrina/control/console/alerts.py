"""Alerts: whom runners tell them, how the last deliveries went, and a button that tries one."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from vitrina.control.api.auth import Plane, Role, needs
from vitrina.control.console.access import Visitor
from vitrina.control.console.render import Screen, Show
from vitrina.control.services.alerts import Alerts

router = APIRouter(prefix="/alerts")
SHOWN = 50
WORDS = {
    "failed": "failed",
    "stale": "stale",
    "outage": "waits for somebody",
    "stuck": "stands still",
    "wrong": "wrong rows",
    "check": "breaks a check",
    "recovered": "recovered",
    "test": "test",
}
To = Annotated[str, Query(max_length=200)]
Before = Annotated[int | None, Query(ge=1, le=2**63 - 1)]


def _alerts(plane: Plane, caller: Visitor) -> Alerts:
    return Alerts(plane, caller.name)


Service = Annotated[Alerts, Depends(_alerts)]


@router.get("")
@needs(Role.VIEWER)
def alerts(show: Show, service: Service, to: To = "", before: Before = None) -> Response:
    """Destinations and deliveries."""
    return show.page("alerts.html", **_found(service, to.replace("\0", ""), before))


@router.post("/{name}/test")
@needs(Role.OPERATOR)
def test(show: Show, service: Service, name: str) -> Response:
    """Tell it that this is a test; what it answered is said, and is in the list."""
    row = service.test(name)
    response = show.part("alerts_lists.html", **_found(service, "", None))
    response.headers["HX-Trigger"] = json.dumps({"toast": _said(show, name, row)})
    return response


def _found(service: Alerts, to: str, before: int | None) -> dict[str, Any]:
    rows, following = service.deliveries(to or None, SHOWN, before)
    return {"destinations": service.destinations(), "deliveries": rows, "next": following, "to": to, "kinds": WORDS}


def _said(show: Screen, name: str, row: dict[str, Any]) -> dict[str, str]:
    result = row["result"] or {}
    if not row["finished_at"]:
        return _toast(show.words("No runner has answered yet; the test stays asked for"), "", "error")
    if row["error"]:
        return _toast(row["error"], row["remedy"] or "", "error")
    if not result["delivered"]:
        return _toast(
            show.words("{name} did not take the test: {error}", name=name, error=result["error"]), "", "error"
        )
    return _toast(show.words("{name} has taken the test", name=name), "", "info")


def _toast(text: str, remedy: str, level: str) -> dict[str, str]:
    return {"text": text, "remedy": remedy, "level": level}
