"""How large a body may be, whether its length is announced or not."""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vitrina.control.api.errors import problem

MAX_BODY = 2_000_000
TOO_LARGE = f"a body has at most {MAX_BODY:,} bytes"


class LimitBody:
    """Refuses by Content-Length at once, and a body without one as soon as it has grown too large."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif _announced(scope) > MAX_BODY:
            await problem(Request(scope), 413, TOO_LARGE)(scope, receive, send)
        else:
            await self.app(scope, _counted(receive), send)


def _announced(scope: Scope) -> int:
    length = dict(scope["headers"]).get(b"content-length", b"0")
    return int(length) if length.isdigit() else 0


def _counted(receive: Receive) -> Receive:
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MAX_BODY:
            raise HTTPException(413, TOO_LARGE)
        return message

    return counted
