"""What a follower that stays and whoever drives it tell each other between two steps."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vitrina.domain.positions import LivePosition, Position
from vitrina.engine.job import Stay
from vitrina.engine.live.feed import Feed


@dataclass
class Staying(Stay):
    """Of one follower. It is driven when a change of its tables comes, or its time has come."""

    feed: Feed  # that it shares with others
    tables: Sequence[str] = ()
    at: int = 0
    wake_at: float = field(default_factory=time.monotonic)
    waits: bool = False
    settles: bool = False  # it is amid an audit, and waits for the log to come a little further

    def rest(self, at: int, wake_at: float, *, settles: bool) -> None:
        """It has everything up to here."""
        self.at, self.wake_at, self.waits, self.settles = at, wake_at, False, settles

    def wait(self, at: int, wake_at: float) -> None:
        """What comes after this has to wait until then."""
        self.at, self.wake_at, self.waits, self.settles = at, wake_at, True, False

    def wake_by(self, at: float) -> None:
        """At the latest."""
        self.wake_at = min(self.wake_at, at)

    def passes(self, last_id: int) -> None:
        """Nothing up to here concerns it."""
        self.at = max(self.at, last_id)

    def forward(self, position: Position | None) -> Position | None:
        """The same, from there."""
        if not isinstance(position, LivePosition) or self.waits:
            return position
        return replace(position, id=max(position.id, self.at))
