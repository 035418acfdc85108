"""The door: in with a token or a one-time link, out again. No GET changes anything, so a link is used by a POST."""

from fastapi import APIRouter, Depends
from fastapi.responses import RedirectResponse, Response

from vitrina.control.api.auth import Plane, refused
from vitrina.control.console.access import BASE, COOKIE, Form, same_origin
from vitrina.control.console.render import Show
from vitrina.control.plane import ControlPlane
from vitrina.meta.repos.editing import EditingRepo
from vitrina.meta.repos.sessions import SESSION_SECONDS, SessionRepo

router = APIRouter(dependencies=[Depends(same_origin)])


@router.get("/sign-in")
def sign_in_page(show: Show, next: str = BASE + "/") -> Response:
    """A field for a token. A link brings its secret after the #, which no server and no log sees."""
    return show.page("sign_in.html", next=_inside(next), wrong="")


@router.post("/sign-in")
def sign_in(show: Show, plane: Plane, form: Form) -> Response:
    """A session for a good token or an unused link."""
    token, link = _first(form, "token").strip(), _first(form, "link").strip()
    wanted = _inside(_first(form, "next"))
    secret = _begin(plane, token, link)
    if secret is None:
        refused(show.request, plane, "sign-in refused", "link" if link else "token")
        wrong = "This link has been used or is too old." if link else "This token is unknown or revoked."
        return show.page("sign_in.html", 401, next=wanted, wrong=wrong)
    response = RedirectResponse(wanted, 303)
    response.set_cookie(
        COOKIE,
        secret,
        max_age=SESSION_SECONDS,
        path=BASE,
        httponly=True,
        samesite="lax",
        secure=show.request.url.scheme == "https" or (plane.settings.public_url or "").startswith("https:"),
    )
    return response


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


def _first(form: dict[str, list[str]], name: str) -> str:
    return (form.get(name) or [""])[0]


def _inside(path: str) -> str:
    """Only back into the console: `//elsewhere` and `/\\elsewhere` are other hosts to a browser."""
    safe = path.startswith(BASE + "/") and "\\" not in path and not any(ord(c) < 32 for c in path)
    return path if safe else BASE + "/"
