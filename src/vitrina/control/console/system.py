"""The system: runners with what they hold, captures, versions, and whether every database answers."""

from fastapi import APIRouter, Response

from vitrina.control.api.auth import Plane, Role, needs
from vitrina.control.console.access import BASE
from vitrina.control.console.render import Screen, Show
from vitrina.control.plane import ControlPlane
from vitrina.control.services.details import Details

router = APIRouter(prefix="/system")
SHOWN_CHANGES = 30


@router.get("")
@needs(Role.VIEWER)
def system(show: Show, plane: Plane) -> Response:
    """All of it; the databases are asked once the page is there."""
    details = Details(plane)
    return show.page(
        "system.html",
        parts=look(show, plane),
        versions=details.versions(),
        audit=details.audit(None, SHOWN_CHANGES),
        live=f"{BASE}/live/system",
    )


@router.get("/health")
@needs(Role.VIEWER)
def health(show: Show, plane: Plane) -> Response:
    """Whether the databases and the other sinks answer."""
    details = Details(plane)
    return show.part("system_health.html", databases=details.databases(), sinks=details.sinks())


def look(show: Screen, plane: ControlPlane) -> dict[str, str]:
    """What the page keeps up to date."""
    details = Details(plane)
    return {
        "runners": show.fragment("system_runners.html", runners=details.runners()),
        "captures": show.fragment("system_captures.html", captures=details.captures()),
    }
