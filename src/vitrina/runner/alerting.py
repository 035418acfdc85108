"""The alert desk: notices marts that are too old or stand still, and delivers what the outbox holds, at least once."""

from dataclasses import dataclass
from threading import Event

import structlog

from vitrina.domain.errors import RetryableError
from vitrina.engine.live.pacing import COMPARISONS
from vitrina.failpoints import reach
from vitrina.meta.db import Connection
from vitrina.meta.repos.alerts import Alert, AlertRepo
from vitrina.metrics import events
from vitrina.runner.service import Duty, Service, Session
from vitrina.runner.webhook import TIMEOUT, Webhook
from vitrina.sources.connections import Connections

log = structlog.get_logger()
HOLD_SECONDS = 3 * TIMEOUT  # for one attempt; if its runner dies, another tries after that
LONGEST_WAIT = 600.0
STUCK_SECONDS = 60.0  # a mart that lacks something is not left alone for longer, beside the pauses of comparisons
TOO_OLD = 86_400.0  # seconds; what nobody could deliver for a day is no news any more


@dataclass
class AlertDesk:
    """One thread, one connection. Without a webhook it only notices."""

    connections: Connections
    stopping: Event
    hold_seconds: float = HOLD_SECONDS

    def __post_init__(self) -> None:
        self.settings = self.connections.settings
        self.webhook = Webhook.of(self.settings)

    def service(self) -> Service:
        """On a thread of its own. What is being delivered is waited for."""
        session = Session(lambda: self.connections.open_warehouse("alerts"))
        complaint = "alerts cannot be looked after, trying again"
        duty = Duty(lambda: self.look(session.get()), complaint, self.settings.poll_seconds)
        return Service("alerts", self.stopping, [duty], [session])

    def look(self, conn: Connection) -> None:
        """Once: what is stale or stands still, and what is due."""
        AlertRepo(conn).check_freshness(STUCK_SECONDS, COMPARISONS + 2)
        while not self.stopping.is_set() and self.deliver_next(conn):
            pass

    def deliver_next(self, conn: Connection) -> Alert | None:
        """Claim one alert and see to it; None when nothing is due."""
        if self.webhook is None:
            return None
        alerts = AlertRepo(conn)
        alert = alerts.claim(self.hold_seconds)
        if alert is None:
            return None
        reason = self._why_give_up(alert)
        if reason:
            self._give_up(alerts, alert, reason)
        else:
            self._deliver(alerts, alert, self.webhook)
        return alert

    def _deliver(self, alerts: AlertRepo, alert: Alert, webhook: Webhook) -> None:
        try:
            webhook.send(alert)
        except RetryableError as error:
            if alert.attempts >= self.settings.webhook_attempts:
                return self._give_up(alerts, alert, str(error))
            return self._postpone(alerts, alert, str(error))
        reach("after webhook")
        alerts.delivered(alert)
        events.count_delivery("delivered")
        log.info("alert delivered", alert=alert.event, pipeline=alert.details.get("name"), delivery=str(alert.id))
        return None

    def _why_give_up(self, alert: Alert) -> str:
        """Before it is sent: an attempt too many was never confirmed, and old news helps nobody."""
        if alert.attempts > self.settings.webhook_attempts:
            return f"{self.settings.webhook_attempts} attempts, and the last was not confirmed"
        return "not delivered within a day" if alert.age_seconds > TOO_OLD else ""

    def _postpone(self, alerts: AlertRepo, alert: Alert, error: str) -> None:
        seconds = min(self.settings.webhook_backoff_seconds * 2.0 ** min(alert.attempts - 1, 30), LONGEST_WAIT)
        alerts.postpone(alert, seconds, error)
        events.count_delivery("retried")
        log.warning("alert not delivered, trying again", alert=alert.event, error=error, in_seconds=seconds)

    def _give_up(self, alerts: AlertRepo, alert: Alert, error: str) -> None:
        alerts.give_up(alert, error)
        events.count_delivery("given_up")
        log.error("alert given up", alert=alert.event, pipeline=alert.details.get("name"), reason=error)
