"""Incidents and alerts: how old marts are, what is told to the world, and what became of it."""

from collections.abc import Sequence
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
    """One delivery in our hands: its id is the same however often it is made."""

    id: UUID
    pipeline_id: UUID
    event: str  # failed, recovered, stale, stuck or wrong
    details: dict[str, Any]
    created_at: datetime
    attempts: int
    age_seconds: float

    @classmethod
    def from_row(cls, row: DictRow) -> Self:
        """From `claim`."""
        return cls(**row)


@dataclass(frozen=True)
class AlertRepo:
    """Tables `etl_incidents`, `etl_alerts` and `etl_behind`."""

    conn: Connection

    def check_freshness(self, grace: float, comparisons: float) -> None:
        """Open an incident for every mart that has become too old, or stands still; and close those that are over.

        One that stands still may do so for some grace, and for so many times what a comparison of it takes.
        """
        allowed = {"grace": grace, "comparisons": comparisons}
        with translated(), self.conn.transaction():
            if Mark(self.conn, "vitrina freshness", TURN).is_my_turn():  # one runner at a time
                for name in ("note_behind", "note_caught_up", "note_still", "drop_stale", "drop_settled", "judge_age"):
                    self.conn.execute(SQL[name])
                self.conn.execute(SQL["judge_stuck"], allowed)
                self.conn.execute(SQL["judge_moving"])

    def claim(self, seconds: float) -> Alert | None:
        """The oldest that is due; None when nothing is."""
        row = fetch_one(self.conn, SQL["claim"], {"seconds": seconds})
        return Alert.from_row(row) if row else None

    def delivered(self, alert: Alert) -> None:
        """The receiver has it."""
        self._move("delivered", alert)

    def postpone(self, alert: Alert, seconds: float, error: str) -> None:
        """Not now; again after a while."""
        self._move("postpone", alert, seconds=seconds, error=error)

    def give_up(self, alert: Alert, error: str) -> None:
        """Nobody will try again; the row says why."""
        self._move("give_up", alert, error=error)

    def incidents(self, ids: Sequence[UUID]) -> list[DictRow]:
        """What is wrong with these pipelines at this moment."""
        return fetch_all(self.conn, SQL["incidents"], {"ids": list(ids)})

    def _move(self, name: str, alert: Alert, **more: Any) -> None:
        with translated():
            self.conn.execute(SQL[name], {"id": alert.id, "attempts": alert.attempts} | more)
