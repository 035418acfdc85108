"""Which set of documents a run writes: the one that is served, or a new one that takes its place when it is whole."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import ParamSpec, TypeVar
from uuid import uuid4

from vitrina.domain.drift import Drift
from vitrina.domain.errors import ConfigError, FatalError, RetryableError
from vitrina.domain.events import Event
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.policy import split_prefix
from vitrina.engine.job import Job, Step, StepDown, StepResult, fetch
from vitrina.engine.work import Work
from vitrina.failpoints import reach
from vitrina.log import log
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import Edition, IndexRepo
from vitrina.sinks.documents.shadow import create_shadow
from vitrina.sinks.documents.tidying import forget, is_made_by, remove
from vitrina.sinks.documents.writer import ShadowWriter
from vitrina.stores import Field, Mark, Store

MOST = 0.9
LOST = "a run that was lost had begun it"
P = ParamSpec("P")
T = TypeVar("T")


class Editions:
    """Opens a edition before a run's work and closes it after."""

    def __init__(self, store: Store, job: Job, writer: ShadowWriter, epoch: int, grace: float) -> None:
        self.store = store
        self.epoch = epoch
        self.grace = grace  # seconds that a retired set is kept
        self.job = job
        _, self.mart = split_prefix(job.plan.target)  # the name that people know it by
        self.writer = writer
        self.shape = writer.shape
        self.current: Edition
        self.creating: Future[str] | None = None  # its uuid, until somebody has asked for it
        self.uuid: str | None = None  # of what was created, until it is written down
        self.ready: Future[None]
        self.is_new = False
        self.is_written_out = False
        self.known: list[Edition] = []

    @property
    def live(self) -> Edition | None:
        """The one that is served meanwhile."""
        return next((edition for edition in self.known if edition.state == "live"), None)

    @property
    def loads_all(self) -> bool:
        """Whether the run has to look at everything, whatever the checkpoint says: it is that of another edition."""
        is_behind = self.current.is_building or bool(self.abandoned)
        return is_behind and self.job.plan.mode != "full" and self.job.position is not None

    @property
    def abandoned(self) -> list[Edition]:
        """What was begun and is not gone on with, while the one that is served is; until that has been compared."""
        return [] if self.is_new else [e for e in self.known if e.is_building and e.number != self.current.number]

    def open(self) -> Iterator[Step]:
        """Choose, and take the right to write; a new one is created beside what follows. The job then writes there."""
        yield self._look
        chosen, why = self._choose()
        if self.job.stay and (chosen is None or any(edition.is_building for edition in self.known)):
            raise StepDown(why or "a new index has to be served, or was begun")
        if chosen is None:
            yield from self._begin(why)
        else:
            self.current = chosen
            self.store.take(chosen.index, self.epoch)
        self.writer = self.writer.into(self.current)
        self.job = replace(self.job, writer=self.writer)
        if guess := self.job.reader.estimate(self.job.plan.select):
            self.writer.outbox.expect(guess.width)

    def await_created(self) -> None:
        """Before anything is sent: a new one is there, and what earlier epochs send is refused."""
        if self.creating is None:
            return
        self.uuid, self.creating = self.creating.result(), None
        reach("index created")
        self.store.take(self.current.index, self.epoch)

    def bind(self) -> Iterator[Step]:
        """Write down what was created. A run that is lost before leaves a edition that nobody goes on with."""
        if self.uuid is not None:
            yield partial(self._created, self.uuid)

    def has_come_to(self, share: float) -> None:
        """When most of it is sent, the store is told so: what it does then, it does beside the rest, not after it."""
        if self.current.is_building and share >= MOST and not self.is_written_out:
            self.is_written_out = True
            _aside(self.store.write_out, self.current.index)

    def make_ready(self) -> None:
        """The last documents of a new set are on their way: what else it needs is begun beside them."""
        self.await_created()
        if self.current.is_building:
            self.ready = _aside(self.store.make_ready, self.current.index)

    def close(self) -> Iterator[Step]:
        """Serve what was built, and remove what has been retired for long enough."""
        yield from self.bind()
        if self.current.is_building:
            self.ready.result()
            yield self._verify
            if self.missing:
                yield self._give_up
                raise FatalError(self.missing, "keep others out of it, and run again")
            reach("before swap")
            self.store.serve(self.current.index, self.epoch)
            reach("after swap")
            yield self._publish
        elif self.abandoned:
            yield self._abandon
        yield self._find_expired
        for edition in self.expired:
            remove(self.store, edition)
            yield partial(self._forget, edition)

    # ── choosing ─────────────────────────────────────────────────────────────────────────────────────────────

    def _look(self, conn: Connection) -> StepResult:
        """Drift is refused in this very transaction: one that is committed has the new columns for the old ones."""
        self.known = IndexRepo(conn, self.job.pipeline_id).all()
        self._check_drift()
        return StepResult(Event.INDEX_SOUGHT, position=self.job.position)

    def _choose(self) -> tuple[Edition | None, str]:
        """The edition to go on with, or why there has to be a new one."""
        served = self.store.served()
        self._refuse_foreign(served)
        building = next((g for g in self.known if g.is_building), None)
        live = self.live
        if building and not self._why_not(building):
            return building, ""
        if live is None:
            return None, "there is none yet"
        if self.job.options.rebuild:
            return None, "a rebuild was asked for"
        why = self._why_not(live)
        if not why and live.index not in served:
            why = f"{self.mart} no longer points to {live.index}"
        return (None, why) if why else (live, "")

    def _why_not(self, edition: Edition) -> str:
        if edition.target != self.job.plan.target:
            return "the target has another name"
        if edition.shape != self.shape.fingerprint:
            return "mapping, settings or key have changed"
        if edition.uuid is None:
            return "it was never created"
        found = self.store.mark(edition.index)
        if found is None:
            return f"index {edition.index} is gone"
        return "" if found.id == edition.uuid else f"index {edition.index} was created anew by somebody else"

    def _refuse_foreign(self, served: Mapping[str, Mark]) -> None:
        ours = {edition.index for edition in self.known}
        foreign = [name for name, mark in served.items() if name not in ours and not self._is_ours(mark)]
        if not foreign:
            return
        if not self.job.plan.adopt:
            if self.mart in foreign:
                raise ConfigError.of(MartRefusal.NOT_OUR_INDEX, mart=self.mart)
            raise ConfigError.of(MartRefusal.NOT_OUR_ALIAS, mart=self.mart, indexes=foreign)
        log.warning("adopting", target=self.job.plan.target, replaces=foreign, note="whole documents are replaced")

    def _check_drift(self) -> None:
        """A new edition because of other columns needs somebody's word: `--rebuild`, or `on_drift: add`."""
        fits = self.live is None or self.live.shape == self.shape.fingerprint
        drift = Drift.between(self.job.written_before, {c.name: c.type for c in self.shape.columns})
        if not fits and not self.job.options.rebuild and drift.is_refused(self.job.plan.on_drift):
            raise ConfigError.of(
                MartRefusal.DRIFTED, target=self.job.plan.target, reason=drift.because, way=drift.therefore
            )

    # ── creating ─────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, why: str) -> Iterator[Step]:
        """Written down first, then created: a run that is lost between the two leaves nothing unknown.

        It is not waited for. A name that somebody else uses is passed over.
        """
        number = max((edition.number for edition in self.known), default=0) + 1
        while (found := self.store.mark(self._name(number))) and not self._is_ours(found):
            number += 1
        yield partial(self._add, number, why)
        self.creating = _aside(self._create)
        self.is_new = True

    def _create(self) -> str:
        """What tells the new one from any other of its name."""
        fields = [Field(column.name, column.type) for column in self.shape.columns]
        mark = Mark(str(self.job.pipeline_id), uuid4().hex)
        self.store.create(self.current.index, mark, fields, self.epoch)
        made = self.store.mark(self.current.index)
        if made is None:
            raise RetryableError(f"index {self.current.index} is gone as soon as it was created")
        return made.id

    def _is_ours(self, mark: Mark) -> bool:
        return is_made_by(mark, self.job.pipeline_id)

    def _name(self, number: int) -> str:
        return f"{self.mart}-{number:06d}"

    def _add(self, number: int, why: str, conn: Connection) -> StepResult:
        repo = IndexRepo(conn, self.job.pipeline_id)
        repo.give_up_building()
        name = self._name(number)
        repo.add(number, self.job.plan.target, name, self.shape.fingerprint, self.shape.key)
        self.current = repo.all()[0]
        create_shadow(conn, self.current, self.writer.key_columns)
        return StepResult(Event.INDEX_BEGUN, position=self.job.position, fields={"index": name, "why": why})

    def _created(self, uuid: str, conn: Connection) -> StepResult:
        repo = IndexRepo(conn, self.job.pipeline_id)
        repo.created(self.current.number, uuid)
        self.current = repo.all()[0]
        self.uuid = None
        return StepResult(Event.INDEX_CREATED, position=self.job.position, fields={"index": self.current.index})

    # ── serving ──────────────────────────────────────────────────────────────────────────────────────────────

    def _verify(self, conn: Connection) -> StepResult:
        """Before anybody sees it: as many documents as there should be, and not many fewer than are served now."""
        index = self.current.index
        with ThreadPoolExecutor(1, "counting") as aside:
            counting = aside.submit(self.store.count, index)
            expected = self._guard_deletes(conn, Work.prepare(self.job, conn))
            found = counting.result()
        wrong = f"index {index} has {found:,} documents instead of {expected:,}; {self.mart} was left alone"
        self.missing = wrong if found != expected else ""
        return StepResult(Event.INDEX_VERIFIED, fields={"documents": found, "expected": expected})

    def _guard_deletes(self, conn: Connection, work: Work) -> int:
        """What is served and would no longer be is a delete like any other; gives how many documents there will be."""
        statements = self.writer.statements(work.mart)
        expected: int = fetch(conn, statements.count_documents())["rows"]
        if self.live is None:
            return expected
        served = self.writer.statements(replace(work.mart, table=self.live.shadow))
        before = fetch(conn, served.count_documents())["rows"]
        same_key = self.live.key == self.current.key
        gone = fetch(conn, served.count_not_in(statements))["rows"] if same_key else max(0, before - expected)
        work.guard_deletes(gone, before, expected, f"{self.mart} still serves {self.live.index}")
        return expected

    def _give_up(self, conn: Connection) -> StepResult:
        """Another run builds another one."""
        IndexRepo(conn, self.job.pipeline_id).give_up_building()
        return StepResult(Event.INDEX_GIVEN_UP, fields={"index": self.current.index, "why": self.missing})

    def _abandon(self, conn: Connection) -> StepResult:
        """Not before what is served has been compared: until then a run that is lost leaves the next one to do it."""
        IndexRepo(conn, self.job.pipeline_id).give_up_building()
        begun = ", ".join(edition.index for edition in self.abandoned)
        return StepResult(Event.INDEX_GIVEN_UP, fields={"index": begun, "why": LOST})

    def _publish(self, conn: Connection) -> StepResult:
        IndexRepo(conn, self.job.pipeline_id).publish(self.current.number)
        return StepResult(Event.INDEX_SERVED, fields={"alias": self.mart, "index": self.current.index})

    def _find_expired(self, conn: Connection) -> StepResult:
        self.expired = IndexRepo(conn, self.job.pipeline_id).expired(self.grace)
        return StepResult(Event.FINISHED)

    def _forget(self, edition: Edition, conn: Connection) -> StepResult:
        forget(conn, edition)
        return StepResult(Event.INDEX_REMOVED, fields={"index": edition.index})


def _aside(call: Callable[P, T], *args: P.args, **named: P.kwargs) -> "Future[T]":
    """In a thread of its own."""
    pool = ThreadPoolExecutor(1, "aside")
    future = pool.submit(call, *args, **named)
    pool.shutdown(wait=False)
    return future
