"""Routes over pipelines. `{id}` is the uuid or the name."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Query, Response, status
from pydantic import StringConstraints

from vitrina.control.api import models
from vitrina.control.api.auth import Look, Pipelines, Plane, Requests, Role, needs
from vitrina.control.api.freshness import LatencyOut, LiveOut
from vitrina.control.api.openapi import problems
from vitrina.control.problems import Stale
from vitrina.control.services.latency import course
from vitrina.domain.labels import LABEL, LONGEST, MOST
from vitrina.domain.lifecycle import Status
from vitrina.domain.pipeline import Pipeline
from vitrina.domain.run import RunOptions

router = APIRouter(prefix="/pipelines", tags=["pipelines"])

NO_NUL = r"^[^\x00]*$"  # Postgres holds no NUL in a text
Which = Annotated[
    str,
    Path(
        alias="id", description="The uuid or the name.", min_length=1, max_length=200, pattern=NO_NUL,
        examples=["film_dim_full"],
    ),
]  # fmt: skip
Name = Annotated[str | None, Query(max_length=200, pattern=NO_NUL, description="A part of the name, in any case.")]
Label = Annotated[
    Sequence[Annotated[str, StringConstraints(max_length=LONGEST, pattern=f"^{LABEL.pattern}$")]],
    Query(max_length=MOST, description="`name:value`, or a name for any value of it; of several, all must be there."),
]
After = Annotated[str | None, Query(max_length=200, pattern=NO_NUL, description="`next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=200)]
Before = Annotated[int | None, Query(ge=1, le=2**63 - 1, description="`next` of the page before.")]
Minutes = Annotated[int, Query(ge=1, le=366 * 1440, description="Back from now.")]
IfMatch = Annotated[str | None, Header(description="The ETag you read; a newer version answers 412.")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=NO_NUL,
        description="Any text of yours: repeated within a day, it gets the first answer again and starts nothing.",
    ),
]
EXAMPLE = {
    "name": "film_dim_copy",
    "source_query": "SELECT f.id AS film_id, f.title, f.rating FROM content.film_work f",
    "target_table": "analytics.film_dim_copy",
    "key": ["film_id"],
    "mode": "full",
}
Config = Annotated[Pipeline, Body(examples=[EXAMPLE])]


@router.get("", operation_id="list_pipelines", summary="List pipelines")
@needs(Role.VIEWER)
def list_pipelines(
    service: Pipelines,
    status: Status | None = None,
    enabled: bool | None = None,
    name: Name = None,
    label: Label = (),
    after: After = None,
    limit: Limit = 50,
) -> models.PipelinePage:
    """Pipelines by name, a page at a time."""
    found, following = service.page(limit, status=status, enabled=enabled, name=name, labels=list(label), after=after)
    live, waits = service.freshness(found), service.waiting(found)
    items = [models.PipelineOut.of(it, live=live.get(it.id), waits=waits.get(it.id)) for it in found]
    return models.PipelinePage(items=items, next=following)


@router.post("", operation_id="create_pipeline", summary="Create a pipeline", status_code=201, responses=problems(409))
@needs(Role.ADMIN)
def create_pipeline(service: Pipelines, response: Response, config: Config) -> models.PipelineOut:
    """Store a new pipeline with its tasks. What validation calls an error is refused with the findings."""
    stored, findings = service.create(config)
    response.headers["ETag"] = _etag(stored.version)
    response.headers["Location"] = f"/api/v1/pipelines/{stored.id}"
    return models.PipelineOut.of(stored, findings)


@router.get("/{id}", operation_id="get_pipeline", summary="Get a pipeline", responses=problems(404))
@needs(Role.VIEWER)
def get_pipeline(service: Pipelines, response: Response, which: Which) -> models.PipelineOut:
    """One pipeline, with an ETag for editing."""
    stored = service.get(which)
    response.headers["ETag"] = _etag(stored.version)
    live, waits = service.freshness([stored]).get(stored.id), service.waiting([stored]).get(stored.id)
    return models.PipelineOut.of(stored, live=live, waits=waits)


@router.patch("/{id}", operation_id="edit_pipeline", summary="Edit a pipeline", responses=problems(404, 409, 412))
@needs(Role.ADMIN)
def edit_pipeline(
    service: Pipelines, response: Response, which: Which, changes: models.PipelinePatch, if_match: IfMatch = None
) -> models.PipelineOut:
    """Change some fields; what is left out stays, null puts a field back to its default, tasks are replaced as a whole.

    While it runs: only what does not touch the run, such as batch_size, schedule_interval, labels and enabled. The run
    keeps the version that it was claimed with until `reload-config`.
    """
    given = changes.model_dump(mode="json", exclude_unset=True)
    stored, findings = service.patch(which, given, _version(if_match))
    response.headers["ETag"] = _etag(stored.version)
    return models.PipelineOut.of(stored, findings)


@router.delete(
    "/{id}", operation_id="delete_pipeline", summary="Delete a pipeline", status_code=204, responses=problems(404, 409)
)
@needs(Role.ADMIN)
def delete_pipeline(service: Pipelines, which: Which) -> None:
    """Forget a pipeline and its history. The mart stays."""
    service.delete(which)


@router.post(
    "/{id}/run", operation_id="run_pipeline", summary="Ask for a run", status_code=202, responses=problems(404, 409)
)
@needs(Role.OPERATOR)
def run_pipeline(
    service: Pipelines, which: Which, body: models.RunBody | None = None, idempotency_key: IdempotencyKey = None
) -> models.Requested:
    """Asking again while it is requested or running changes nothing."""
    return models.Requested.of(service.run(which, (body or models.RunBody()).options(), idempotency_key))


@router.post(
    "/{id}/pause",
    operation_id="pause_pipeline",
    summary="Ask for a pause",
    status_code=202,
    responses=problems(404, 409),
)
@needs(Role.OPERATOR)
def pause_pipeline(service: Pipelines, which: Which, body: models.PauseBody | None = None) -> models.Requested:
    """After the current batch, or at once if it is not running. A paused pipeline rests until somebody runs it.

    With `now`, statements under way are cancelled, at the source and in the warehouse: the run goes on from its last
    committed batch. Nothing has failed then.
    """
    return models.Requested.of(service.pause(which, now=(body or models.PauseBody()).now))


@router.post("/{id}/enable", operation_id="enable_pipeline", summary="Enable a pipeline", responses=problems(404))
@needs(Role.OPERATOR)
def enable_pipeline(service: Pipelines, which: Which) -> models.PipelineOut:
    """Let runners take it."""
    return models.PipelineOut.of(service.set_enabled(which, True))


@router.post("/{id}/disable", operation_id="disable_pipeline", summary="Disable a pipeline", responses=problems(404))
@needs(Role.OPERATOR)
def disable_pipeline(service: Pipelines, which: Which) -> models.PipelineOut:
    """Let no runner take it; a run that is under way ends as it would."""
    return models.PipelineOut.of(service.set_enabled(which, False))


@router.post(
    "/{id}/reload-config",
    operation_id="reload_config",
    summary="Reload the configuration",
    responses=problems(404, 409),
)
@needs(Role.OPERATOR)
def reload_config(service: Pipelines, which: Which) -> models.Reloaded:
    """Let the running run take the present batch_size at its next batch."""
    return models.Reloaded(version=service.reload_config(which))


@router.post("/{id}/validate", operation_id="validate_pipeline", summary="Validate a pipeline", responses=problems(404))
@needs(Role.OPERATOR)
def validate_pipeline(service: Pipelines, which: Which) -> models.Validated:
    """Check a stored pipeline again, against its source and its mart as they are now."""
    return models.Validated.of(service.validate(which))


@router.post(
    "/{id}/preview",
    operation_id="preview_pipeline",
    summary="Preview the first rows",
    responses=problems(404) | {202: {"model": models.RequestOut, "description": "Not answered yet"}},
)
@needs(Role.OPERATOR)
def preview_pipeline(
    service: Requests, response: Response, which: Which, body: models.PreviewBody | None = None
) -> models.PreviewOut | models.RequestOut:
    """Never writes. A plan with transforms is previewed by a runner: 202 if that takes longer than a few seconds."""
    found = service.preview(which, (body or models.PreviewBody()).limit)
    return accepted(found, response) if "kind" in found else models.PreviewOut(**found)


@router.get("/{id}/status", operation_id="get_status", summary="Where it stands", responses=problems(404))
@needs(Role.VIEWER)
def get_status(service: Pipelines, which: Which) -> models.StatusOut:
    """Its status, its last run, and for a live pipeline how fresh the mart is and whom it waits for."""
    return models.StatusOut.of(service.status(which))


@router.get("/{id}/state", operation_id="get_state", summary="Its checkpoint", responses=problems(404))
@needs(Role.VIEWER)
def get_state(service: Pipelines, look: Look, which: Which) -> models.StateOut:
    """Where the next run goes on; for incremental the safe horizon and who holds it, for live how fresh the mart is."""
    stored = service.get(which)
    live = service.freshness([stored]).get(stored.id)
    return models.StateOut(
        **service.state(which), horizon=_shown_horizon(look.horizon(stored)), live=LiveOut.of(live) if live else None
    )


@router.get("/{id}/latency", operation_id="get_latency", summary="Its latency over time", responses=problems(404))
@needs(Role.VIEWER)
def get_latency(service: Pipelines, plane: Plane, which: Which, minutes: Minutes = 180) -> LatencyOut:
    """Of a live mart: how late changes came, and how much was left, over the last so many minutes."""
    return LatencyOut.of(course(plane, service.get(which), timedelta(minutes=minutes)))


@router.get("/{id}/runs", operation_id="list_runs", summary="Its runs", responses=problems(404))
@needs(Role.VIEWER)
def list_runs(service: Pipelines, which: Which, limit: Limit = 20, before: Before = None) -> models.RunPage:
    """Newest first, a page at a time."""
    rows, following = service.runs(which, limit, before)
    return models.RunPage(items=[models.RunOut.of(row) for row in rows], next=following)


@router.get("/{id}/versions", operation_id="list_versions", summary="Its versions", responses=problems(404))
@needs(Role.VIEWER)
def list_versions(service: Pipelines, which: Which, limit: Limit = 50) -> list[models.VersionOut]:
    """Its configuration over time, newest first."""
    return [models.VersionOut(**row) for row in service.versions(which, limit)]


@router.get("/{id}/reconcile", operation_id="get_reconcile", summary="The last comparison", responses=problems(404))
@needs(Role.VIEWER)
def get_reconcile(service: Requests, which: Which) -> models.RequestOut | None:
    """Of mart and query: counts, min and max, and the keys that differ. Null: never asked for."""
    row = service.last_report(which)
    return models.RequestOut.of(row) if row else None


@router.post(
    "/{id}/reconcile",
    operation_id="ask_reconcile",
    summary="Compare mart and query",
    responses=problems(404) | {202: {"model": models.RequestOut, "description": "Not answered yet"}},
)
@needs(Role.OPERATOR)
def ask_reconcile(
    service: Requests, response: Response, which: Which, body: models.ReconcileBody | None = None
) -> models.RequestOut:
    """By a runner; 202 if that takes longer than a few seconds, then look at `requests/{id}`."""
    params = (body or models.ReconcileBody()).model_dump(exclude_none=True)
    return accepted(service.reconcile(which, params), response)


@router.post(
    "/{id}/repair", operation_id="repair_pipeline", summary="Ask for a repair", status_code=202,
    responses=problems(404, 409),
)  # fmt: skip
@needs(Role.OPERATOR)
def repair_pipeline(
    service: Pipelines, which: Which, body: models.RepairBody | None = None, idempotency_key: IdempotencyKey = None
) -> models.Requested:
    """A run that compares mart and query and converges the keys that differ, whatever the mode."""
    options = RunOptions(repair=True, allow_deletes=(body or models.RepairBody()).allow_deletes)
    return models.Requested.of(service.run(which, options, idempotency_key))


def accepted(row: dict[str, Any], response: Response) -> models.RequestOut:
    """200 once it is answered, 202 and where to look until then."""
    if not row["finished_at"]:
        response.status_code = status.HTTP_202_ACCEPTED
        response.headers["Location"] = f"/api/v1/requests/{row['id']}"
    return models.RequestOut.of(row)


def _etag(version: int) -> str:
    return f'"{version}"'


def _version(if_match: str | None) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    bare = if_match.strip().removeprefix("W/").strip('"')
    if not (bare.isascii() and bare.isdigit()):
        raise Stale(f"If-Match {if_match!r} is no ETag of ours", "send the ETag that GET answered")
    return int(bare[:20])


def _shown_horizon(horizon: dict[str, Any] | None) -> dict[str, Any] | None:
    """Why there is none, as JSON."""
    found = (horizon or {}).get("finding")
    return horizon if horizon is None or found is None else horizon | {"finding": found.as_json()}
