"""Access: a bearer token on every route, and a role that the route declares. What declares none is closed."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from psycopg.rows import DictRow

from vitrina.control.plane import ControlPlane
from vitrina.control.problems import Forbidden, Unauthorised
from vitrina.control.services.inspection import Inspection
from vitrina.control.services.pipelines import PipelineService
from vitrina.control.services.requests import RequestService
from vitrina.meta.repos.editing import EditingRepo
from vitrina.meta.repos.tokens import TokenRepo

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
bearer = HTTPBearer(auto_error=False, description="A token of `vitrina token create`.")


class Role(IntEnum):
    """Each may do what the ones before it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


@dataclass(frozen=True)
class Actor:
    """Who is calling."""

    name: str
    role: Role


def needs(role: Role) -> Callable[[Endpoint], Endpoint]:
    """Declare the role that a route needs."""

    def mark(endpoint: Endpoint) -> Endpoint:
        endpoint.needed_role = role  # type: ignore[attr-defined]
        return endpoint

    return mark


def needed_role(endpoint: Callable[..., Any]) -> Role | None:
    """The role that a route declares; None: nobody may."""
    role: Role | None = getattr(endpoint, "needed_role", None)
    return role


def plane_of(request: Request) -> ControlPlane:
    """The process's control plane."""
    plane: ControlPlane = request.app.state.plane
    return plane


Plane = Annotated[ControlPlane, Depends(plane_of)]


def authorise(
    request: Request, plane: Plane, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Actor:
    """The caller, if the token is good and its role suffices."""
    if credentials is None:
        raise Unauthorised("this needs a token", "send it as: Authorization: Bearer …")
    found = _find(plane, credentials.credentials)
    if found is None:
        refused(request, plane, "token refused", "token")
        raise Unauthorised("the token is unknown or revoked", "create one with: vitrina token create NAME --role ROLE")
    actor = Actor(found["name"], Role[found["role"].upper()])
    needed = needed_role(request.scope["route"].endpoint)
    if needed is None or actor.role < needed:
        wanted = needed.name.lower() if needed else "nobody"
        raise Forbidden(f"this needs the role {wanted}, and {actor.name!r} is {actor.role.name.lower()}")
    return actor


def _find(plane: ControlPlane, token: str) -> DictRow | None:
    with plane.session() as conn:
        return TokenRepo(conn).find(token)


def refused(request: Request, plane: ControlPlane, action: str, what: str) -> None:
    """Write down that somebody knocked with a secret that opens nothing, and from where."""
    with plane.session() as conn:
        EditingRepo(conn).audit_refusal(action, {"with": what, "from": request.client.host if request.client else None})


def still_valid(
    plane: Plane, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]
) -> Callable[[], bool]:
    """For answers that take long: whether the caller's token is good even now."""
    return lambda: credentials is not None and _find(plane, credentials.credentials) is not None


Caller = Annotated[Actor, Depends(authorise)]
StillValid = Annotated[Callable[[], bool], Depends(still_valid)]


def _pipelines(plane: Plane, caller: Caller) -> PipelineService:
    return PipelineService(plane, caller.name)


def _requests(plane: Plane, caller: Caller) -> RequestService:
    return RequestService(plane, caller.name)


def _inspection(plane: Plane, _: Caller) -> Inspection:
    return Inspection(plane)


Pipelines = Annotated[PipelineService, Depends(_pipelines)]
Requests = Annotated[RequestService, Depends(_requests)]
Look = Annotated[Inspection, Depends(_inspection)]
