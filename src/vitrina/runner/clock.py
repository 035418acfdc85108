"""Watching the database's clock, which may jump by hours: leases and schedules go by it.

One that is set back is behind what was seen of it: the meta-store tells that to whoever looks. One that is set forward
looks like a long silence, which only a process that was there can tell from one: by its own clock, which is monotonic.
"""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from vitrina.meta.db import Connection
from vitrina.meta.repos.clock import LEEWAY, ClockRepo

log = structlog.get_logger()
DRIFT = 1000  # two clocks may differ by a part in a thousand


@dataclass(frozen=True)
class Moment:
    """What the database's clock said, somewhen between two moments of ours."""

    at: datetime
    asked: float
    told: float


@dataclass
class ClockWatch:
    """One a process; its threads look whenever it matters. Wrong alarms (a process that was frozen) harm nobody: who is
    lost is given one lease more."""

    last: Moment | None = None

    def look(self, conn: Connection) -> bool:
        """Whether the clock has jumped since the last look; then everything kept in the meta-store was put right."""
        repo, asked = ClockRepo(conn), time.monotonic()
        clock = repo.look()
        moment, last = Moment(clock.now, asked, time.monotonic()), self.last
        jumped = False
        if clock.was_set_back:
            jumped = self._go_back(repo)
        elif last and (ahead := _ahead(last, moment)) > LEEWAY:
            jumped = True
            self._go_forward(repo, last, ahead)
        self.last = moment  # only now: who looks meanwhile sees the jump too
        return jumped

    def _go_back(self, repo: ClockRepo) -> bool:
        by = repo.go_back()
        if by:
            log.warning("the database's clock was set back; leases and schedules go by the new time", by=str(by))
        return by is not None

    def _go_forward(self, repo: ClockRepo, last: Moment, ahead: float) -> None:
        if repo.go_forward(last.at, ahead):
            by = str(timedelta(seconds=round(ahead)))
            log.warning("the database's clock was set forward, or this process stood still; leases are kept", by=by)


def _ahead(last: Moment, moment: Moment) -> float:
    """By how many seconds at least the database's clock went on faster than ours."""
    most = moment.told - last.asked
    return (moment.at - last.at).total_seconds() - most - most / DRIFT
