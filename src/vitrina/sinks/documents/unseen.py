"""What has arrived in a store, and its searches may not see yet: a live mart is as fresh as what they see."""

import time
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from vitrina.domain.positions import LivePosition, Position


@dataclass
class Unseen:
    """Of one follower; `after` so many seconds a search sees what has arrived; None: not by itself."""

    after: float | None
    arrived: deque[tuple[float, datetime]] = field(default_factory=deque)  # monotonic, and the oldest change of it

    @classmethod
    def of(cls, after: float | None, before: Position | None, now: datetime) -> "Unseen":
        """With what somebody else has sent before, if it is not seen yet."""
        unseen = cls(after)
        if isinstance(before, LivePosition) and before.unseen_from and before.is_unseen(now):
            unseen.arrived.append((time.monotonic(), before.unseen_from))
        return unseen

    def note(self, position: Position | None, took: float, *, sent: bool) -> Position | None:
        """The position, which says from which change on a search may lack something, and until when."""
        if not isinstance(position, LivePosition):
            return position
        now = time.monotonic()
        if sent and position.committed_at and (self.after is not None or not self.arrived):
            self.arrived.append((now, position.committed_at))
        while self.after is not None and self.arrived and self.arrived[0][0] <= now - self.after:
            self.arrived.popleft()
        since = min((changed for _, changed in self.arrived), default=None)
        return replace(position, unseen_from=since, unseen_until=self._until(position, took) if since else None)

    def _until(self, position: LivePosition, took: float) -> datetime | None:
        """By the meta-store's clock, as when it was applied."""
        if self.after is None or position.applied_at is None:
            return None
        return position.applied_at + timedelta(seconds=took + self.after)
