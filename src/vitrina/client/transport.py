"""One request: what may be asked again is, and a problem becomes the exception of its kind.

httpx is imported where something is asked: whoever only looks at the client, as a shell does, need not wait for it.
"""

import time
from typing import TYPE_CHECKING, Any

from .errors import BY_STATUS, ClientError, Json, Refused, Unavailable, Unreachable

if TYPE_CHECKING:
    import httpx

READ_SECONDS = 60.0
CONNECT_SECONDS = 5.0
BACKOFF_SECONDS = 0.2  # before the first try again; doubled each time
START = "start one with: vitrina up (or vitrina serve), or set VITRINA_URL"
GET_TOKEN = "vitrina up keeps one in $VITRINA_HOME/token; or set VITRINA_TOKEN to one of: vitrina token create NAME"
SEE = "see what there is with: vitrina list"


class Transport:
    """HTTP to one API, with one token."""

    def __init__(self, url: str, token: str, retries: int) -> None:
        import httpx

        self.url, self.retries = url, retries
        self.http = httpx.Client(
            base_url=f"{url}/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            trust_env=not is_local(url),
            verify=needs_certificates(url),
        )

    def send(self, method: str, path: str, *, again: bool = False, **more: Any) -> Any:
        """The answer, as JSON. `again`: doing it twice is doing it once, so a lost answer may be asked for again."""
        import httpx

        for attempt in range(self.retries):
            try:
                return self._once(method, path, **more)
            except (Unreachable, Unavailable) as error:
                if not again and not isinstance(error.__cause__, httpx.ConnectError):
                    raise
                time.sleep(BACKOFF_SECONDS * 2**attempt)
        return self._once(method, path, **more)

    def _once(self, method: str, path: str, **more: Any) -> Any:
        import httpx

        try:
            response = self.http.request(method, path, **more)
        except httpx.TimeoutException as error:
            raise Unreachable(f"the API at {self.url} took too long to answer", "look at: vitrina logs") from error
        except httpx.TransportError as error:
            raise unreachable(self.url) from error
        return answer(response)


def answer(response: "httpx.Response") -> Any:
    """Its JSON, or the exception that its problem stands for."""
    if response.is_success:
        return response.json() if response.content else None
    raise _problem(response)


def _problem(response: "httpx.Response") -> ClientError:
    body, status = _body(response), response.status_code
    kind = BY_STATUS.get(status, Refused)
    if "detail" not in body:
        said = f"{response.request.url} answered {status}"
        return kind(said, "is that a Vitrina API? See VITRINA_URL", status)
    remedy = GET_TOKEN if status == 401 else body.get("remedy") or (SEE if status == 404 else "")
    return kind(body["detail"], remedy, status, body.get("findings", ()))


def _body(response: "httpx.Response") -> Json:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def unreachable(url: str) -> Unreachable:
    """Nobody there."""
    return Unreachable(f"no API answers at {url}", START)


def is_local(url: str) -> bool:
    """Whether it is this machine, which no proxy of the environment can reach."""
    import ipaddress

    import httpx

    host = httpx.URL(url).host
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def needs_certificates(url: str) -> bool:
    """Whether anything is encrypted, be it on the way to a proxy: else it takes longer to read them than to ask."""
    return not (is_local(url) and url.startswith("http:"))


def is_alive(url: str) -> None:
    """Raise Unreachable unless an API answers."""
    import httpx

    try:
        httpx.get(
            f"{url}/livez", timeout=CONNECT_SECONDS, trust_env=not is_local(url), verify=needs_certificates(url)
        ).raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise unreachable(url) from error
