"""A mart that an engine keeps by itself: it compares the query with the table, and writes, part by part, what differs.

    a row of work → what differs, as files → the engine's commit on that row → pointer and checkpoint, under the fence

No row comes here. What the engine commits is nobody's until the pointer moves, in the transaction of the checkpoint: so
a run that is lost, or was taken over, leaves files that nothing points to.
"""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from vitrina.domain.errors import ConfigError, FatalError
from vitrina.domain.events import Event
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.positions import FullPosition
from vitrina.domain.run import Counts
from vitrina.domain.wording import Data, Json
from vitrina.engine.job import Found, Job, Mode, Step, StepResult, finding
from vitrina.engine.reading import How
from vitrina.engine.work import Work
from vitrina.failpoints import reach
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import Edition
from vitrina.sinks.documents.editions import Editions
from vitrina.sinks.lake import catalogue
from vitrina.sinks.lake.delivery import swept
from vitrina.sinks.lake.editions import LakeEditions
from vitrina.sinks.lake.iceberg import LakeTable
from vitrina.sinks.lake.store import LakeStore
from vitrina.sinks.lake.work import SPACE, LakeWork
from vitrina.sinks.parquet.writer import RowWriter
from vitrina.sources.engine import UPSERTS, WRONG, Differs, Engine, Errand, Kept, Tally

MOST_PARTS = 256
NAMED = 5


@dataclass(frozen=True)
class Differing:
    """What an engine found."""

    tallies: Sequence[Tally]

    def rows(self, *ways: Differs) -> int:
        """How many keys differ so."""
        return sum(tally.rows for tally in self.tallies if tally.how in ways)

    @property
    def parts(self) -> dict[int, "Differing"]:
        """By part."""
        numbers = dict.fromkeys(tally.part for tally in self.tallies)
        return {number: Differing([tally for tally in self.tallies if tally.part == number]) for number in numbers}

    @property
    def ways(self) -> Collection[Differs]:
        """All there are."""
        return {tally.how for tally in self.tallies}


class InsideEditions(LakeEditions):
    """Tables whose shadow nobody looks at: what they hold is told by themselves."""

    expected = 0

    def _why_not(self, edition: Edition) -> str:
        return Editions._why_not(self, edition)

    def _guard_deletes(self, conn: Connection, work: Work) -> int:
        del conn
        if self.live is not None and (served := self.store.table(self.live.index)) is not None:
            before = served.count()
            gone = max(0, before - self.expected)
            work.guard_deletes(gone, before, self.expected, f"{self.mart} still serves {self.live.index}")
        return self.expected


class LakeInside(Mode):
    """Mode `full`, of an engine over the lake."""

    follows_lost = False  # a run before it has come to no end

    def __init__(self, job: Job, writer: RowWriter, store: LakeStore, epoch: int, grace: float) -> None:
        if job.checks:
            raise ConfigError.of(MartRefusal.CHECKS_IN_ENGINE)
        self.job = job
        self.store = store
        self.editions = InsideEditions(store, job, writer, epoch, grace)
        self.work = LakeWork(job.pipeline_id, epoch)

    def steps(self) -> Generator[Step, None, None]:
        """Get a table ready, find, converge part by part, serve what was built."""
        with closing(self.store), closing(self.job.reader.engine(self._errand)) as engine:
            yield from self._open()
            yield from self._ready(engine)
            found = yield from finding(partial(self._find, engine))
            yield from self._converged(engine, found)
            if found.tallies:
                yield self._forget
            self.editions.make_ready()
            yield from self.editions.close()
            yield self._end
            if found.tallies or self.follows_lost:
                yield from swept(self.store, self.editions.table, self.job)

    @property
    def _errand(self) -> Errand:
        return Errand(self.job.name, self.job.check, self._say, self.job.settings.engine_seconds)

    def _say(self, fields: Mapping[str, Json]) -> None:
        self.job.say(Event.ENGINE_WORKS, **fields)

    # ── a table to write to ──────────────────────────────────────────────────────────────────────────────────

    def _open(self) -> Iterator[Step]:
        yield from self.editions.open()
        self.job = self.editions.job
        self.editions.await_created()
        yield from self.editions.bind()
        yield self._begin

    def _begin(self, conn: Connection) -> StepResult:
        """From the table as it is now: whoever worked on it before works for nobody."""
        self.follows_lost = self.work.begin(conn, self.editions.table.location)
        return StepResult(Event.ENGINE_BEGUN, fields={"read": How.INSIDE})

    def _ready(self, engine: Engine) -> Iterator[Step]:
        """A table that the pipeline divides itself is written in its parts, or as one."""
        is_ours = self.editions.is_new and not self.job.plan.partition_by
        guess = self.job.reader.estimate(self.job.plan.select) if is_ours else None
        rows = int(min(guess.rows, 1e12)) if guess else 0
        parts = min(MOST_PARTS, -(-rows // self.job.settings.engine_part_rows))
        if parts > 1:
            yield partial(self._divide, engine, parts)

    def _divide(self, engine: Engine, parts: int, conn: Connection) -> StepResult:
        engine.divide(self._kept, parts)
        self._adopt(conn)
        return StepResult(Event.MART_READY, fields={"target": self.job.plan.target, "parts": parts})

    # ── finding ──────────────────────────────────────────────────────────────────────────────────────────────

    def _find(self, engine: Engine, conn: Connection) -> Found[Differing]:
        """Compared once; checked before anything is written."""
        found = Differing(engine.find(self.job.plan.select, self._kept))
        before, work = self.editions.table.count(), Work.prepare(self.job, conn)
        self._check(engine, found, work)
        gone, missing = found.rows(Differs.GONE), found.rows(Differs.MISSING)
        read = before - gone + missing
        work.guard_deletes(gone, before, read)
        different = found.rows(Differs.DIFFERENT, Differs.REPEATED)
        unchanged = before - different - gone
        self.editions.expected = read
        fields: Data = {
            "missing": missing,
            "different": different,
            "gone": gone,
            "unchanged": unchanged,
            "read": How.INSIDE,
        }
        return StepResult(Event.COMPARED, Counts(read, unchanged=unchanged), FullPosition("converge"), fields), found

    def _check(self, engine: Engine, found: Differing, work: Work) -> None:
        for how in WRONG:
            if found.rows(how):
                named = engine.named(self._kept, how, NAMED)
                if how == Differs.TWICE:
                    work.refuse_duplicates([*named])
                raise ConfigError(f"the query gives a row with NULL in its key: {named[0]}", "filter it out")
        most, differ = self.job.settings.engine_most_rows, found.rows(*UPSERTS, Differs.GONE)
        if most is not None and differ > most:
            raise FatalError(
                f"{differ:,} rows differ, and one run writes {most:,} at most; none was written",
                "raise VITRINA_ENGINE_MOST_ROWS, or look at the source",
            )

    # ── converging ───────────────────────────────────────────────────────────────────────────────────────────

    def _converged(self, engine: Engine, found: Differing) -> Iterator[Step]:
        of, done = found.rows(*UPSERTS, Differs.GONE), 0
        for number, part in found.parts.items():
            done += part.rows(*UPSERTS, Differs.GONE)
            yield partial(self._converge, engine, number, part, done, of)

    def _converge(
        self, engine: Engine, number: int, part: Differing, done: int, of: int, conn: Connection
    ) -> StepResult:
        """The engine commits where nobody looks; then the pointer moves, in this very transaction."""
        reach("before send")
        engine.converge(self._kept, number, part.ways)
        reach("after send")
        self._adopt(conn)
        counts = Counts(written=part.rows(*UPSERTS), deleted=part.rows(Differs.GONE))
        position = FullPosition("converge", done, of)
        return StepResult(
            Event.ENGINE_WRITTEN, counts, position, {"done": done, "of": of, "part": number}, is_batch=True
        )

    def _adopt(self, conn: Connection) -> None:
        old, new = self.editions.table.location, self.work.location(conn)
        catalogue.move(conn, self.editions.pointer, old, new)
        with self.store.place.reaching():
            self.store.tables[self.editions.current.index] = LakeTable.open(self.store.place.files, new)

    def _forget(self, conn: Connection) -> StepResult:
        """Snapshots that nobody reads any more; one is left for each part that was written."""
        old = self.editions.table.location
        with self.store.place.reaching():
            new = self.editions.table.forget(self.editions.keep_seconds)
        if new:
            catalogue.move(conn, self.editions.pointer, old, new)
        return StepResult(Event.FINISHED, quiet=True)

    def _end(self, conn: Connection) -> StepResult:
        self.work.end(conn)
        with self.store.place.reaching():
            self.store.place.files.remove(self._kept.folder)
        return StepResult(Event.FINISHED, quiet=True)

    @property
    def _kept(self) -> Kept:
        shape, table = self.editions.shape, self.editions.table
        kept = Kept(
            f"{SPACE}.{self.work.table}",
            f"{SPACE}.{self.work.found}",
            f"{table.folder}/found-{self.editions.epoch}",
            [column.name for column in shape.columns],
            shape.key,
        )
        return replace(kept, parts=max(table.buckets(name) for name in shape.key))
