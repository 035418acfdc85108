"""What the buttons do: each calls the service that the API calls, says what became of it, and the page looks again."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Response

from vitrina.control.api.auth import Plane, Role, needs
from vitrina.control.console.access import BASE, Form, Visitor
from vitrina.control.console.i18n import Words
from vitrina.control.console.render import Screen, Show
from vitrina.control.problems import NotFound
from vitrina.control.services.pipelines import PipelineService
from vitrina.control.services.requests import RequestService
from vitrina.domain.errors import VitrinaError
from vitrina.domain.request import RequestKind
from vitrina.domain.run import RunOptions

router = APIRouter()
OPTIONS = ("restart", "rebuild", "allow_deletes")
MOST_AT_ONCE = 200


@router.post("/pipelines/{which}/run")
@needs(Role.OPERATOR)
def run(show: Show, plane: Plane, caller: Visitor, which: str, form: Form) -> Response:
    """Ask for a run, with what the form ticks."""
    options = RunOptions(**{name: name in form for name in OPTIONS})
    answer = PipelineService(plane, caller.name).run(which, options)
    said = "{name}: run requested" if answer.changed else "{name} is requested or running already"
    return show.done(show.words(said, name=answer.name))


@router.post("/pipelines/{which}/pause")
@needs(Role.OPERATOR)
def pause(show: Show, plane: Plane, caller: Visitor, which: str, form: Form) -> Response:
    """Ask for a pause, at once if the form says so."""
    answer = PipelineService(plane, caller.name).pause(which, now="now" in form)
    said = "{name}: pause requested" if answer.changed else "{name} rests already"
    return show.done(show.words(said, name=answer.name))


@router.post("/pipelines/{which}/enable")
@needs(Role.OPERATOR)
def enable(show: Show, plane: Plane, caller: Visitor, which: str) -> Response:
    """Let runners take it."""
    stored = PipelineService(plane, caller.name).set_enabled(which, True)
    return show.done(show.words("{name}: enabled", name=stored.name))


@router.post("/pipelines/{which}/disable")
@needs(Role.OPERATOR)
def disable(show: Show, plane: Plane, caller: Visitor, which: str) -> Response:
    """Let no runner take it."""
    stored = PipelineService(plane, caller.name).set_enabled(which, False)
    return show.done(show.words("{name}: disabled", name=stored.name))


@router.post("/pipelines/{which}/reload-config")
@needs(Role.OPERATOR)
def reload_config(show: Show, plane: Plane, caller: Visitor, which: str) -> Response:
    """Let the run take the present configuration at its next batch."""
    version = PipelineService(plane, caller.name).reload_config(which)
    return show.done(show.words("The run takes version {version} at its next batch", version=version))


@router.post("/pipelines/{which}/reconcile")
@needs(Role.OPERATOR)
def reconcile(show: Show, plane: Plane, caller: Visitor, which: str) -> Response:
    """Ask a runner to compare mart and query; the page shows the answer when it is there."""
    RequestService(plane, caller.name).ask(RequestKind.RECONCILE, which, {})
    return show.done(show.words("Comparison requested"))


@router.post("/pipelines/{which}/repair")
@needs(Role.OPERATOR)
def repair(show: Show, plane: Plane, caller: Visitor, which: str, form: Form) -> Response:
    """Ask for a run that converges what differs, whatever the mode."""
    options = RunOptions(repair=True, allow_deletes="allow_deletes" in form)
    answer = PipelineService(plane, caller.name).run(which, options)
    said = (
        "{name}: repair requested; then it is compared again"
        if answer.changed
        else "{name} is requested or running already"
    )
    return show.done(show.words(said, name=answer.name))


@router.post("/pipelines/{which}/delete")
@needs(Role.ADMIN)
def delete(show: Show, plane: Plane, caller: Visitor, which: str) -> Response:
    """Forget it; the mart stays."""
    PipelineService(plane, caller.name).delete(which)
    response = show.done(show.words("Deleted; the mart stays"))
    response.headers["HX-Redirect"] = f"{BASE}/"
    return response


@router.post("/selected/{action}")
@needs(Role.OPERATOR)
def selected(
    show: Show, plane: Plane, caller: Visitor, action: str, form: Form, label: Annotated[str, Query()] = ""
) -> Response:
    """The same for several, or for all with a label: each on its own, so that one which cannot holds up no other."""
    service = PipelineService(plane, caller.name)
    does: dict[str, Callable[[str], object]] = {
        "run": lambda which: service.run(which, RunOptions()),
        "pause": service.pause,
        "resume": service.resume,
        "enable": lambda which: service.set_enabled(which, True),
        "disable": lambda which: service.set_enabled(which, False),
    }
    if action not in does:
        raise NotFound(f"there is no action {action!r}")
    wrong = []
    chosen = service.labelled(label) if label else form.get("id", [])[:MOST_AT_ONCE]
    for which in chosen:
        try:
            does[action](which)
        except VitrinaError as error:
            wrong.append(str(error))
    return _told(show, show.words, len(chosen), wrong)


def _told(show: Screen, words: Words, count: int, wrong: list[str]) -> Response:
    if not count:
        return show.done(words("Nothing is selected"), level="error")
    done = words("Done: {n} of {all}", n=count - len(wrong), all=count)
    return show.done(done, level="error" if wrong else "info", remedy="; ".join(wrong[:5]))
