"""Whether a cursor still means what it meant.

The source may have been restored, may have failed over to a server that lacks the last transactions, or a clock may
have been set back. Rows that come then are stamped before the checkpoint.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from vitrina.capture.positions import parse_lsn
from vitrina.meta.db import Connection, fetch_all, queries
from vitrina.meta.repos.clock import Clock

SQL = queries("horizon")
LEEWAY = timedelta(minutes=1)  # between two clocks; more than the time between two looks
DRIFT = 1000  # and so much of the time that has passed: two clocks may differ by a part in a thousand


@dataclass(frozen=True)
class Place:
    """A source at some moment: which database of which server, where in its history, and what its clock says; beside
    it the clock of the meta-store, and how often that one was set back."""

    known: dict[str, Any]

    @classmethod
    def take(cls, conn: Connection, clock: Clock) -> "Place":
        """Of a source as it is now; what its role may not ask is not known."""
        may = fetch_all(conn, SQL["may_place"])[0]["may"]
        known = fetch_all(conn, SQL["place" if may else "bare_place"])[0]
        times: dict[str, Any] = {
            "clock": known["clock"].isoformat(),
            "here": clock.now.isoformat(),
            "set_back": clock.set_back,
        }
        return cls(known | times)

    def why_behind(self, before: dict[str, Any], *, is_local: bool) -> str:
        """Why it is not the same place later on; empty if it is, or if nothing was known before."""
        return self._why_elsewhere(before) or self._why_clock(before, is_local=is_local)

    def _why_elsewhere(self, before: dict[str, Any]) -> str:
        for name, said in (
            ("system", "the source is another server now: system identifier"),
            ("database", "the source's database was made anew: oid"),
            ("timeline", "the source has failed over or was restored: timeline"),
        ):
            if self._both(name, before) and self.known[name] != before[name]:
                return f"{said} {self.known[name]}, and was {before[name]}"
        if self._both("lsn", before) and parse_lsn(self.known["lsn"]) < parse_lsn(before["lsn"]):
            return f"the source was set back: its log ends at {self.known['lsn']}, and was at {before['lsn']}"
        return ""

    def _why_clock(self, before: dict[str, Any], *, is_local: bool) -> str:
        """By the clock itself; else by who watches it, if it is the meta-store's, or beside the meta-store's."""
        if not self._both("clock", before):
            return ""
        now, then = self._time("clock"), datetime.fromisoformat(before["clock"])
        if now < then:
            return f"the source's clock was set back: it is {now}, and was {then}"
        watched = self.known["set_back"] == before["set_back"]
        if is_local:
            return "" if watched else "the source's clock was set back since"
        passed = self._time("here") - datetime.fromisoformat(before["here"])
        late = passed - (now - then)
        if watched and late > LEEWAY + passed / DRIFT:
            return f"the source's clock was set back: it went on by {now - then} in {passed}"
        return ""

    def _time(self, name: str) -> datetime:
        return datetime.fromisoformat(self.known[name])

    def _both(self, name: str, before: dict[str, Any]) -> bool:
        return self.known.get(name) is not None and before.get(name) is not None
