"""The database's clock, which every promise of the meta-store goes by, and what becomes of them when it jumps."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg import errors

from vitrina.meta.db import Connection, fetch_one, queries, translated

SQL = queries("clock")
LEEWAY = 5.0  # seconds; less is not called a jump
BACK = (
    "plan_anew",
    "shift_leases",
    "shift_requests",
    "shift_captures",
    "shift_audits",
    "shift_alerts",
    "shift_deliveries",
    "shift_destinations",
    "shift_behind",
    "shift_waits",
    "shift_postponed",
    "shift_looks",
    "shift_runners",
    "wake_followers",
)
FORWARD = ("keep_leases", "keep_requests", "keep_captures")


@dataclass(frozen=True)
class Clock:
    """As it is now, how far it was seen, and the last jump."""

    now: datetime
    seen_at: datetime
    set_back: int
    was_set_back: bool
    jumped_at: datetime | None
    jumped_by: float | None  # seconds


@dataclass(frozen=True)
class ClockRepo:
    """Table `etl_clock`."""

    conn: Connection

    def look(self) -> Clock:
        """How it stands."""
        row = fetch_one(self.conn, SQL["look"], {"leeway": LEEWAY})
        assert row is not None
        return Clock(**row)

    def see(self) -> None:
        """It has come so far."""
        with translated():
            self.conn.execute(SQL["see"])

    def go_back(self) -> timedelta | None:
        """It was set back: what is to come, comes as soon as it would have. By how much; None if another has done it.

        Rows that stay locked are passed over: whoever holds something writes the new time when it renews.
        """
        with translated(), self.conn.transaction():
            row = self.conn.execute(SQL["go_back"], {"leeway": LEEWAY}).fetchone()
            if row is None:
                return None
            self.conn.execute(SQL["patience"])
            with suppress(errors.LockNotAvailable), self.conn.transaction():
                self.conn.execute(SQL["await_pipelines"], row)
            for name in BACK:
                self.conn.execute(SQL[name], row)
        by: timedelta = row["by"]
        return by

    def go_forward(self, before: datetime, by: float) -> bool:
        """It was set forward since `before`: who was alive then is given the time that was left. Whether it is news."""
        with translated(), self.conn.transaction():
            for name in FORWARD:
                self.conn.execute(SQL[name], {"before": before})
            return self.conn.execute(SQL["note_forward"], {"by": by}).fetchone() is not None
