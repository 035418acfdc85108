"""Delivering to a mart elsewhere: the steps of a mode, around which documents are sent and confirmed.

    written ahead, in the step's own fenced transaction → committed → sent under this epoch → confirmed

A step is confirmed in the transaction of a later one. What is not confirmed when a run ends, whatever ends it, is in
doubt, and the next run sends or deletes each of those documents again.
"""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from psycopg import sql

from vitrina.domain.events import Event
from vitrina.domain.positions import Position
from vitrina.domain.run import NOTHING, Counts
from vitrina.engine.job import Job, Mode, Step, StepResult, execute, fetch, rest
from vitrina.engine.stage import KeySegment
from vitrina.engine.touched import Touched
from vitrina.engine.work import Work
from vitrina.failpoints import reach
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import IndexRepo
from vitrina.sinks.documents.audit import DocumentAudit
from vitrina.sinks.documents.editions import Editions
from vitrina.sinks.documents.intrusion import alone
from vitrina.sinks.documents.mirror import Mirror
from vitrina.sinks.documents.senders import Senders
from vitrina.sinks.documents.statements import ShadowSql
from vitrina.sinks.documents.unseen import Unseen
from vitrina.sinks.documents.writer import ShadowWriter
from vitrina.stores import Batch, Store


@dataclass
class Parcel:
    """One step's batch: what is true once it has arrived."""

    version: int
    counts: Counts
    position: Position | None
    share: float  # of its work that the mode has done by then
    made_at: float = field(default_factory=time.monotonic)
    took: float = 0.0  # seconds until it had arrived

    def arrive(self, _: object) -> None:
        """Note how long it was on its way."""
        self.took = time.monotonic() - self.made_at

    @property
    def reached(self) -> Position | None:
        """The position; what a live mart says of its lag includes the way to the mart."""
        return self.position.later(self.took) if self.position else None


class Delivery(Mode):
    """A mode over a mart elsewhere. The mode itself knows of nothing but the shadow."""

    parcel: Parcel | None = None  # of the step that was just committed
    mode: Mode | None = None  # once there is something to write to
    senders: Senders[Parcel] | None = None
    settling = True  # what was in doubt at the start is not all sent again yet

    def __init__(
        self, job: Job, writer: ShadowWriter, make_mode: Callable[[Job], Mode], store: Store, epoch: int, grace: float
    ) -> None:
        self.job = job
        self.writer = writer
        self._make_mode = make_mode
        self.store = store
        self.epoch = epoch
        self.editions = Editions(store, job, writer, epoch, grace)
        self.position = job.position
        self.unseen: Unseen | None = None  # until something has arrived
        self.confirmed = 0

    def steps(self) -> Generator[Step, None, None]:
        """Get a set ready, settle what is in doubt, run the mode, and serve what was built."""
        with closing(self.store):
            yield from self._alone(self._all_steps())

    def _all_steps(self) -> Iterator[Step]:
        yield from self._keeping_position(self.editions.open())
        self.job, self.writer = self.editions.job, self.editions.writer
        senders: Senders[Parcel] = Senders(partial(self._send, self.editions.current.index), self.store.senders)
        self.senders = senders
        with closing(senders):
            if self.editions.current.in_flight or self._repairs:
                yield from self._deliver(senders, self._doubted())
                yield from self._finish(senders)
            self.settling = False
            yield from self._deliver(senders, self._mode_steps())
            self.editions.make_ready()
            yield from self._finish(senders)
        yield from self._keeping_position(self.editions.close())

    def _send(self, name: str, batch: Batch) -> None:
        reach("before send")
        self.store.write(name, batch, self.epoch)
        reach("after send")

    @property
    def is_burst(self) -> bool:
        """As the mode itself."""
        return self.mode is not None and self.mode.is_burst and not self.editions.is_new

    def wind_up(self) -> Iterator[Step]:
        """A run is interrupted between steps: what is on its way arrives and is confirmed.

        Not while documents of an earlier run are in doubt: they stay so, and the next run begins with them again.
        """
        if self.senders is not None:
            yield from self._alone(self._finish(self.senders, confirm=not self.settling))
        if self.mode is not None:
            yield from self._keeping_position(self.mode.wind_up())

    def _finish(self, senders: Senders[Parcel], *, confirm: bool = True) -> Iterator[Step]:
        self._ship(senders)
        senders.drain()
        if confirm:
            yield partial(self._confirm_all, senders.arrived())

    def _alone(self, steps: Iterator[Step]) -> Iterator[Step]:
        return alone(self.job.plan.target, steps, self._look_at_lease)

    def _mode_steps(self) -> Iterator[Step]:
        job, options = self.job, self.job.options
        beyond = None if self.editions.is_new else DocumentAudit(job, self.writer, self.store, self._await_arrival)
        options = replace(options, rebuild=False, repair=self.editions.loads_all or options.repair)
        self.mode = self._make_mode(replace(job, options=options, beyond=beyond))
        yield from self.mode.steps()

    def _await_arrival(self) -> None:
        assert self.senders is not None
        self.senders.drain()

    def _keeping_position(self, steps: Iterator[Step]) -> Iterator[Step]:
        """Steps around the mode leave the checkpoint where it is."""
        for step in steps:
            yield partial(self._keep_position, step)

    def _keep_position(self, step: Step, conn: Connection) -> StepResult:
        return replace(step(conn), position=self.position)

    # ── one step after the other ─────────────────────────────────────────────────────────────────────────────

    def _deliver(self, senders: Senders[Parcel], steps: Iterator[Step]) -> Iterator[Step]:
        for step in steps:
            if step is rest:
                yield from self._rest(senders)
                continue
            senders.wait_for_room()
            yield partial(self._with_confirmation, step, senders.arrived())
            self._ship(senders)
            yield from self._keeping_position(self.editions.bind())

    def _with_confirmation(self, step: Step, parcels: list[Parcel], conn: Connection) -> StepResult:
        """Confirm what has arrived, then do the step; what it writes ahead counts once that has arrived too."""
        arrived = self._confirm(conn, parcels)
        reach("before shadow")
        version = IndexRepo(conn, self.job.pipeline_id).advance(self._number, self.confirmed)
        self.writer.outbox.begin(version)
        result = step(conn)
        sent = Counts(written=result.counts.written, deleted=result.counts.deleted)
        self.parcel = Parcel(version, sent, result.position, result.share)
        counts = replace(result.counts, written=arrived.written, deleted=arrived.deleted)
        return replace(result, counts=counts, position=self.position)

    def _rest(self, senders: Senders[Parcel]) -> Iterator[Step]:
        """Whoever rests has arrived with everything, and says so."""
        if senders.is_busy:
            yield from self._finish(senders)
        yield rest
        if self.job.stay:
            self.position = self.job.stay.forward(self.position)

    def _ship(self, senders: Senders[Parcel]) -> None:
        """After the commit: send what the step wrote ahead; a step that wrote nothing has arrived with its turn.

        A delete waits for all before it: a document sent again after its delete, to a server that has been restarted
        meanwhile and so forgot the version of the delete, would rise from the dead.
        """
        parcel, self.parcel = self.parcel, None
        if parcel is None:
            return
        if parcel.counts.deleted:
            senders.drain()
        batch = self.writer.outbox.take()
        if batch:
            self.editions.await_created()
        senders.submit(batch, parcel).add_done_callback(parcel.arrive)
        self.editions.has_come_to(parcel.share)

    def _confirm(self, conn: Connection, parcels: list[Parcel]) -> Counts:
        """While older documents are in doubt no version is confirmed: theirs are below it, and would be forgotten."""
        total = NOTHING
        for parcel in parcels:
            total += parcel.counts
            self.position = self._unseen(conn).note(parcel.reached, parcel.took, sent=parcel.counts != NOTHING)
            self.confirmed = self.confirmed if self.settling else parcel.version
        if total.deleted and not self.settling:
            execute(conn, self._statements(conn).bury(), [self.confirmed])
        return total

    def _unseen(self, conn: Connection) -> Unseen:
        if self.unseen is None:
            now = fetch(conn, sql.SQL("SELECT clock_timestamp() AS now"))["now"]
            self.unseen = Unseen.of(self.store.seen_after, self.job.position, now)
        return self.unseen

    def _confirm_all(self, parcels: list[Parcel], conn: Connection) -> StepResult:
        reach("before confirm")
        arrived = self._confirm(conn, parcels)
        self.confirmed = IndexRepo(conn, self.job.pipeline_id).confirm(self._number)
        execute(conn, self._statements(conn).bury(), [self.confirmed])
        return StepResult(Event.CONFIRMED, arrived, self.position, quiet=self.job.stay is not None)

    # ── what may not have arrived ────────────────────────────────────────────────────────────────────────────

    def _doubted(self) -> Iterator[Step]:
        """Documents that an earlier run wrote ahead and did not confirm: sent or deleted again, whichever is right.

        A repair looks at the mart itself first: versions that somebody has raised would be in the way.
        """
        if self._repairs:
            yield from Mirror(self.job, self.writer, self.store).steps()
        yield self._doubt
        for start, end in self.job.slices(0, self.in_doubt):
            yield partial(self._send_again, start, end)

    def _doubt(self, conn: Connection) -> StepResult:
        self.work = Work.prepare(self.job, conn)
        self.keys: KeySegment = self.work.new_keys()
        self.keys.create(conn)
        statements, confirmed = self._statements(conn), self.editions.current.confirmed
        execute(conn, statements.doubt(), [confirmed])
        execute(conn, statements.keep_doubted(self.keys), [confirmed])
        self.in_doubt = self.keys.finish(conn)
        fields = {"documents": self.in_doubt}
        return StepResult(Event.DOUBT_FOUND, position=self.job.position, fields=fields)

    def _send_again(self, start: int, end: int, conn: Connection) -> StepResult:
        counts = Touched(self.work).converge_slice(self.keys, start, end, conn)
        fields = {"done": end, "of": self.in_doubt}
        return StepResult(Event.SENT_AGAIN, counts, self.job.position, fields, is_batch=True)

    # ── somebody else ────────────────────────────────────────────────────────────────────────────────────────

    def _look_at_lease(self, conn: Connection) -> StepResult:
        """The fence of this step tells whether the pipeline is still ours."""
        del conn
        return StepResult(Event.LEASE_SEEN, position=self.position)

    @property
    def _repairs(self) -> bool:
        return self.job.options.repair and not self.editions.is_new

    @property
    def _number(self) -> int:
        return self.editions.current.number

    def _statements(self, conn: Connection) -> ShadowSql:
        return self.writer.statements(self.writer.prepare(conn, self.job.wanted)[0])
