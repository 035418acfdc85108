"""The other door: to a provider of OpenID Connect and back. What comes back by a GET is a page that posts."""

import re
from urllib.parse import quote

import structlog
from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from vitrina.control.api.auth import Actor, Plane
from vitrina.control.console.access import BASE, COOKIE, Form, same_origin
from vitrina.control.console.render import Screen, Show
from vitrina.control.console.signin import admit, door, first, inside, is_secure
from vitrina.control.openid.begun import SECONDS, Begun
from vitrina.control.openid.refusal import Refused, Why
from vitrina.control.openid.signing import OpenId
from vitrina.control.plane import ControlPlane
from vitrina.control.problems import NotFound
from vitrina.meta.repos.editing import EditingRepo
from vitrina.meta.repos.sessions import SessionRepo

DOOR, BACK, BEGUN = f"{BASE}/sign-in/openid", f"{BASE}/sign-in/openid/back", "vitrina_begun"
ANSWER = ("state", "code", "iss", "error")
LONGEST_WAY = 1_000  # of an address inside the console: what is begun has to fit a cookie
ERROR = re.compile(r"[\w.-]{1,60}", re.ASCII)
router = APIRouter(prefix="/sign-in/openid", dependencies=[Depends(same_origin)])
log = structlog.get_logger()


@router.get("")
def begin(show: Show, plane: Plane, next: str = BASE + "/") -> Response:
    """To the provider. Nothing is stored: this browser keeps what was begun, in a cookie."""
    request, wanted = show.request, inside(next)
    openid = _openid(request)
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):  # nobody else signs our visitors in
        return RedirectResponse(f"{BASE}/sign-in?next={quote(wanted, safe='')}", 303)
    begun = Begun.now(wanted if len(wanted) <= LONGEST_WAY else BASE + "/")
    try:
        response = RedirectResponse(openid.door(begun, _back(request, plane)), 303)
    except Refused as refused:
        return _refused(show, openid, refused, wanted)
    secure = is_secure(request, plane)
    sealed = begun.sealed(openid.key)
    response.set_cookie(BEGUN, sealed, max_age=SECONDS, path=DOOR, httponly=True, samesite="lax", secure=secure)
    return response


@router.get("/back")
def answered(show: Show) -> Response:
    """The provider sends people back by a GET, which changes nothing here; the page posts what it got at once."""
    _openid(show.request)
    given = show.request.query_params
    return show.page("sign_in_back.html", answer={name: given.get(name, "") for name in ANSWER}, back=BACK)


@router.post("/back")
def finish(show: Show, plane: Plane, form: Form) -> Response:
    """A session, for whom the provider vouches and the settings give a role."""
    request, openid = show.request, _openid(show.request)
    begun = Begun.opened(request.cookies.get(BEGUN, ""), openid.key)
    answer = {name: first(form, name) for name in ANSWER}
    try:
        begun = openid.check(answer, begun)
        _use(plane, begun)
        actor, subject = openid.person(answer["code"], begun, _back(request, plane))
    except Refused as refused:
        _write_down(request, plane, refused)
        return _refused(show, openid, refused, begun.wanted if begun else BASE + "/")
    seconds = openid.settings.oidc_session_hours * 3600
    secret = _open(plane, openid, actor, subject, request.cookies.get(COOKIE, ""), seconds)
    response = admit(request, plane, secret, begun.wanted, int(seconds))
    response.delete_cookie(BEGUN, path=DOOR)
    return response


def _openid(request: Request) -> OpenId:
    openid: OpenId | None = request.app.state.openid
    if openid is None:
        raise NotFound("sign-in by OpenID Connect is not set up", "set VITRINA_OIDC_ISSUER, or sign in with a token")
    return openid


def _back(request: Request, plane: ControlPlane) -> str:
    """The address that the provider has to know: as people write it."""
    here = plane.settings.public_url or f"{request.url.scheme}://{request.url.netloc}"
    return here.rstrip("/") + BACK


def _use(plane: ControlPlane, begun: Begun) -> None:
    """Once, whatever the provider thinks of its codes."""
    with plane.transaction("console") as conn:
        if not SessionRepo(conn).use(begun.state, SECONDS):
            raise Refused(Why.LOST, "this answer has been used")


def _open(plane: ControlPlane, openid: OpenId, actor: Actor, subject: str, before: str, seconds: float) -> str:
    """A new session's secret; the one that this browser had ends."""
    role, issuer = actor.role.name.lower(), openid.provider.issuer
    with plane.transaction("console") as conn:
        sessions = SessionRepo(conn)
        sessions.close(before)
        secret = sessions.vouched(actor.name, role, issuer, seconds)
        told = {"with": "openid", "role": role, "issuer": issuer, "subject": subject}
        EditingRepo(conn).audit(actor.name, "sign-in", None, told)
    return secret


def _write_down(request: Request, plane: ControlPlane, refused: Refused) -> None:
    whence = request.client.host if request.client else None
    told = {"with": "openid", "from": whence, "why": refused.why.name.lower()}
    with plane.session() as conn:
        EditingRepo(conn).audit_refusal("sign-in refused", told | refused.values)


def _refused(show: Screen, openid: OpenId, refused: Refused, wanted: str) -> Response:
    """The door again, with what was wrong and what to do, in the visitor's language."""
    log.warning("sign-in refused", why=refused.why.name.lower(), reason=refused.reason)
    values = {"provider": openid.label} | refused.values
    if not ERROR.fullmatch(values.get("error", "?")):
        values["error"] = "?"  # anybody may have written it
    wrong = show.words(refused.why.text, **values)
    return door(show, refused.why.status, wanted, wrong, show.words(refused.why.remedy))
