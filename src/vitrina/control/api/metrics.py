"""`/metrics`: how things stand, to whoever scrapes with a token."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from vitrina.control.api.auth import Plane, Role, authorise, bearer, needs
from vitrina.control.api.openapi import problems
from vitrina.control.services.metrics import StateMetrics
from vitrina.metrics import shows

router = APIRouter(tags=["health"])
TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}, "description": "Prometheus' text format"}}


def let_in(
    request: Request, plane: Plane, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> None:
    """The scraper's own token opens this and nothing else; otherwise a token of ours, as everywhere."""
    token = plane.settings.metrics_token
    if token is None or not shows(request.headers.get("Authorization"), token.get_secret_value()):
        authorise(request, plane, credentials)


@router.get(
    "/metrics",
    operation_id="metrics",
    summary="Metrics",
    response_class=PlainTextResponse,
    responses=TEXT | problems(401, 403, 503),
    dependencies=[Depends(let_in)],
)
@needs(Role.VIEWER)
def metrics(request: Request) -> Response:
    """Pipelines, runners, captures and alerts as they stand, for Prometheus; runners count what they do themselves."""
    states: StateMetrics = request.app.state.metrics
    return Response(states.exposition(), media_type=CONTENT_TYPE_LATEST)
