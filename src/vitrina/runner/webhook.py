"""The webhook: one signed POST an alert. What is told, and how a receiver knows that it was us."""

import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from typing import Any, Self

import httpx

from vitrina.addresses import is_loopback
from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.meta.repos.alerts import Alert
from vitrina.settings import Settings

TIMEOUT = 10.0
SIGNATURE, TIMESTAMP, DELIVERY = "X-Vitrina-Signature", "X-Vitrina-Timestamp", "X-Vitrina-Delivery"
TOLD = ("run", "error", "remedy", "fresh_at", "limit", "after", "since", "behind", "rows", "keys")


@dataclass(frozen=True)
class Webhook:
    """Where alerts go. Neither address nor secret appears in an error: an address may carry a secret, too."""

    url: httpx.URL
    secret: bytes
    public_url: str | None

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """As the settings name it; None if they name none."""
        if settings.webhook_url is None:
            return None
        if settings.webhook_secret is None or not settings.webhook_secret.get_secret_value():
            raise ConfigError("VITRINA_WEBHOOK_URL is set, and VITRINA_WEBHOOK_SECRET is not", "set both, or neither")
        url = _parse(settings.webhook_url.get_secret_value())
        return cls(url, settings.webhook_secret.get_secret_value().encode(), settings.public_url)

    def send(self, alert: Alert) -> None:
        """One attempt; a RetryableError unless the receiver says 2xx."""
        body = json.dumps(message(alert, self.public_url), ensure_ascii=False).encode()
        timestamp = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "vitrina",
            DELIVERY: str(alert.id),
            TIMESTAMP: timestamp,
            SIGNATURE: sign(self.secret, timestamp, body),
        }
        try:
            with (
                httpx.Client(timeout=TIMEOUT, trust_env=not is_loopback(self.url.host)) as client,
                client.stream("POST", self.url, content=body, headers=headers) as answer,
            ):
                status = answer.status_code  # what else it says does not matter, and may be long
        except httpx.HTTPError as error:
            raise RetryableError(f"the webhook does not answer: {type(error).__name__}") from None
        if not 200 <= status < 300:
            raise RetryableError(f"the webhook answered {status}")


def sign(secret: bytes, timestamp: str, body: bytes) -> str:
    """HMAC-SHA256 over the timestamp, a dot and the body."""
    return "sha256=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def message(alert: Alert, public_url: str | None) -> dict[str, Any]:
    """What is told; the same for the same alert, however often it is sent."""
    told = alert.details
    link = f"{public_url.rstrip('/')}/console/pipelines/{alert.pipeline_id}" if public_url else None
    return {
        "id": str(alert.id),
        "event": alert.event,
        "at": alert.created_at.isoformat(),
        "text": _text(alert) + (f" {link}" if link else ""),
        "pipeline": {"id": str(alert.pipeline_id), "name": told.get("name"), "target": told.get("target")},
        "url": link,
        **{name: told.get(name) for name in TOLD},
    }


def _text(alert: Alert) -> str:
    """One line for people; chats that take webhooks show it."""
    told = alert.details
    if alert.event == "failed":
        remedy = f" — {told['remedy']}" if told.get("remedy") else ""
        return f"{told.get('name')} has failed: {told.get('error') or 'it does not say why'}{remedy}"
    if alert.event == "stale":
        return f"{told.get('name')} is stale: as of {told.get('fresh_at') or 'never'}, the limit is {told.get('limit')}"
    if alert.event == "stuck":
        return f"{told.get('name')} stands still: {told.get('behind')} changes behind since {told.get('since')}"
    if alert.event == "wrong":
        return f"{told.get('name')} was wrong: {told.get('rows')} rows that no change explains, put right"
    return f"{told.get('name')} has recovered; it was {told.get('after')} since {told.get('since')}"


def _parse(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL:
        url = httpx.URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError("VITRINA_WEBHOOK_URL is no address", "write https://host/path")
    return url
