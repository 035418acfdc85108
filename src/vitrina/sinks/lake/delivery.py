"""A mode around the mode: what each of its steps writes is in the lake in the step's own transaction.

    the shadow, and which rows differ → files → the pointer → the checkpoint, under the fence

So the lake, the shadow and the position are one state. What a lost runner leaves are files that nothing points to.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from vitrina.domain.events import Event
from vitrina.engine.job import Job, Step, StepDown, StepResult, rest
from vitrina.failpoints import reach
from vitrina.meta.db import Connection
from vitrina.sinks.lake import catalogue
from vitrina.sinks.lake.audit import LakeAudit
from vitrina.sinks.lake.datafiles import DataWriter
from vitrina.sinks.lake.editions import LakeEditions
from vitrina.sinks.lake.iceberg import LakeTable, delete, unused
from vitrina.sinks.lake.store import LakeStore
from vitrina.sinks.parquet.delivery import Make, RowDelivery
from vitrina.sinks.parquet.loading import RowLoader
from vitrina.sinks.parquet.writer import RowWriter

SWEEP_SECONDS = 3_600.0  # between two looks of a follower


class LakeDelivery(RowDelivery):
    """What steps write is in files by their end."""

    editions: LakeEditions
    has_written = has_committed = False  # ever; and since it last had nothing to do
    sweep_at = 0.0

    def __init__(self, job: Job, writer: RowWriter, make: Make, store: LakeStore, epoch: int, grace: float) -> None:
        super().__init__(job, writer, make, store, LakeEditions(store, job, writer, epoch, grace))
        self.store = store

    def steps(self) -> Generator[Step, None, None]:
        """Get a table ready, run the mode, serve what was built, and remove what nothing points to."""
        with closing(self.store):
            yield from self._keeping_position(self._open_table())
            yield from self._deliver(self._steps_of_mode())
            self.editions.make_ready()
            yield from self._keeping_position(self.editions.close())
            if self.has_written:
                yield from self._keeping_position(swept(self.store, self.editions.table, self.job))

    def _open_table(self) -> Iterator[Step]:
        yield from self._open()
        if self._doubts and self.job.stay:
            raise StepDown("somebody else has changed the table in the lake")
        yield from self._look()

    def _steps_of_mode(self) -> Iterator[Step]:
        beyond = None if self.editions.is_new else LakeAudit(self._is_as_left)
        yield from self._mode_steps(replace(self.job, beyond=beyond))

    def _deliver(self, steps: Iterator[Step]) -> Iterator[Step]:
        for step in steps:
            if step is rest:
                yield from self._rest()
            else:
                yield self._with_lake(step)

    def _rest(self) -> Iterator[Step]:
        """After a commit, changes are gathered for a while; now and then, what nothing points to is removed."""
        stay = self.job.stay
        assert stay is not None
        if self.has_written and time.monotonic() >= self.sweep_at:
            yield from self._keeping_position(swept(self.store, self.editions.table, self.job))
            self.sweep_at = time.monotonic() + SWEEP_SECONDS
        if self.has_committed:
            stay.wake_at, stay.waits = time.monotonic() + self.job.settings.lake_commit_seconds, True
        self.has_committed = False
        yield rest
        self.position = stay.forward(self.position)

    def _is_as_left(self, conn: Connection) -> bool:
        return catalogue.find(conn, self.editions.pointer) == self.editions.table.location

    @property
    def _types(self) -> Any:
        return self.editions.table.types

    @property
    def _is_in_doubt(self) -> bool:
        """The last change of the table was not ours."""
        return not self.editions.table.is_ours

    def _loader(self, writer: RowWriter) -> RowLoader:
        table = self.editions.table
        return RowLoader(writer, table.types, partial(DataWriter, table.table), self.store.place.reaching)

    @property
    def is_burst(self) -> bool:
        """As the mode itself."""
        return self.mode is not None and self.mode.is_burst and not self.editions.is_new

    def wind_up(self) -> Iterator[Step]:
        """Every step that was committed has arrived."""
        if self.mode is not None:
            yield from map(self._with_lake, self.mode.wind_up())

    # ── one step ─────────────────────────────────────────────────────────────────────────────────────────────

    def _with_lake(self, step: Step) -> Step:
        return partial(self._commit, step)

    def _commit(self, step: Step, conn: Connection) -> StepResult:
        """The step, and in the same transaction what it wrote."""
        result = self._stepped(step, conn)
        self.position = result.position
        return result

    def _write(self, rows: Any, keys: Any, conn: Connection) -> None:
        with self.store.place.reaching():
            table, files = self.editions.table, self.writer.changes.files
            old, new = table.location, table.change(rows, keys, files, self.editions.keep_seconds)
        reach("after send")
        catalogue.move(conn, self.editions.pointer, old, new)
        self.has_written = self.has_committed = True


# ── what nothing points to ───────────────────────────────────────────────────────────────────────────────────────────


def swept(store: LakeStore, table: LakeTable, job: Job) -> Iterator[Step]:
    """Found first, removed once the fence has said that until then the pipeline was ours: whatever was there by then is
    of this run or of one before it."""
    with store.place.reaching():
        left = unused(table, job.settings.lake_unused_seconds)
    if left:
        yield _look_at_lease
        with store.place.reaching():
            delete(table, left)


def _look_at_lease(conn: Connection) -> StepResult:
    del conn
    return StepResult(Event.LEASE_SEEN, quiet=True)
