"""How often a mart is compared whose changes may touch any key, and how fast one catches up that is behind.

While its tables keep changing, comparisons are kept apart by a multiple of what one takes. Once nothing has come for as
long as one takes, the next is made: however long the pause would still be, the mart is equal one comparison later.
All of it is kept in the position, so that it holds across runs and can be shown.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

COMPARISONS = 10.0  # between two comparisons there is at least this many times the length of one, in seconds
QUIET_SECONDS = 1.0  # the tables are quiet if nothing has come for this long at least
SMOOTH = 0.5  # how much the latest slice says about how fast it goes


@dataclass
class Pacing:
    """Over the position of a follower; times are the meta-store's."""

    position: dict[str, Any]

    def compared(self, seconds: float, now: datetime, *, loaded: bool) -> None:
        """Everything was compared, which took so long. To have loaded an empty mart tells nothing of comparing."""
        pause = 0.0 if loaded else COMPARISONS * seconds
        self.position["compare_after"] = (now + timedelta(seconds=pause)).isoformat()
        self.position["compare_seconds"] = round(seconds, 3)
        self.position.pop("seen", None)

    def may_compare(self, now: datetime, newest: int) -> bool:
        """Whether the pause is over, or it is quiet; `newest` is the last change of its tables."""
        after = self.position.get("compare_after")
        if after is None or now >= datetime.fromisoformat(after) or self._was_set_back(after, now):
            return True
        seen = self.position.get("seen") or {}
        return seen.get("id") == newest and now >= datetime.fromisoformat(seen["at"]) + self._quiet

    def rest(self, now: datetime, newest: int) -> None:
        """Not now. It looks again when the pause is over, or when it could have become quiet."""
        if (self.position.get("seen") or {}).get("id") != newest:
            self.position["seen"] = {"id": newest, "at": now.isoformat()}
        quiet_at = datetime.fromisoformat(self.position["seen"]["at"]) + self._quiet
        after = datetime.fromisoformat(self.position["compare_after"])
        self.position["not_before"] = min(after, max(quiet_at, now)).isoformat()

    def moved(self, changes: int, seconds: float) -> None:
        """So many changes of the log were worked off in this time."""
        rate = changes / max(seconds, 0.001)
        before = self.position.get("rate")
        self.position["rate"] = round(rate if before is None else SMOOTH * rate + (1 - SMOOTH) * before, 1)

    def _was_set_back(self, after: str, now: datetime) -> bool:
        """Whether the pause is longer than any: the clock has gone back since."""
        seconds = self.position.get("compare_seconds")
        longest = timedelta(seconds=COMPARISONS * (seconds or 0.0) + QUIET_SECONDS)
        return seconds is not None and datetime.fromisoformat(after) - now > longest

    @property
    def _quiet(self) -> timedelta:
        return timedelta(seconds=max(self.position.get("compare_seconds") or 0.0, QUIET_SECONDS))
