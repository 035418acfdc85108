"""The console as an app of its own, mounted at /console: its errors are pages, and its routes are in no OpenAPI."""

import structlog
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitrina.control.api.errors import status_of
from vitrina.control.console import (
    actions,
    alerts,
    editor,
    home,
    lineage,
    live,
    pipelines,
    runs,
    signin,
    sources,
    system,
)
from vitrina.control.console.access import SignedOut, enter
from vitrina.control.console.i18n import Words
from vitrina.control.console.openid import router as openid_router
from vitrina.control.console.render import STATIC, screen_of
from vitrina.control.openid.signing import OpenId
from vitrina.control.plane import ControlPlane
from vitrina.domain.errors import VitrinaError

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{nonce}; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}
log = structlog.get_logger()


def create_console(plane: ControlPlane) -> FastAPI:
    """The console over a control plane; whoever mounts it opens the plane's pool."""
    app = FastAPI(openapi_url=None)
    app.state.plane = plane
    app.state.openid = OpenId.of(plane.settings)
    inside = APIRouter(dependencies=[Depends(enter)])
    for part in (home, pipelines, runs, system, lineage, sources, alerts, actions, editor, live):
        inside.include_router(part.router)
    app.include_router(signin.router)
    app.include_router(openid_router)
    app.include_router(inside)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_middleware(GZipMiddleware, minimum_size=1_000, compresslevel=5)
    app.add_middleware(Headers)
    for kind in (VitrinaError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _said)
    return app


class Headers:
    """Nothing from elsewhere is loaded or may frame a page; pages are not kept, static files are kept for ever."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        await self.app(scope, receive, _with_headers(scope, send) if scope["type"] == "http" else send)


def _with_headers(scope: Scope, send: Send) -> Send:
    kept = "/static/" in scope["path"] and scope["query_string"].startswith(b"v=")
    caching = "public, max-age=31536000, immutable" if kept else "no-store"

    async def send_with(message: Message) -> None:
        if message["type"] == "http.response.start":
            nonce = scope.get("state", {}).get("nonce")  # of a page whose editor brings styles of its own
            policy = POLICY.format(nonce=f" 'nonce-{nonce}'; style-src-attr 'unsafe-inline'" if nonce else "")
            added = HEADERS | {"Cache-Control": caching, "Content-Security-Policy": policy}
            encoded = [(name.lower().encode(), value.encode()) for name, value in added.items()]
            message["headers"] = [*message["headers"], *encoded]
        await send(message)

    return send_with


def _said(request: Request, error: Exception) -> Response:
    """An error as a page, or in passing where only a part of a page was asked for."""
    show = screen_of(request)
    if isinstance(error, SignedOut):
        if "HX-Request" in request.headers:
            return Response(status_code=401, headers={"HX-Redirect": error.door})
        return RedirectResponse(error.door, 303) if request.method in ("GET", "HEAD") else Response(status_code=401)
    status, message, remedy = _explained(request, error, show.words)
    if "HX-Request" in request.headers:
        return show.done(message, status, level="error", remedy=remedy)
    return show.page("problem.html", status, message=message, remedy=remedy, code=status)


def _explained(request: Request, error: Exception, words: Words) -> tuple[int, str, str]:
    if isinstance(error, VitrinaError):
        return status_of(error), *error.said_in(words)
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail), ""
    if isinstance(error, RequestValidationError):
        wrong = ", ".join(".".join(str(part) for part in item["loc"]) for item in error.errors())
        return 422, f"cannot be read: {wrong}", ""
    log.error("unforeseen error", path=request.url.path, error=type(error).__name__, exc_info=error)
    return 500, "an error that nobody foresaw; the log has it", ""
