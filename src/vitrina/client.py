"""A small client of the API: finds it by itself, turns problems into errors with a remedy, follows runs.

ClientError
├── (status)      the API said no: 401, 403, 404, 409, 412, 422, …
├── Unreachable   no API answers there
└── TimedOut      it goes on, and we no longer wait
"""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

import httpx

from vitrina.domain.errors import VitrinaError
from vitrina.settings import Settings

DEFAULT_URL = "http://127.0.0.1:8765"
PAGE = 200
PATIENCE = 10  # times that a stream may break in a row
READ_SECONDS = 60.0
POLL_SECONDS = 0.3
START = "start one with: vitrina up (or vitrina serve), or set VITRINA_URL"
GET_TOKEN = "vitrina up keeps one in $VITRINA_HOME/token; or set VITRINA_TOKEN to one of: vitrina token create NAME"
REMEDIES = {401: GET_TOKEN, 404: "see what there is with: vitrina list"}

Json = dict[str, Any]


class ClientError(VitrinaError):
    """The API said no, or did not answer."""

    def __init__(
        self, message: str, remedy: str = "", status: int | None = None, findings: Sequence[Json] = ()
    ) -> None:
        super().__init__(message, remedy)
        self.status = status
        self.findings = list(findings)


class Unreachable(ClientError):
    """No API answers there."""


class TimedOut(ClientError):
    """It goes on, and we no longer wait."""


@dataclass(frozen=True)
class Event:
    """A server-sent event; `end` carries the run, every other one what the run said."""

    name: str
    data: Json
    id: str = ""


class Client:
    """One API, one token."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._http = httpx.Client(
            base_url=f"{url}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(READ_SECONDS, connect=5),
            trust_env=not is_local(url),
        )

    @classmethod
    def connect(cls, settings: Settings) -> Self:
        """To the API that the settings name, or that `vitrina up` started in `$VITRINA_HOME`."""
        url, token = find_url(settings), find_token(settings)
        if not url.startswith(("http://", "https://")):
            raise ClientError(f"VITRINA_URL is no address: {url}", f"write {DEFAULT_URL}, for example")
        if not token:
            is_alive(url)
            raise ClientError(f"there is no token for {url}", GET_TOKEN)
        return cls(url, token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    # ── one request ──────────────────────────────────────────────────────────────────────────────────────────

    def get(self, path: str, **params: Any) -> Any:
        """The answer, as JSON; parameters that are None are left out."""
        return self._send("GET", path, params={k: v for k, v in params.items() if v is not None})

    def post(self, path: str, body: Json | None = None) -> Any:
        """The answer, as JSON."""
        return self._send("POST", path, json=body or {})

    def patch(self, path: str, body: Json, version: int) -> Any:
        """Edit exactly the version that was looked at."""
        return self._send("PATCH", path, json=body, headers={"If-Match": f'"{version}"'})

    def delete(self, path: str) -> None:
        """Away with it."""
        self._send("DELETE", path)

    def _send(self, method: str, path: str, **more: Any) -> Any:
        try:
            response = self._http.request(method, path, **more)
        except httpx.TimeoutException as error:
            raise Unreachable(f"the API at {self.url} took too long to answer", "look at: vitrina logs") from error
        except httpx.TransportError as error:
            raise _unreachable(self.url) from error
        return _answer(response)

    # ── many ─────────────────────────────────────────────────────────────────────────────────────────────────

    def pipelines(self, **filters: Any) -> Iterator[Json]:
        """All that match, by name, page after page."""
        return self._pages("/pipelines", "after", filters)

    def runs(self, which: str) -> Iterator[Json]:
        """Its runs, newest first, page after page."""
        return self._pages(pipeline_path(which, "runs"), "before", {})

    def _pages(self, path: str, cursor: str, filters: Json) -> Iterator[Json]:
        following = None
        while True:
            page = self.get(path, limit=PAGE, **filters, **{cursor: following})
            yield from page["items"]
            following = page["next"]
            if following is None:
                return

    # ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────

    def follow(self, run_id: int, deadline: float | None = None) -> Iterator[Event]:
        """What a run says, from its start to its end; a broken stream goes on where it broke."""
        last, broken = "", 0
        while True:
            try:
                for event in self._stream(run_id, last, deadline):
                    last, broken = event.id or last, 0
                    yield event
                    if event.name == "end":
                        return
            except httpx.TransportError as error:
                check_deadline(deadline)
                if broken > PATIENCE:
                    raise _unreachable(self.url) from error
            broken += 1
            time.sleep(POLL_SECONDS)

    def _stream(self, run_id: int, last: str, deadline: float | None) -> Iterator[Event]:
        left = READ_SECONDS if deadline is None else min(READ_SECONDS, max(0.1, deadline - time.monotonic()))
        headers = {"Last-Event-ID": last} if last else {}
        timeout = httpx.Timeout(left, connect=5)
        with self._http.stream("GET", f"/runs/{run_id}/events", headers=headers, timeout=timeout) as response:
            if response.is_error:
                response.read()
                _answer(response)
            yield from parse_events(_until(response.iter_lines(), deadline))

    def wait_for(self, request: Json, deadline: float | None = None) -> Json:
        """The request once it is answered; a ClientError if a runner could not do it."""
        while request["status"] not in ("DONE", "FAILED"):
            check_deadline(deadline)
            time.sleep(POLL_SECONDS)
            request = self.get(f"/requests/{request['id']}")
        if request["status"] == "FAILED":
            raise ClientError(request["error"] or f"the {request['kind']} failed")
        return request


def find_url(settings: Settings) -> str:
    """Where the API is."""
    kept = settings.home / "url"
    return (settings.url or (kept.read_text().strip() if kept.exists() else "") or DEFAULT_URL).rstrip("/")


def find_token(settings: Settings) -> str:
    """What opens it; empty if there is none."""
    if settings.token:
        return settings.token.get_secret_value()
    kept = settings.home / "token"
    try:
        return kept.read_text().strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ClientError(f"the token in {kept} cannot be read: {error.strerror}", "set VITRINA_TOKEN") from error


def is_alive(url: str) -> None:
    """Raise Unreachable unless an API answers."""
    try:
        httpx.get(f"{url}/livez", timeout=5, trust_env=not is_local(url)).raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _unreachable(url) from error


def is_local(url: str) -> bool:
    """Whether it is this machine, which no proxy of the environment can reach."""
    host = httpx.URL(url).host
    return host == "localhost" or host == "::1" or host.startswith("127.")


def pipeline_path(which: str, *more: str) -> str:
    """The path of a pipeline, by uuid or name."""
    return "/".join(["/pipelines", quote(which, safe=""), *more])


def parse_events(lines: Iterable[str]) -> Iterator[Event]:
    """Server-sent events: fields up to an empty line; comments and what is cut off at the end are dropped."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            if "data" in fields:
                yield Event(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id", ""))
            fields = {}
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value


def check_deadline(deadline: float | None) -> None:
    """Raise TimedOut once it has passed."""
    if deadline is not None and time.monotonic() > deadline:
        raise TimedOut("the time is up; it goes on without us", "look at: vitrina status NAME")


def _until(lines: Iterator[str], deadline: float | None) -> Iterator[str]:
    for line in lines:
        check_deadline(deadline)
        yield line


def _answer(response: httpx.Response) -> Any:
    if response.is_success:
        return response.json() if response.content else None
    raise _problem(response)


def _problem(response: httpx.Response) -> ClientError:
    try:
        body = response.json()
    except ValueError:
        body = {}
    if not isinstance(body, dict) or "detail" not in body:
        said = f"{response.request.url} answered {response.status_code}"
        return ClientError(said, "is that a Vitrina API? See VITRINA_URL", response.status_code)
    remedy = REMEDIES.get(response.status_code) or body.get("remedy", "")
    return ClientError(body["detail"], remedy, response.status_code, body.get("findings", ()))


def _unreachable(url: str) -> Unreachable:
    return Unreachable(f"no API answers at {url}", START)
