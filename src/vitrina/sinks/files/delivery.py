"""Files around a mode: what its steps wrote is a draft until all of it is there; then the manifest is switched.

    shadow, in the step's own fenced transaction → files of a draft → the manifest, by one conditional write → confirmed

What is not confirmed when a run begins is in doubt: the next one looks at the files that the manifest names.
"""

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from vitrina.domain.events import Event
from vitrina.engine.job import Job, Step, StepResult
from vitrina.failpoints import reach
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import IndexRepo
from vitrina.sinks.documents.intrusion import alone
from vitrina.sinks.files.draft import Draft, Drafting, schema_of
from vitrina.sinks.files.editions import FilesEditions
from vitrina.sinks.files.store import FilesStore
from vitrina.sinks.parquet.delivery import Make, RowDelivery
from vitrina.sinks.parquet.loading import RowLoader
from vitrina.sinks.parquet.writer import RowWriter


class FilesDelivery(RowDelivery):
    """What steps write goes into a draft."""

    is_in_flight = False  # something is committed that the manifest does not name

    def __init__(self, job: Job, writer: RowWriter, make: Make, store: FilesStore, epoch: int, unused: float) -> None:
        super().__init__(job, writer, make, store, FilesEditions(store, job, writer, epoch, store.grace))
        self.store = store
        self.epoch = epoch
        self.unused_seconds = unused
        self.reached = job.position
        self.schema = schema_of(writer.shape)

    def steps(self) -> Generator[Step, None, None]:
        """Get an edition ready, run the mode, switch the manifest, and remove what it no longer names."""
        with closing(self.store):
            yield from alone(self.job.plan.target, self._all_steps(), self._look_at_lease)

    def _all_steps(self) -> Iterator[Step]:
        yield from self._keeping_position(self._open_files())
        yield from map(self._with_files, self._mode_steps(self.job))
        yield from self._arrive()
        self.editions.make_ready()
        yield from self._keeping_position(self.editions.close())
        yield from self._sweep()

    def _open_files(self) -> Iterator[Step]:
        yield from self._open()
        self.is_in_flight = self.editions.current.in_flight
        yield from self._look()

    @property
    def _types(self) -> Any:
        return self.schema

    @property
    def _is_in_doubt(self) -> bool:
        """What the last run wrote may not be in the files."""
        return self.editions.current.in_flight

    def _loader(self, writer: RowWriter) -> RowLoader:
        return RowLoader(writer, self.schema, self._drafting, self.store.place.reaching)

    def wind_up(self) -> Iterator[Step]:
        """What was committed is in the files that are served, or in those that are gone on with."""
        if self.mode is not None:
            yield from map(self._with_files, self.mode.wind_up())
            yield from alone(self.job.plan.target, self._arrive(), self._look_at_lease)

    # ── one step ─────────────────────────────────────────────────────────────────────────────────────────────

    def _with_files(self, step: Step) -> Step:
        return partial(self._commit, step)

    def _commit(self, step: Step, conn: Connection) -> StepResult:
        """The step, and what it wrote in the draft. The checkpoint follows when the manifest names it."""
        result = self._stepped(step, conn)
        self.reached = result.position
        return replace(result, position=self.position)

    def _write(self, rows: Any, keys: Any, conn: Connection) -> None:
        with self.store.place.reaching():
            self._draft.change(rows, keys)
        reach("after send")
        IndexRepo(conn, self.job.pipeline_id).advance(self.editions.current.number, 0)
        self.is_in_flight = True

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
