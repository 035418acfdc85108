"""A mode around the mode: what each of its steps writes is in the lake in the step's own transaction.

    the shadow, and which rows differ → files → the pointer → the checkpoint, under the fence

So the lake, the shadow and the position are one state. What a lost runner leaves are files that nothing points to.
"""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from vitrina.domain.events import Event
from vitrina.engine.job import Job, Mode, Step, StepDown, StepResult, execute, rest
from vitrina.failpoints import reach
from vitrina.meta.db import Connection
from vitrina.sinks.lake import catalogue
from vitrina.sinks.lake.audit import LakeAudit
from vitrina.sinks.lake.datafiles import DataWriter
from vitrina.sinks.lake.editions import LakeEditions
from vitrina.sinks.lake.iceberg import LakeTable, delete, unused
from vitrina.sinks.lake.store import LakeStore
from vitrina.sinks.parquet.loading import RowLoader
from vitrina.sinks.parquet.mirror import RowMirror
from vitrina.sinks.parquet.parsing import Text, to_arrow
from vitrina.sinks.parquet.writer import VERSION, RowWriter

DAY = 86_400.0
SWEEP_SECONDS = 3_600.0  # between two looks of a follower


class LakeDelivery(Mode):
    """The mode itself knows of nothing but the shadow."""

    mode: Mode | None = None  # once there is something to write to
    has_written = has_committed = False  # ever; and since it last had nothing to do
    sweep_at = 0.0

    def __init__(
        self, job: Job, writer: RowWriter, make: Callable[[Job], Mode], store: LakeStore, epoch: int, grace: float
    ) -> None:
        self.job = job
        self.writer = writer
        self._make = make
        self.store = store
        self.editions = LakeEditions(store, job, writer, epoch, grace)
        self.position = job.position

    def steps(self) -> Generator[Step, None, None]:
        """Get a table ready, run the mode, serve what was built, and remove what nothing points to."""
        with closing(self.store):
            yield from self._keeping_position(self._open())
            yield from self._deliver(self._mode_steps())
            self.editions.make_ready()
            yield from self._keeping_position(self.editions.close())
            if self.has_written:
                yield from self._keeping_position(swept(self.store, self._table, self.job))

    def _open(self) -> Iterator[Step]:
        yield from self.editions.open()
        self.job, writer = self.editions.job, self.editions.writer
        assert isinstance(writer, RowWriter)
        self.editions.await_created()
        yield from self.editions.bind()
        table = self._table
        loader = RowLoader(writer, table.types, partial(DataWriter, table.table), self.store.place.reaching)
        self.writer = replace(writer, loader=loader)
        self.job = replace(self.job, writer=self.writer)
        if self._doubts and self.job.stay:
            raise StepDown("somebody else has changed the table in the lake")
        if self._doubts:
            yield from RowMirror(self.job, self.writer, self.store).steps()

    def _mode_steps(self) -> Iterator[Step]:
        repair = self._doubts or self.editions.loads_all or self.job.options.repair
        options = replace(self.job.options, rebuild=False, repair=repair)
        beyond = None if self.editions.is_new else LakeAudit(self._is_as_left)
        self.mode = self._make(replace(self.job, options=options, beyond=beyond))
        yield from self.mode.steps()

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
            yield from self._keeping_position(swept(self.store, self._table, self.job))
            self.sweep_at = time.monotonic() + SWEEP_SECONDS
        if self.has_committed:
            stay.wake_at, stay.waits = time.monotonic() + self.job.settings.lake_commit_seconds, True
        self.has_committed = False
        yield rest
        self.position = stay.forward(self.position)

    def _is_as_left(self, conn: Connection) -> bool:
        return catalogue.find(conn, self._pointer) == self._table.location

    @property
    def _doubts(self) -> bool:
        """Somebody asked to look at the lake itself; or its last change was not ours."""
        return not self.editions.is_new and (self.job.options.repair or not self._table.is_ours)

    @property
    def is_burst(self) -> bool:
        """As the mode itself."""
        return self.mode is not None and self.mode.is_burst and not self.editions.is_new

    def wind_up(self) -> Iterator[Step]:
        """Every step that was committed has arrived."""
        if self.mode is not None:
            yield from map(self._with_lake, self.mode.wind_up())

    # ── one step ─────────────────────────────────────────────────────────────────────────────────────────────

    def _keeping_position(self, steps: Iterator[Step]) -> Iterator[Step]:
        """Steps around the mode leave the checkpoint where it is."""
        for step in steps:
            yield partial(self._keep_position, step)

    def _keep_position(self, step: Step, conn: Connection) -> StepResult:
        return replace(step(conn), position=self.position)

    def _with_lake(self, step: Step) -> Step:
        return partial(self._commit, step)

    def _commit(self, step: Step, conn: Connection) -> StepResult:
        """The step, and in the same transaction what it wrote."""
        self.writer.changes.clear()
        reach("before shadow")
        result = step(conn)
        if self.writer.changes:
            self._write(conn)
        self.position = result.position
        return result

    def _write(self, conn: Connection) -> None:
        changes, table, key = self.writer.changes, self._table, self.writer.shape.key
        reach("before send")
        with self.store.place.reaching():
            fresh, written = self._rows(changes.fresh), self._rows(changes.written)
            gone = to_arrow(self.writer.shape, Text(b"".join(changes.deleted)), key, table.types)
            rows, keys = pa.concat_tables([fresh, written]), pa.concat_tables([gone, written.select([*key])])
            old, new = table.location, table.change(rows, keys, changes.files, self._keep_seconds)
        reach("after send")
        catalogue.move(conn, self._pointer, old, new)
        if changes.deleted:
            statements = self.writer.statements(self.writer.prepare(conn, self.job.wanted)[0])
            execute(conn, statements.bury(), [VERSION])
        changes.clear()
        self.has_written = self.has_committed = True

    def _rows(self, lines: list[bytes]) -> Any:
        shape = self.writer.shape
        return to_arrow(shape, Text(b"".join(lines)), shape.names, self._table.types)

    @property
    def _keep_seconds(self) -> float:
        """Nobody reads what is being built."""
        return 0 if self.editions.current.is_building else self.job.settings.lake_snapshot_days * DAY

    @property
    def _pointer(self) -> catalogue.Pointer:
        return self.store.built_at if self.editions.current.is_building else self.store.served_at

    @property
    def _table(self) -> LakeTable:
        table = self.store.table(self.editions.current.index)
        assert table is not None
        return table


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
