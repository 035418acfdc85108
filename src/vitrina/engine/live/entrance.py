"""What must be so before a mart goes live: its tables are captured, with the columns that it needs, and whoever had a
transaction open when it began has ended it. For that it holds no slot: it may take hours, and is up to others."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vitrina.capture import barrier, installation
from vitrina.capture.sources import fingerprints
from vitrina.domain.errors import ConfigError
from vitrina.engine.job import Awaiting, Job
from vitrina.engine.live.feed import Feed
from vitrina.meta.db import Connection, connect
from vitrina.meta.repos.waits import Barrier, WaitRepo, in_words
from vitrina.sources.connections import Connections

MEND_SECONDS = 5.0  # for a capture to put right what is gone, once whoever held it has lost it
COLUMNS_SECONDS = 30.0  # for a capture to see which columns are needed: it looks every second
SLOT_SECONDS = 1.0  # for transactions to end, as most do, before the slot is given back


class Entrance:
    """One run's way in."""

    def __init__(self, job: Job, connections: Connections, feed: Feed, tables: Sequence[str]) -> None:
        self.job = job
        self.connections = connections
        self.feed = feed
        self.tables = tables
        self.context: dict[str, Any] = {}
        self.holder: Mapping[str, Any] = {}

    def check_capture(self) -> None:
        """What was installed and is gone, the capture puts right by itself, once it has noticed: that is waited for."""
        uncovered: dict[str, str] = {}

        def is_settled() -> bool:
            nonlocal uncovered
            capture = self.feed.capture()
            uncovered = installation.uncovered(conn, capture, self.tables)
            return not uncovered or not uncovered.keys() <= set(capture.tables)

        with connect(self.connections.resolve_capture(self.job.plan.source), "going live") as conn:
            self._wait_until(is_settled, self.connections.settings.lease_seconds + MEND_SECONDS)
            if uncovered:
                said = "; ".join(f"{table}: {reason}" for table, reason in uncovered.items())
                remedy = f"vitrina capture install --source {self.job.plan.source} --tables {','.join(uncovered)}"
                raise ConfigError(f"not captured: {said}", remedy)
            self.context = self._context(conn)

    def wait_for_columns(self, columns: Mapping[str, Sequence[str]]) -> None:
        """Until the capture has seen what this mart needs of changed rows; a row without it would mean to compare."""
        self._wait_until(lambda: self.feed.tip().keeps(columns), COLUMNS_SECONDS)

    def is_barred(self) -> bool:
        """Whether a transaction is open that was so when a run began to wait; or is, if none has before this one."""
        kept = WaitRepo(self.feed.conn).find(self.job.pipeline_id)
        if kept and kept.context == self.context:
            self.barrier = kept
        else:
            self.barrier = Barrier(barrier.draw(self.job.reader.catalogue.conn), self.context)
        return self._is_held()

    def note(self, conn: Connection) -> None:
        """What is waited for, in a step's transaction."""
        WaitRepo(conn).note(self.job.pipeline_id, self.barrier, self.holder)

    @property
    def said(self) -> str:
        """Who is waited for."""
        return in_words(self.holder)

    def wait(self) -> None:
        """A moment; then the slot is given back."""
        self._wait_until(lambda: not self._is_held(), SLOT_SECONDS)
        if self._is_held():
            raise Awaiting(self.said)

    def _is_held(self) -> bool:
        found = barrier.holder_of(self.job.reader.catalogue.conn, self.barrier.xid)
        self.holder = self.holder if found is None else found
        return found is not None

    def _context(self, conn_source: Connection) -> dict[str, Any]:
        """How the tables are captured. Had one been captured anew since the barrier was drawn, somebody who wrote in
        between would not be waited for."""
        capture = self.feed.capture()
        prints = fingerprints(conn_source, capture, self.tables)
        return {"source": capture.source, "slot": capture.slot, "generation": capture.generation, "prints": prints}

    def _wait_until(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Until it is so or the time is up; a pause or the end of the runner cuts it short."""
        deadline = time.monotonic() + seconds
        while not is_so() and time.monotonic() < deadline:
            self.job.check()
            time.sleep(0.05)
