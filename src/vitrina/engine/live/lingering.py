"""How long a follower stays: it is there at once for the next change, and costs a slot meanwhile."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from vitrina.capture.log import Tip
from vitrina.engine.job import Job
from vitrina.engine.live.feed import Feed

LAST_SLOT_SECONDS = 2.0  # how long a follower waits for more, at most, if its runner has no other slot free
BURST_SECONDS = 600.0  # and how long it stays when there is always more
PATIENCE_SECONDS = 1.0  # or when others wait for a slot


@dataclass(frozen=True)
class Lingering:
    """Of one run, since it began."""

    job: Job
    feed: Feed
    started: float

    def is_enough(self) -> bool:
        """Whether a follower that could go on should give its slot back."""
        stayed = time.monotonic() - self.started
        return stayed > BURST_SECONDS or (stayed > PATIENCE_SECONDS and self.job.others_wait())

    def wait(self, tip: Tip, since: float, is_as_it_was: Callable[[], bool]) -> bool:
        """Whether more has come before patience ends; on a schedule, or when asked for, nobody waits."""
        while self.job.plan.continuous and not self.job.was_asked_for:
            self.job.check()
            left = since + self._patience() - time.monotonic()
            if left <= 0:
                return False
            now = self.feed.wait(tip, min(0.25, left))
            if (now.last_id, now.generation) != (tip.last_id, tip.generation):
                return True
            if self.job.others_wait() or self.is_enough():
                return False
            if not is_as_it_was():
                return True
        return False

    def _patience(self) -> float:
        """A follower that stays is there at once for the next change; one that nobody has a use for costs a slot."""
        linger = self.job.settings.linger_seconds
        return linger if self.job.has_room() else min(linger, LAST_SLOT_SECONDS)
