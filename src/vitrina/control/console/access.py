"""Who is looking: a session cookie on every page, a role that the page declares, and our own Origin on every change."""

from typing import Annotated
from urllib.parse import parse_qs, quote, urlsplit

from fastapi import Depends, Request

from vitrina.control.api.auth import Actor, Plane, Role, needed_role
from vitrina.control.plane import ControlPlane
from vitrina.control.problems import Forbidden, Unauthorised
from vitrina.meta.repos.sessions import SessionRepo

BASE = "/console"
COOKIE = "vitrina_session"
SAFE = ("GET", "HEAD")


class SignedOut(Unauthorised):
    """Nobody is signed in; a page sends its reader to the door, and back to where they were."""

    def __init__(self, request: Request) -> None:
        super().__init__("you are not signed in", "sign in with a token, or with the link that vitrina up prints")
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        wanted = here if request.method in SAFE and "HX-Request" not in request.headers else BASE + "/"
        self.door = f"{BASE}/sign-in?next={quote(wanted, safe='')}"


def same_origin(request: Request) -> None:
    """A change must come from a page of ours. Browsers send Origin with every POST, and no page can forge it."""
    if request.method in SAFE:
        return
    origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
    if not host or urlsplit(origin).netloc != host:
        raise Forbidden(
            f"a change must come from this console, and this one came from {origin or 'nowhere'!r}",
            "open the console and do it there; a proxy in front of it has to pass the Host header on",
        )


def enter(request: Request, plane: Plane) -> Actor:
    """The visitor, if the cookie is good and the role suffices."""
    same_origin(request)
    actor = recognise(request, plane)
    if actor is None:
        raise SignedOut(request)
    needed = needed_role(request.scope["route"].endpoint)
    if needed is None or actor.role < needed:
        wanted = needed.name.lower() if needed else "nobody"
        raise Forbidden(f"this needs the role {wanted}, and {actor.name!r} is {actor.role.name.lower()}")
    request.state.actor = actor
    return actor


def recognise(request: Request, plane: ControlPlane) -> Actor | None:
    """Whose cookie it is; None if nobody's."""
    secret = request.cookies.get(COOKIE)
    if not secret:
        return None
    with plane.session() as conn:
        found = SessionRepo(conn).find(secret, plane.settings.oidc_issuer)
    return Actor(found["name"], Role[found["role"].upper()]) if found else None


async def read_form(request: Request) -> dict[str, list[str]]:
    """The fields of a form, each with all its values; Postgres holds no NUL in a text."""
    body = (await request.body()).decode(errors="replace").replace("\0", "")
    return {
        name: [value.replace("\0", "") for value in values]
        for name, values in parse_qs(body, keep_blank_values=True).items()
    }


Visitor = Annotated[Actor, Depends(enter)]
Form = Annotated[dict[str, list[str]], Depends(read_form)]
