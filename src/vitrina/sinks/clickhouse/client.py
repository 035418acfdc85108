"""Talking to ClickHouse over HTTP: a few kinds of statements, errors by what one can do about them."""

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from vitrina.domain.errors import ConfigError, FatalError, RetryableError, VitrinaError
from vitrina.domain.policy import CLICKHOUSE_TARGET_PREFIX
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings

if TYPE_CHECKING:
    from clickhouse_connect.driver.httpclient import HttpClient

URL = "VITRINA_CLICKHOUSE_URL"
TIMEOUT, LITTLE_TIME = 120, 10  # seconds for an answer
CONNECT_SECONDS = 5
PORTS = {"http": 8123, "https": 8443}
NOT_THERE, TAKEN, NO_DATABASE = 60, 57, 81
MAY_NOT = {164, 192, 193, 194, 195, 291, 497, 516}  # who we are, and what we may do
UNREADABLE = {6, 26, 27, 33, 38, 41, 53, 69, 72, 117, 130, 131, 321, 349, 376, 467}  # of what was sent
# Of a server that has too much to do, no room, or no way to its own: trying again may cure it.
BUSY = {3, 159, 160, 201, 202, 203, 209, 210, 225, 236, 241, 242, 243, 252, 319, 394, 425, 439, 473, 518, 667, 745, 999}
CODE = re.compile(r"Code: (\d+)\.")
STATUS = re.compile(r"HTTP status (\d+)")
ROW = re.compile(r"\(at row (\d+)\)")


class NotThere(VitrinaError):
    """No table has that name."""


class Taken(VitrinaError):
    """Some table has that name already."""


class Unreadable(FatalError):
    """ClickHouse cannot keep what was sent; `row` of it, if it says so."""

    row: int | None = None


class ClickHouse:
    """One server, and what signs us in. Safe to use from several threads."""

    def __init__(self, settings: Settings, patience: int = TIMEOUT, neighbours: Neighbours | None = None) -> None:
        if settings.clickhouse_url is None:
            raise ConfigError(f"there is no ClickHouse: {URL} is not set", "set it to http://user:password@host:8123")
        self._url = settings.clickhouse_url.get_secret_value()
        self._patience = patience
        self._neighbours = neighbours or Neighbours()  # who is told how it answers
        self._lock = Lock()
        self._client: HttpClient | None = None

    def close(self) -> None:
        """End its connections."""
        if self._client is not None:
            self._client.close()

    def run(self, statement: str, body: bytes | None = None) -> None:
        """Something that gives no rows."""
        with self._asking() as client:
            client.command(statement, data=body)

    def rows(self, query: str) -> list[list[Any]]:
        """All of them at once."""
        with self._asking() as client:
            return [json.loads(line) for line in client.raw_query(_as_json(query)).splitlines()]

    def stream(self, query: str) -> Iterator[list[Any]]:
        """One after the other. An answer that breaks off ends with something that is no row."""
        with self._asking() as client:
            stream = client.raw_stream(_as_json(query))
        try:
            while True:
                with self._asking():
                    line = stream.readline()
                    row = json.loads(line) if line else None
                if row is None:
                    return
                yield row
        finally:
            stream.close()

    def version(self) -> str:
        """Of the server."""
        return str(self.rows("SELECT version()")[0][0])

    @contextmanager
    def _asking(self) -> "Iterator[HttpClient]":
        with self._neighbours.asking(CLICKHOUSE_TARGET_PREFIX):
            try:
                yield self._connected()
            except Exception as error:
                if isinstance(error, VitrinaError) or not isinstance(error, _errors()):
                    raise
                raise translated(error, self._url) from error

    def _connected(self) -> "HttpClient":
        """Signing in asks the server a few things: nobody does so before it is needed."""
        with self._lock:
            if self._client is None:
                self._client = _sign_in(self._url, self._patience)
            return self._client


def _sign_in(url: str, patience: int) -> "HttpClient":
    import_client()
    from clickhouse_connect.driver import create_client  # only here: most have none

    logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)  # what it logs, it raises too
    parts = _parts(url)
    client: Any = create_client(
        interface=parts.scheme,
        host=parts.hostname,
        port=parts.port or PORTS[parts.scheme],
        username=unquote(parts.username or "default"),
        password=unquote(parts.password or ""),
        connect_timeout=CONNECT_SECONDS,
        send_receive_timeout=patience,
        autogenerate_session_id=False,  # a session takes one statement at a time
        show_clickhouse_errors="scrub",
        dedicated_pool=True,
    )
    return client  # type: ignore[no-any-return]


def _parts(url: str) -> SplitResult:
    """A ConfigError that quotes nothing of it: where a password begins cannot be told."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in PORTS and parts.hostname and parts.port != 0:
            return parts
    remedy = "write http://user:password@host:8123, or https://…:8443, and %2F for a / in the password"
    raise ConfigError(f"{URL} cannot be read", remedy)


def import_client() -> Any:
    """The package that speaks to it, which is an extra of ours."""
    try:
        import clickhouse_connect
    except ImportError as error:
        raise ConfigError(
            "marts in ClickHouse need the package clickhouse-connect, which is not installed",
            "pip install 'vitrina[clickhouse]', here and where runners run",
        ) from error
    return clickhouse_connect


def _errors() -> tuple[type[Exception], ...]:
    """What the client and what it stands on raise, and an answer that is none."""
    from clickhouse_connect.driver.exceptions import ClickHouseError
    from urllib3.exceptions import HTTPError

    return ClickHouseError, HTTPError, OSError, ValueError


def translated(error: Exception, url: str) -> VitrinaError:
    """As an error of ours."""
    text = str(error).replace(url, shown(url))
    said = re.search(r"Code: \d+\..*", text, re.DOTALL)
    reason = " ".join((said[0] if said else text).partition(": While executing")[0].split())[:500]
    code = getattr(error, "code", None) or (int(found[1]) if (found := CODE.search(text)) else None)
    if code is None:
        return _without_code(text, reason, url)
    kinds: dict[int, type[VitrinaError]] = {NOT_THERE: NotThere, TAKEN: Taken}
    if code in kinds:
        return kinds[code](f"ClickHouse: {reason}")
    if code == NO_DATABASE:
        return ConfigError(f"ClickHouse: {reason}", "create it: CREATE DATABASE …, or correct target_table")
    if code in MAY_NOT:
        return ConfigError(f"ClickHouse refused: {reason}", f"check {URL}, and what its user may do")
    if code in UNREADABLE:
        unreadable = Unreadable(f"ClickHouse cannot keep what was sent: {reason}")
        unreadable.row = int(found[1]) if (found := ROW.search(text)) else None
        return unreadable
    return RetryableError(f"ClickHouse: {reason}") if code in BUSY else FatalError(f"ClickHouse refused: {reason}")


def _without_code(text: str, reason: str, url: str) -> VitrinaError:
    """Whoever answered, if anybody did, it was not the server's own word."""
    status = int(found[1]) if (found := STATUS.search(text)) else 0
    if status in (401, 403):
        return ConfigError(f"ClickHouse refused: {reason}", f"check user and password in {URL}")
    if "CERTIFICATE" in text or "SSL" in text:
        return ConfigError(f"ClickHouse at {shown(url)} and we do not agree on TLS: {reason}", f"check https in {URL}")
    return RetryableError(
        f"ClickHouse at {shown(url)} does not answer: {reason}", f"is it running, and is {URL} right?"
    )


def shown(url: str) -> str:
    """The address without what signs us in."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


def _as_json(query: str) -> str:
    return f"{query} FORMAT JSONCompactEachRow SETTINGS output_format_json_quote_64bit_integers = 0"
