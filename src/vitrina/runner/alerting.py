"""The alert desk: notices marts that are too old or stand still, and delivers what the outbox holds, at least once."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event
from typing import Any
from uuid import uuid4

import structlog

from vitrina.domain.alerting import TEST
from vitrina.domain.errors import ConfigError
from vitrina.domain.request import AlertParams
from vitrina.engine.live.pacing import COMPARISONS
from vitrina.failpoints import reach
from vitrina.meta.db import Connection
from vitrina.meta.repos.alerts import Alert, AlertRepo
from vitrina.metrics import events
from vitrina.runner.destinations import find_destinations
from vitrina.runner.receipt import TIMEOUT, Receipt
from vitrina.runner.service import Duty, Service, Session
from vitrina.settings import Settings
from vitrina.sources.connections import Connections

log = structlog.get_logger()
HOLD_SECONDS = 3 * TIMEOUT  # for one attempt; if its runner dies, another tries after that
LONGEST_WAIT = 600.0
STUCK_SECONDS = 60.0  # a mart that lacks something is not left alone for longer, beside the pauses of comparisons
TOO_OLD = 86_400.0  # seconds; what nobody could deliver for a day is no news any more
NOTE_SECONDS = 60.0  # between two times that this runner says whom it can tell
AT_ONCE = 200  # alerts that are routed between two deliveries


@dataclass
class AlertDesk:
    """One thread, one connection. Without a destination it only notices."""

    connections: Connections
    stopping: Event
    hold_seconds: float = HOLD_SECONDS
    resting: dict[str, float] = field(default_factory=dict, init=False)  # destinations that did not answer, until when
    noted_at: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.settings = self.connections.settings
        self.destinations = find_destinations(self.settings)

    def service(self) -> Service:
        """On a thread of its own. What is being delivered is waited for."""
        session = Session(lambda: self.connections.open_warehouse("alerts"))
        complaint = "alerts cannot be looked after, trying again"
        duty = Duty(lambda: self.look(session.get()), complaint, self.settings.poll_seconds)
        return Service("alerts", self.stopping, [duty], [session])

    def look(self, conn: Connection) -> None:
        """Once: what is stale or stands still, whom that is to be told, and what is due."""
        alerts = AlertRepo(conn)
        alerts.check_freshness(STUCK_SECONDS, COMPARISONS + 2, self.settings.outage_alert_seconds)
        if not self.destinations:
            return
        self._note(alerts)
        alerts.route(AT_ONCE)
        while not self.stopping.is_set() and self.deliver_next(conn):
            pass
        alerts.give_up_orphans()

    def deliver_next(self, conn: Connection) -> Alert | None:
        """Claim one delivery and see to it; None when nothing is due to whom this runner can tell."""
        alerts = AlertRepo(conn)
        alert = alerts.claim(self._awake(), self.hold_seconds)
        if alert is None:
            return None
        reason = self._why_give_up(alert)
        if reason:
            self._give_up(alerts, alert, reason)
        else:
            self._deliver(alerts, alert)
        return alert

    def _note(self, alerts: AlertRepo) -> None:
        if self.noted_at is None or time.monotonic() - self.noted_at >= NOTE_SECONDS:
            alerts.note([told.row for told in self.destinations.values()])
            self.noted_at = time.monotonic()

    def _awake(self) -> list[str]:
        """One that does not answer holds up none of the others: it is left alone until its next try."""
        now = time.monotonic()
        return [name for name in self.destinations if self.resting.get(name, now) <= now]

    def _deliver(self, alerts: AlertRepo, alert: Alert) -> None:
        receipt = self.destinations[alert.destination].send(alert)
        about = {"alert": alert.event, "pipeline": alert.details.get("name"), "destination": alert.destination}
        if receipt.error is None:
            reach("after webhook")
            self.resting.pop(alert.destination, None)
            alerts.delivered(alert, receipt.answer, receipt.took_ms)
            events.count_delivery("delivered")
            log.info("alert delivered", delivery=str(alert.id), **about)
        elif alert.attempts >= self.settings.webhook_attempts:
            self._give_up(alerts, alert, receipt.error, receipt)
        else:
            self._postpone(alerts, alert, receipt.error, receipt)

    def _why_give_up(self, alert: Alert) -> str:
        """Before it is sent: an attempt too many was never confirmed, and old news helps nobody."""
        if alert.attempts > self.settings.webhook_attempts:
            return f"{self.settings.webhook_attempts} attempts, and the last was not confirmed"
        return "not delivered within a day" if alert.age_seconds > TOO_OLD else ""

    def _postpone(self, alerts: AlertRepo, alert: Alert, error: str, receipt: Receipt) -> None:
        grown = min(self.settings.webhook_backoff_seconds * 2.0 ** min(alert.attempts - 1, 30), LONGEST_WAIT)
        seconds = max(grown, receipt.pause or 0.0)
        if receipt.away or receipt.pause:
            self.resting[alert.destination] = time.monotonic() + seconds
        alerts.postpone(alert, seconds, error, receipt.answer, receipt.took_ms)
        events.count_delivery("retried")
        log.warning(
            "alert not delivered, trying again",
            alert=alert.event,
            destination=alert.destination,
            error=error,
            in_seconds=seconds,
        )

    def _give_up(self, alerts: AlertRepo, alert: Alert, error: str, receipt: Receipt | None = None) -> None:
        answer, took_ms = (receipt.answer, receipt.took_ms) if receipt else (None, None)
        alerts.give_up(alert, error, answer, took_ms)
        events.count_delivery("given_up")
        about = {"alert": alert.event, "pipeline": alert.details.get("name"), "destination": alert.destination}
        log.error("alert given up", reason=error, **about)


def answer_test(settings: Settings, meta: Connection, params: AlertParams) -> dict[str, Any]:
    """Tell a destination that this is a test, once, now; what it answered is the answer, and on record."""
    destinations = find_destinations(settings)
    told = destinations.get(params.destination)
    if told is None:
        known = ", ".join(destinations) or "none"
        raise ConfigError(
            f"the runner that answered has no destination {params.destination!r}; it has: {known}",
            "give every runner the same VITRINA_ALERTS__… settings",
        )
    details = {"destination": told.name, "asked_by": params.asked_by}
    receipt = told.send(Alert(uuid4(), None, TEST, details, datetime.now(UTC)))
    AlertRepo(meta).note([told.row])
    AlertRepo(meta).tested(told.name, receipt.error, receipt.answer, receipt.took_ms)
    return {
        "destination": told.name,
        "delivered": receipt.error is None,
        "error": receipt.error,
        "answer": receipt.answer,
        "milliseconds": receipt.took_ms,
    }
