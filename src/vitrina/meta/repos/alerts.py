"""Incidents and alerts: how old marts are, what is told to the world, and what became of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from psycopg.rows import DictRow

from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated
from vitrina.meta.repos.marks import TURN, Mark

SQL = queries("alerts")


@dataclass(frozen=True)
class Alert:
    """One delivery in our hands: its id is the same however often it is made, and wherever to."""

    id: UUID
    pipeline_id: UUID | None  # None: a test
    event: str  # failed, recovered, stale, stuck, wrong, outage, check or test
    details: dict[str, Any]
    created_at: datetime
    attempts: int = 0
    age_seconds: float = 0.0
    number: int = 0  # of the delivery
    destination: str = ""

    @classmethod
    def from_row(cls, row: DictRow) -> Self:
        """From `claim`."""
        return cls(**row)


@dataclass(frozen=True)
class AlertRepo:
    """Tables `etl_incidents`, `etl_alerts`, `etl_deliveries`, `etl_destinations` and `etl_behind`."""

    conn: Connection

    def check_freshness(self, grace: float, comparisons: float, away: float) -> None:
        """Open an incident for every mart that has become too old, or stands still; and close those that are over.

        One that stands still may do so for some grace, and for so many times what a comparison of it takes; one that
        waits for somebody who is away, for that long.
        """
        allowed = {"grace": grace, "comparisons": comparisons}
        with translated(), self.conn.transaction():
            if Mark(self.conn, "vitrina freshness", TURN).is_my_turn():  # one runner at a time
                for name in ("note_behind", "note_caught_up", "note_still", "drop_stale", "drop_settled", "judge_age"):
                    self.conn.execute(SQL[name])
                self.conn.execute(SQL["judge_stuck"], allowed)
                self.conn.execute(SQL["judge_moving"])
                self.conn.execute(SQL["judge_away"], {"away": away})

    def note(self, destinations: Sequence[Mapping[str, Any]]) -> None:
        """A runner has these: name, format, place, labels and events."""
        with translated(), self.conn.transaction():
            for destination in destinations:
                self.conn.execute(SQL["note_destination"], destination)
            self.conn.execute(SQL["forget_destinations"])

    def route(self, most: int) -> int:
        """Find out whom alerts are to be told, oldest first; how many. One runner at a time, so that order stays."""
        routed = 0
        with translated(), self.conn.transaction():
            if Mark(self.conn, "vitrina alerts", TURN).is_my_turn():
                while routed < most and self.conn.execute(SQL["route"]).fetchone():
                    routed += 1
        return routed

    def claim(self, names: Sequence[str], seconds: float) -> Alert | None:
        """The oldest that is due to one of these destinations; None when nothing is."""
        row = fetch_one(self.conn, SQL["claim"], {"names": list(names), "seconds": seconds})
        return Alert.from_row(row) if row else None

    def delivered(self, alert: Alert, answer: str, took_ms: float) -> None:
        """The receiver has it."""
        self._end("delivered", alert.number, alert.attempts, answer=answer, took_ms=took_ms)

    def postpone(self, alert: Alert, seconds: float, error: str, answer: str, took_ms: float) -> None:
        """Not now; again after a while."""
        more = {"number": alert.number, "attempts": alert.attempts, "answer": answer, "took_ms": took_ms}
        with translated():
            self.conn.execute(SQL["postpone"], more | {"seconds": seconds, "error": error})

    def give_up(self, alert: Alert, error: str, answer: str | None = None, took_ms: float | None = None) -> None:
        """Nobody will try again; the row says why."""
        self._end("give_up", alert.number, alert.attempts, error=error, answer=answer, took_ms=took_ms)

    def give_up_orphans(self) -> int:
        """What is to be told to whom no runner knows any more, for a day; how many."""
        found = fetch_all(self.conn, SQL["orphaned"])
        error = "no runner has had this destination for a day"
        for row in found:
            self._end("give_up", row["number"], row["attempts"], error=error, answer=None, took_ms=None)
        return len(found)

    def tested(self, destination: str, error: str | None, answer: str, took_ms: float) -> None:
        """A test was sent, once."""
        status = "GIVEN_UP" if error else "DELIVERED"
        told = {"destination": destination, "status": status, "error": error, "answer": answer, "took_ms": took_ms}
        with translated():
            self.conn.execute(SQL["tested"], told)

    def destinations(self) -> list[DictRow]:
        """All that runners have named lately."""
        return fetch_all(self.conn, SQL["destinations"])

    def deliveries(self, destination: str | None, limit: int, before: int | None = None) -> list[DictRow]:
        """The last ones, newest first."""
        params = {"destination": destination, "limit": limit, "before": before}
        return fetch_all(self.conn, SQL["deliveries"], params)

    def incidents(self, ids: Sequence[UUID]) -> list[DictRow]:
        """What is wrong with these pipelines at this moment."""
        return fetch_all(self.conn, SQL["incidents"], {"ids": list(ids)})

    def _end(self, name: str, number: int, attempts: int, **more: Any) -> None:
        with translated(), self.conn.transaction():
            self.conn.execute(SQL["hold"], {"number": number})
            self.conn.execute(SQL[name], {"number": number, "attempts": attempts} | more)
            self.conn.execute(SQL["settle"], {"number": number})
