"""Sources: which there are; one of them, asked once the page is there, and again by its button."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from vitrina.control.api.auth import Plane, Role, needs
from vitrina.control.console.access import Form, Visitor
from vitrina.control.console.render import Show
from vitrina.control.services.requests import RequestService
from vitrina.control.services.sources import Sources
from vitrina.domain.errors import VitrinaError
from vitrina.domain.request import CaptureParams
from vitrina.domain.table_names import split_tables

router = APIRouter(prefix="/sources")


def _sources(plane: Plane) -> Sources:
    return Sources(plane)


Places = Annotated[Sources, Depends(_sources)]


@router.get("")
@needs(Role.VIEWER)
def sources(show: Show, places: Places) -> Response:
    """All of them; none is asked."""
    return show.page("sources.html", sources=places.all())


@router.get("/{name}")
@needs(Role.OPERATOR)
def source(show: Show, places: Places, name: str) -> Response:
    """One of them."""
    return show.page("source.html", source=places.get(name))


@router.get("/{name}/look")
@needs(Role.OPERATOR)
def look(show: Show, places: Places, name: str) -> Response:
    """What it answers now."""
    return show.part("source_look.html", source=places.get(name), answer=places.ask(name, tables=True))


@router.post("/{name}/capture")
@needs(Role.ADMIN)
def capture(show: Show, plane: Plane, caller: Visitor, places: Places, name: str, form: Form) -> Response:
    """What a runner would do to capture it, or no longer to; done, once that was seen."""
    source = places.get(name)
    fields = {key: values[0].strip() for key, values in form.items() if values and values[0].strip()}
    told = failed = None
    try:
        tables = split_tables(fields.get("tables", ""))
        params = CaptureParams.parse(fields | {"source": source.name, "tables": tables})
        told = RequestService(plane, caller.name).capture(params)
    except VitrinaError as error:  # in its place: a remedy is to be read and copied, and is gone too soon in passing
        failed = {"error": error.message, "remedy": error.remedy}
    return show.part("source_capture_plan.html", told=told, failed=failed, source=places.get(name), fields=fields)
