"""Mode `live`: follow the changes of the tables that the query reads, and converge the keys that they touch.

Going live: wait until no transaction is open that the capture may not have seen, note where the log stands, compare in
full, and follow from there. The position is the id of the last change that the mart has; it is committed together with
what the change did to the mart.

A run ends once it has followed up to where the log stood when it began to; whoever stays (`Staying`) rests then, and
steps down for whatever is a run's: to compare in full, for any reason.
"""

import time
from collections.abc import Generator, Iterator
from dataclasses import replace

from vitrina.domain.events import Event
from vitrina.domain.positions import LivePosition
from vitrina.engine.job import Found, Job, Mode, Step, StepResult, finding
from vitrina.engine.live.feed import Feed
from vitrina.engine.live.follower import EXTENDED, Follower
from vitrina.engine.live.staying import Staying
from vitrina.engine.work import Work
from vitrina.meta.db import Connection
from vitrina.sources.connections import Connections


class LiveMode(Mode):
    """The steps of a live run: go live if it is not, then follow; and those of whoever stays."""

    follower: Follower | None = None

    def __init__(self, job: Job, connections: Connections) -> None:
        self.job = job
        self.connections = connections
        self.started = time.monotonic()

    @property
    def is_burst(self) -> bool:
        """It only followed, or compared because of rows that have changed."""
        return self.follower is not None and self.follower.routine

    def steps(self) -> Generator[Step, None, None]:
        """Prepare the mart, then follow the log of its source."""
        stay = self.job.stay
        if isinstance(stay, Staying):
            yield from self._follow(stay.feed)
            return
        with Feed.open(self.connections, self.job.plan.source) as feed:
            yield from self._follow(feed)

    def wind_up(self) -> Iterator[Step]:
        """Whoever stays takes its scratch tables along."""
        if self.follower and self.follower.stay:
            yield self.follower.clean_up

    def _follow(self, feed: Feed) -> Generator[Step, None, None]:
        work = yield from finding(self._prepare)
        self.follower = Follower(work, feed, self.connections, self.started)
        yield from self.follower.steps()

    def _prepare(self, conn: Connection) -> Found[Work]:
        """A mart that was made or changed here is compared, whoever goes on."""
        work, position = Work.prepare(self.job, conn), self.job.position
        if work.ddl and isinstance(position, LivePosition) and position.is_known:
            position = replace(position, comparing=position.comparing or EXTENDED)
        return StepResult(Event.MART_READY, position=position, fields={"ddl": work.ddl}, quiet=True), work
