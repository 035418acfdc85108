"""The webhook: one POST an alert, in the receiver's format; and how a receiver of ours knows that it was us."""

import hashlib
import hmac
import json
import ssl
import time
from dataclasses import dataclass

import httpx

from vitrina.addresses import is_loopback
from vitrina.domain.alerting import Format
from vitrina.domain.errors import ConfigError
from vitrina.meta.repos.alerts import Alert
from vitrina.runner.messages import BODIES
from vitrina.runner.receipt import TIMEOUT, Receipt, hidden

SIGNATURE, TIMESTAMP, DELIVERY = "X-Vitrina-Signature", "X-Vitrina-Timestamp", "X-Vitrina-Delivery"
KEPT = 1_000  # bytes of an answer


@dataclass(frozen=True)
class Webhook:
    """Neither address nor secret appears in an error or in what is kept: an address may carry a secret, too."""

    url: httpx.URL
    format: Format
    secret: str
    public_url: str | None
    verify: ssl.SSLContext | bool = True

    @property
    def place(self) -> str:
        """Where it is, for people: without the path, which may be the secret."""
        port = f":{self.url.port}" if self.url.port else ""
        return f"{self.url.scheme}://{self.url.host}{port}"

    def send(self, alert: Alert) -> Receipt:
        """One attempt. Anything but 2xx is no delivery; redirects are not followed."""
        body = self._body(alert)
        began = time.monotonic()
        try:
            with (
                httpx.Client(
                    timeout=TIMEOUT,
                    verify=self.verify,
                    trust_env=not is_loopback(self.url.host),
                    follow_redirects=False,
                ) as client,
                client.stream("POST", self.url, content=body, headers=self._headers(alert, body)) as answer,
            ):
                said = self._read(answer, began)
        except httpx.HTTPError as error:
            return Receipt(f"the webhook does not answer: {type(error).__name__}", "", began, away=True)
        status = answer.status_code
        refused = None if 200 <= status < 300 else f"the webhook answered {status}"
        return Receipt(refused, f"{status} {said}".strip(), began, pause=_seconds(answer.headers.get("Retry-After")))

    def _body(self, alert: Alert) -> bytes:
        body = BODIES[self.format](alert, self.public_url)
        if self.format == Format.PAGERDUTY:
            body |= {"routing_key": self.secret}
        return json.dumps(body, ensure_ascii=False).encode()

    def _headers(self, alert: Alert, body: bytes) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": "vitrina", DELIVERY: str(alert.id)}
        if self.format != Format.SIGNED:
            return headers
        timestamp = str(int(time.time()))
        return headers | {TIMESTAMP: timestamp, SIGNATURE: sign(self.secret.encode(), timestamp, body)}

    def _read(self, answer: httpx.Response, began: float) -> str:
        """Its beginning, as far as it comes in time; it may be long, slow, and may repeat what it was sent."""
        found = b""
        try:
            for part in answer.iter_bytes():
                found += part
                if len(found) >= KEPT or time.monotonic() - began > TIMEOUT:
                    break
        except httpx.HTTPError:
            pass  # the status is what matters, and it was there
        secrets = [self.secret, self.url.raw_path.decode(), self.url.query.decode(), self.url.password]
        return hidden(found[:KEPT].decode(errors="replace"), [*secrets, *self.url.path.split("/")])


def sign(secret: bytes, timestamp: str, body: bytes) -> str:
    """HMAC-SHA256 over the timestamp, a dot and the body."""
    return "sha256=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def parse_url(text: str, setting: str) -> httpx.URL:
    """An address; a ConfigError that does not show it."""
    try:
        url = httpx.URL(text)
        usable = bool(url.host) and (url.port is None or url.port > 0)
    except (httpx.InvalidURL, ValueError):
        url, usable = httpx.URL(), False
    if url.scheme not in ("http", "https") or not usable:
        raise ConfigError(f"{setting} is no address", "write https://host/path")
    return url


def _seconds(text: str | None) -> float | None:
    """As many as a receiver asks us to wait; a date is not understood."""
    return min(float(text), 3600.0) if text and text.isascii() and text.isdigit() and len(text) < 9 else None
