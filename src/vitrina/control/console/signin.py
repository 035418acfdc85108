"""The door: in with a token or a one-time link, out again. No GET changes anything, so a link is used by a POST."""

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from vitrina.control.api.auth import Plane, refused
from vitrina.control.console.access import BASE, COOKIE, Form, same_origin
from vitrina.control.console.render import Screen, Show
from vitrina.control.openid.signing import OpenId
from vitrina.control.plane import ControlPlane
from vitrina.meta.repos.editing import EditingRepo
from vitrina.meta.repos.sessions import SESSION_SECONDS, SessionRepo

UNKNOWN, USED = "This token is unknown or revoked.", "This link has been used or is too old."
router = APIRouter(dependencies=[Depends(same_origin)])


@router.get("/sign-in")
def sign_in_page(show: Show, next: str = BASE + "/") -> Response:
    """A field for a token. A link brings its secret after the #, which no server and no log sees."""
    return door(show, 200, inside(next))


@router.post("/sign-in")
def sign_in(show: Show, plane: Plane, form: Form) -> Response:
    """A session for a good token or an unused link."""
    token, link = first(form, "token").strip(), first(form, "link").strip()
    wanted = inside(first(form, "next"))
    secret = _begin(plane, token, link)
    if secret is None:
        refused(show.request, plane, "sign-in refused", "link" if link else "token")
        return door(show, 401, wanted, show.words(USED if link else UNKNOWN))
    return admit(show.request, plane, secret, wanted, SESSION_SECONDS)


@router.post("/sign-out")
def sign_out(show: Show, plane: Plane) -> Response:
    """The session ends, here and at the server."""
    secret = show.request.cookies.get(COOKIE)
    if secret:
        with plane.session() as conn:
            SessionRepo(conn).close(secret)
    response = RedirectResponse(f"{BASE}/sign-in", 303)
    response.delete_cookie(COOKIE, path=BASE)
    return response


def door(show: Screen, status: int, wanted: str, wrong: str = "", remedy: str = "") -> Response:
    """The page with every way in, and why the last one did not open."""
    openid: OpenId | None = show.request.app.state.openid
    provider = openid.label if openid else ""
    return show.page("sign_in.html", status, next=wanted, wrong=wrong, remedy=remedy, provider=provider)


def admit(request: Request, plane: ControlPlane, secret: str, wanted: str, seconds: int) -> Response:
    """On to the page that was asked for, with a session."""
    response = RedirectResponse(wanted, 303)
    secure = is_secure(request, plane)
    response.set_cookie(COOKIE, secret, max_age=seconds, path=BASE, httponly=True, samesite="lax", secure=secure)
    return response


def is_secure(request: Request, plane: ControlPlane) -> bool:
    """Whether people come by HTTPS: then so do their cookies only."""
    return request.url.scheme == "https" or (plane.settings.public_url or "").startswith("https:")


def _begin(plane: ControlPlane, token: str, link: str) -> str | None:
    """The new session's secret; None: neither opens anything."""
    with plane.transaction("console") as conn:
        sessions = SessionRepo(conn)
        begun = sessions.exchange(link) if link else sessions.open(token)
        if begun is None:
            return None
        secret, who = begun
        EditingRepo(conn).audit(who["name"], "sign-in", None, {"with": "link" if link else "token"})
    return secret


def first(form: dict[str, list[str]], name: str) -> str:
    """One field of a form."""
    return (form.get(name) or [""])[0]


def inside(path: str) -> str:
    """Only back into the console: `//elsewhere` and `/\\elsewhere` are other hosts to a browser."""
    safe = path.startswith(BASE + "/") and "\\" not in path and not any(ord(c) < 32 for c in path)
    return path if safe else BASE + "/"
