"""Routes over runs, requests, runners, captures, lineage and health."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from vitrina.control.api import models
from vitrina.control.api.auth import Caller, Look, Pipelines, Plane, Requests, Role, StillValid, needs
from vitrina.control.api.freshness import CaptureOut
from vitrina.control.api.openapi import problems
from vitrina.control.api.pipelines import Config
from vitrina.control.problems import Forbidden, NotFound
from vitrina.control.services.inspection import Inspection
from vitrina.domain.events import Said
from vitrina.domain.lifecycle import RunStatus
from vitrina.domain.request import RequestKind

router = APIRouter(tags=["runs and runners"])
public = APIRouter(tags=["health"])

RunId = Annotated[int, Path(ge=1, le=2**63 - 1)]
POLL_SECONDS = 0.3
UNREADY: dict[int | str, dict[str, Any]] = {503: {"model": models.Health, "description": "Not now"}}


def existing_run(look: Look, run_id: RunId) -> dict[str, Any]:
    """A run that is there; asked before a stream begins, so that 404 is still possible."""
    return look.run(run_id)


@router.get("/runs/{run_id}", operation_id="get_run", summary="Get a run", responses=problems(404))
@needs(Role.VIEWER)
def get_run(look: Look, run: Annotated[dict[str, Any], Depends(existing_run)]) -> models.RunWithAttempts:
    """One run, and its attempts: those of a runner that was lost or of a neighbour that was away are among them."""
    return models.RunWithAttempts.of(run | {"attempts": look.attempts(run["id"])})


@router.get(
    "/runs/{run_id}/events",
    operation_id="follow_run",
    summary="Follow a run",
    response_class=EventSourceResponse,
    responses=problems(404),
)
@needs(Role.VIEWER)
async def follow_run(
    look: Look,
    run: Annotated[dict[str, Any], Depends(existing_run)],
    still_valid: StillValid,
    last_event_id: Annotated[str | None, Header(description="Go on after this event.")] = None,
    follow: Annotated[bool, Query(description="Stay until the run ends; false: only what there is.")] = True,
) -> AsyncIterator[ServerSentEvent]:
    """What a run says, as server-sent events, from the start or after Last-Event-ID, until it ends."""
    after = _event_id(last_event_id)
    while await run_in_threadpool(still_valid):
        run, events = await run_in_threadpool(_look_again, look, run, after)
        for row in events:
            after = row["id"]
            yield _event(row["level"], models.EventOut.of(row), after)
        if not events and (run["status"] != RunStatus.RUNNING or not follow):
            yield _event("end", models.RunOut.of(run))
            return
        if not events:
            await asyncio.sleep(POLL_SECONDS)


@router.get("/requests/{request_id}", operation_id="get_request", summary="Get a request", responses=problems(404))
@needs(Role.VIEWER)
def get_request(service: Requests, caller: Caller, request_id: UUID) -> models.RequestOut:
    """A request to a runner, and its answer once there is one. A preview is for who may ask for one."""
    row = service.get(request_id)
    needed = _needed_to_see(row)
    if caller.role < needed:
        raise Forbidden(f"this needs the role {needed.name.lower()}, and {caller.name!r} is {caller.role.name.lower()}")
    return models.RequestOut.of(row)


def _needed_to_see(request: dict[str, Any]) -> Role:
    """What a query gives before it is a mart is the source's data; of one that nobody has stored, an admin's."""
    if request["kind"] == RequestKind.CAPTURE:
        return Role.ADMIN
    if request["kind"] != RequestKind.PREVIEW:
        return Role.VIEWER
    return Role.OPERATOR if request["pipeline_id"] else Role.ADMIN


@router.post("/validate", operation_id="validate_config", summary="Validate a configuration", tags=["pipelines"])
@needs(Role.OPERATOR)
def validate_config(service: Pipelines, caller: Caller, config: Config) -> models.Validated:
    """Check a configuration without storing it. Its rows are looked at for an admin only, who might store it too."""
    return models.Validated.of(service.findings(config, reads=caller.role >= Role.ADMIN))


@router.get("/lineage", operation_id="get_lineage", summary="Lineage")
@needs(Role.VIEWER)
def get_lineage(look: Look) -> list[models.LineageOut]:
    """Which tables and columns each mart comes from."""
    return [models.LineageOut.of(row) for row in look.lineage()]


@router.get("/runners", operation_id="list_runners", summary="List runners")
@needs(Role.VIEWER)
def list_runners(look: Look) -> list[models.RunnerOut]:
    """The runner processes seen within a day."""
    return [models.RunnerOut(**row) for row in look.runners()]


@router.get("/captures", operation_id="list_captures", summary="List captures")
@needs(Role.VIEWER)
def list_captures(look: Look) -> list[CaptureOut]:
    """How the changes of each source are captured, who follows them, and what to worry about."""
    return [CaptureOut.of(row) for row in look.captures()]


@public.get("/livez", operation_id="livez", summary="Alive")
def livez() -> models.Health:
    """This process answers."""
    return models.Health(status="ok", checks={})


@public.get("/readyz", operation_id="readyz", summary="Ready", responses=UNREADY)
@public.get("/health", operation_id="health", summary="Healthy", responses=UNREADY)
def readyz(plane: Plane, response: Response) -> models.Health:
    """The meta-store answers too."""
    checks = Inspection(plane).health()
    ready = all(said == "ok" for said in checks.values())
    response.status_code = 200 if ready else 503
    return models.Health(status="ok" if ready else "unavailable", checks=checks)


def _look_again(look: Inspection, run: dict[str, Any], after: int) -> tuple[dict[str, Any], list[Said]]:
    """The run first: what it said before it ended is then among the events.

    One that is gone says no more: it was a live mart's and went well, so that it was added to the row of its hour; or
    its pipeline was deleted.
    """
    try:
        return look.run(run["id"]), look.events(run["id"], after)
    except NotFound:
        status = RunStatus.SUCCESS if look.has_pipeline(run["pipeline_id"]) else RunStatus.FAILED
        return run | {"status": status}, []


def _event_id(last_event_id: str | None) -> int:
    known = last_event_id and last_event_id.isascii() and last_event_id.isdigit()
    return min(int(last_event_id[:20]), 2**63 - 1) if last_event_id and known else 0


def _event(kind: str, said: models.EventOut | models.RunOut, number: int | None = None) -> ServerSentEvent:
    return ServerSentEvent(id=str(number) if number else None, event=kind, data=said.model_dump(mode="json"))
