"""Files around a mode: what its steps wrote is a draft until all of it is there; then the manifest is switched.

    shadow, in the step's own fenced transaction → files of a draft → the manifest, by one conditional write → confirmed

What is not confirmed when a run begins is in doubt: the next one looks at the files that the manifest names.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from vitrina.domain.events import Event
from vitrina.engine.job import Job, Mode, Step, StepResult, execute
from vitrina.failpoints import reach
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import IndexRepo
from vitrina.sinks.documents.intrusion import alone
from vitrina.sinks.files.draft import Draft, Drafting, schema_of
from vitrina.sinks.files.editions import FilesEditions
from vitrina.sinks.files.store import FilesStore
from vitrina.sinks.parquet.loading import RowLoader
from vitrina.sinks.parquet.mirror import RowMirror
from vitrina.sinks.parquet.parsing import Text, to_arrow
from vitrina.sinks.parquet.writer import VERSION, RowWriter


class FilesDelivery(Mode):
    """The mode itself knows of nothing but the shadow."""

    mode: Mode | None = None  # once there is something to write to
    is_in_flight = False  # something is committed that the manifest does not name

    def __init__(
        self, job: Job, writer: RowWriter, make: Callable[[Job], Mode], store: FilesStore, epoch: int, unused: float
    ) -> None:
        self.job = job
        self.writer = writer
        self._make = make
        self.store = store
        self.epoch = epoch
        self.unused_seconds = unused
        self.editions = FilesEditions(store, job, writer, epoch, store.grace)
        self.position = self.reached = job.position
        self.schema = schema_of(writer.shape)

    def steps(self) -> Generator[Step, None, None]:
        """Get an edition ready, run the mode, switch the manifest, and remove what it no longer names."""
        with closing(self.store):
            yield from alone(self.job.plan.target, self._all_steps(), self._look_at_lease)

    def _all_steps(self) -> Iterator[Step]:
        yield from self._keeping_position(self._open())
        yield from map(self._with_files, self._mode_steps())
        yield from self._arrive()
        self.editions.make_ready()
        yield from self._keeping_position(self.editions.close())
        yield from self._sweep()

    def _open(self) -> Iterator[Step]:
        yield from self.editions.open()
        self.job, writer = self.editions.job, self.editions.writer
        assert isinstance(writer, RowWriter)
        self.editions.await_created()
        yield from self.editions.bind()
        self.writer = replace(writer, loader=RowLoader(writer, self.schema, self._drafting, self.store.place.reaching))
        self.job = replace(self.job, writer=self.writer)
        self.is_in_flight = self.editions.current.in_flight
        if self._doubts:
            yield from RowMirror(self.job, self.writer, self.store).steps()

    def _mode_steps(self) -> Iterator[Step]:
        repair = self._doubts or self.editions.loads_all or self.job.options.repair
        options = replace(self.job.options, rebuild=False, repair=repair)
        self.mode = self._make(replace(self.job, options=options))
        yield from self.mode.steps()

    @property
    def _doubts(self) -> bool:
        """Somebody asked to look at the files themselves; or what the last run wrote may not be in them."""
        return not self.editions.is_new and (self.job.options.repair or self.editions.current.in_flight)

    def wind_up(self) -> Iterator[Step]:
        """What was committed is in the files that are served, or in those that are gone on with."""
        if self.mode is not None:
            yield from map(self._with_files, self.mode.wind_up())
            yield from alone(self.job.plan.target, self._arrive(), self._look_at_lease)

    # ── one step ─────────────────────────────────────────────────────────────────────────────────────────────

    def _keeping_position(self, steps: Iterator[Step]) -> Iterator[Step]:
        """Steps around the mode leave the checkpoint where it is."""
        for step in steps:
            yield partial(self._keep_position, step)

    def _keep_position(self, step: Step, conn: Connection) -> StepResult:
        return replace(step(conn), position=self.position)

    def _with_files(self, step: Step) -> Step:
        return partial(self._commit, step)

    def _commit(self, step: Step, conn: Connection) -> StepResult:
        """The step, and what it wrote in the draft. The checkpoint follows when the manifest names it."""
        self.writer.changes.clear()
        reach("before shadow")
        result = step(conn)
        if self.writer.changes:
            self._write(conn)
        self.reached = result.position
        return replace(result, position=self.position)

    def _write(self, conn: Connection) -> None:
        changes, shape, key = self.writer.changes, self.writer.shape, self.writer.shape.key
        reach("before send")
        fresh, written = self._rows(changes.fresh), self._rows(changes.written)
        gone = to_arrow(shape, Text(b"".join(changes.deleted)), key, self.schema)
        with self.store.place.reaching():
            keys = pa.concat_tables([gone, written.select([*key])])
            self._draft.change(pa.concat_tables([fresh, written]), keys)
        reach("after send")
        IndexRepo(conn, self.job.pipeline_id).advance(self.editions.current.number, 0)
        self.is_in_flight = True
        if changes.deleted:
            statements = self.writer.statements(self.writer.prepare(conn, self.job.wanted)[0])
            execute(conn, statements.bury(), [VERSION])
        changes.clear()

    def _rows(self, lines: list[bytes]) -> Any:
        shape = self.writer.shape
        return to_arrow(shape, Text(b"".join(lines)), shape.names, self.schema)

    @property
    def _draft(self) -> Draft:
        """Of the version that comes next."""
        if self.store.draft is None:
            self.store.begin(self.editions.current.index, self.epoch)
        assert self.store.draft is not None
        return self.store.draft

    @contextmanager
    def _drafting(self) -> Iterator[Drafting]:
        """For a load."""
        yield Drafting(self._draft)

    # ── once all is there ────────────────────────────────────────────────────────────────────────────────────

    def _arrive(self) -> Iterator[Step]:
        """What is built is served when the edition is closed, and what goes on from what is served, here."""
        edition = self.editions.current
        if self.store.draft:
            self.store.finish()
            if not edition.is_building:
                reach("before swap")
                self.store.serve(edition.index, self.epoch)
                reach("after swap")
        if self.is_in_flight or self.reached != self.position:
            yield self._confirm

    def _confirm(self, conn: Connection) -> StepResult:
        reach("before confirm")
        IndexRepo(conn, self.job.pipeline_id).confirm(self.editions.current.number)
        self.is_in_flight, self.position = False, self.reached
        return StepResult(Event.CONFIRMED, position=self.reached)

    def _look_at_lease(self, conn: Connection) -> StepResult:
        """The fence of this step tells whether the pipeline is still ours."""
        del conn
        return StepResult(Event.LEASE_SEEN, position=self.position, quiet=True)

    def _sweep(self) -> Iterator[Step]:
        """Found first, removed once the fence has said that until then the pipeline was ours."""
        if left := self.store.unused(self.unused_seconds):
            yield self._look_at_lease
            self.store.remove(left)
