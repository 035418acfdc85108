"""One question to the provider: all of it within a deadline, the answer no larger than it can sensibly be."""

import asyncio
import json
from collections.abc import Mapping
from threading import BoundedSemaphore
from typing import Any

import httpx

from vitrina.addresses import is_loopback
from vitrina.control.openid.refusal import Refused, Why

SECONDS = 8.0
MOST_BYTES = 1_000_000
AT_ONCE = BoundedSemaphore(8)  # a provider that hangs takes no more threads than these of the API
PATIENCE = 1.0  # for one of them


def ask(url: str, form: Mapping[str, str] | None = None, auth: tuple[str, str] | None = None) -> tuple[int, Any]:
    """Status and JSON of a GET, or of a POST of a form. Slow, away, or not JSON: Refused."""
    if not AT_ONCE.acquire(timeout=PATIENCE):
        raise Refused(Why.BUSY, f"{url}: too many questions at once")
    try:
        status, body = _within(url, form, auth)
    except (TimeoutError, httpx.HTTPError, OSError) as error:
        raise Refused(Why.AWAY, f"{url}: {type(error).__name__} {error}".rstrip()) from None
    except (httpx.InvalidURL, UnicodeError) as error:
        raise Refused(Why.NONSENSE, f"{url} is no address: {error}") from None
    finally:
        AT_ONCE.release()
    if status >= 500:
        raise Refused(Why.AWAY, f"{url} answered {status}")
    return status, _parsed(url, status, body)


def _within(url: str, form: Mapping[str, str] | None, auth: tuple[str, str] | None) -> tuple[int, bytes]:
    """A loop of its own: only so there is one deadline for names, connection, TLS and every byte together."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(asyncio.wait_for(_ask(url, form, auth), SECONDS))
    finally:
        loop.close()


async def _ask(url: str, form: Mapping[str, str] | None, auth: tuple[str, str] | None) -> tuple[int, bytes]:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "vitrina"}
    trust = not is_loopback(httpx.URL(url).host)
    body = bytearray()
    async with (
        httpx.AsyncClient(timeout=SECONDS, headers=headers, auth=auth, trust_env=trust) as client,
        client.stream("GET" if form is None else "POST", url, data=form) as answer,
    ):
        async for chunk in answer.aiter_raw():
            body += chunk
            if len(body) > MOST_BYTES:
                raise Refused(Why.NONSENSE, f"{url} answers with more than {MOST_BYTES} bytes")
        return answer.status_code, bytes(body)


def _parsed(url: str, status: int, body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(Why.NONSENSE, f"{url} answered {status}, and no JSON") from None
