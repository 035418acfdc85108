"""Loading an empty mart: plain ordered inserts, by key range from the query, at once, or by number from the stage."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from vitrina.domain.errors import ConfigError, RetryableError, VitrinaError
from vitrina.domain.events import Event
from vitrina.domain.positions import FullPosition
from vitrina.domain.reasons import Reason
from vitrina.domain.run import Counts
from vitrina.domain.wording import Because, Data
from vitrina.engine.comparison import Comparison
from vitrina.engine.filling import copy_across
from vitrina.engine.job import Found, Job, Step, StepResult, execute, finding
from vitrina.engine.keyless import without_key
from vitrina.engine.query import QueryText, reader_scope
from vitrina.engine.reading import How, Reading, whole_load
from vitrina.engine.stage import KeySegment
from vitrina.engine.work import NO_NULLS, ONCE, Work
from vitrina.meta.db import Connection

MANY, MOST = 9, 200  # batches: fewer may pay in any case, more are no dearer together than so many of half a per cent
CHEAP = 10_000.0  # what costs the planner less may as well be computed once more


@dataclass(frozen=True)
class Ranges:
    """Where the batches of a load end, as text; an open end is NULL."""

    query: QueryText
    ends: list[list[str | None]]
    _texts: dict[tuple[bool, bool], sql.SQL] = field(default_factory=dict)  # all but two batches have the same

    @classmethod
    def between(cls, query: QueryText, bounds: list[list[str | None]]) -> "Ranges":
        """With open ends."""
        open_end: list[str | None] = [None] * len(query.key)
        return cls(query, [open_end, *bounds, open_end])

    def __len__(self) -> int:
        return len(self.ends) - 1

    def batch(self, number: int) -> tuple[sql.SQL, list[str | None]]:
        """The query of a batch, and both its ends."""
        which = (number > 0, number < len(self) - 1)
        if which not in self._texts:
            query = self.query.by_range(lower=which[0], upper=which[1])
            self._texts[which] = sql.SQL(query.as_string(None))
        return self._texts[which], self.ends[number] + self.ends[number + 1]


@dataclass(frozen=True)
class Load:
    """The steps of a load."""

    work: Work

    @property
    def job(self) -> Job:
        """Of the run."""
        return self.work.job

    def steps(self, why_whole: Because | None = None) -> Generator[Step, None, None]:
        """By key range. Where everything has to be read at once, it goes straight into the mart, or into a stage first.

        An empty mart has nothing to lose: what is interrupted starts again, as filling a stage would.
        """
        if why_whole:
            yield from self._whole(whole_load(self.work, why_whole), is_costly=False)
            return
        if self.work.streams:
            yield self._stream
            return
        ranges, reading = yield from finding(self._find_bounds)
        if ranges:
            yield from self._ranges(ranges, self.job.batch_size)
        else:
            yield from self._whole(reading, is_costly=True)

    def _whole(self, reading: Reading, *, is_costly: bool) -> Generator[Step, None, None]:
        if reading.how is How.AT_ONCE:
            yield partial(self._load_all, reading.why, is_costly=is_costly)
        else:
            staged = yield from finding(partial(self.work.fill, why=reading.why))
            yield from Load(staged)._slices(staged.staged_rows or 0)

    def _slices(self, rows: int) -> Iterator[Step]:
        atomic = self.job.plan.publish == "atomic"
        for start, end in [(0, rows)] * bool(rows) if atomic else self.job.slices(0, rows):
            yield partial(self.load_slice, start, end)

    def _ranges(self, ranges: Ranges, size: int) -> Iterator[Step]:
        """The bounds are of one size; when another is asked for meanwhile, the rest is found by comparing."""
        for number in range(len(ranges)):
            if self.job.batch_size != size:
                yield from Comparison(self.work).steps()
                return
            yield partial(self._load_range, ranges, number)

    def _find_bounds(self, conn: Connection) -> Found[tuple[Ranges | None, Reading]]:
        """Unless ranges are costly wherever they end: to find the ends of an aggregate's is to compute it once more."""
        if why := self._why_never():
            reading = whole_load(self.work, why, is_costly=True)
            said = StepResult(Event.LOAD_FOUND, position=FullPosition("load"), fields={"read": reading.how})
            return said, (None, reading)
        columns = {c.name: c for c in self.job.columns}
        found = KeySegment(self.job.pipeline_id, tuple(columns[name] for name in self.work.mart.key))
        found.create(conn)
        copy_across(self.job.reader, self.work.query.bounds(self.job.rows_at_once), found, conn)
        self.work.refuse_null_keys(conn, found.identifier)
        ranges = Ranges.between(self.work.query, self._in_order(found, conn))
        reading = self._read_how(ranges)
        fields: Data = {"batches": len(ranges), "read": reading.how}
        found_ranges = ranges if reading.how is How.BY_RANGE else None
        return StepResult(Event.LOAD_FOUND, position=FullPosition("load"), fields=fields), (found_ranges, reading)

    def _why_never(self) -> Because | None:
        """Why no range would pay, whatever its ends: so many of half a per cent are all that there is."""
        cost, rows = self.job.reader.cost(self.work.query.whole())
        batches = -(-int(rows) // self.job.rows_at_once)
        if batches < MANY or cost < CHEAP:
            return None
        query = self.work.query.with_unknown_args().by_range(lower=True, upper=True)
        why = self.work.why_costly(query, [], min(batches, MOST))
        return why and Reason.KEY_NOT_PUSHED.of(**{**why.data, "batches": batches})

    def _in_order(self, found: KeySegment, conn: Connection) -> list[list[str | None]]:
        """Bounds as text."""
        names = sql.SQL(", ").join(sql.SQL("{}::text").format(c.identifier) for c in found.columns)
        text = sql.SQL("SELECT ARRAY[{}] AS bound FROM {} ORDER BY vitrina_n").format(names, found.identifier)
        return [row["bound"] for row in execute(conn, text)]

    def foretell(self) -> Reading:
        """How it will be read, by the same bounds; nothing is written."""
        if self.work.streams:
            return Reading(How.AT_ONCE)
        if why := self._why_never():
            return whole_load(self.work, why, is_costly=True)
        bounds = self.job.reader.fetch(self.work.query.bounds_as_text(self.job.rows_at_once))
        return self._read_how(Ranges.between(self.work.query, [row["bound"] for row in bounds]))

    def _read_how(self, ranges: Ranges) -> Reading:
        """Judged by a batch in the middle."""
        query, args = ranges.batch((len(ranges) - 1) // 2)
        why = self.work.why_costly(query, args, len(ranges)) if len(ranges) > 1 else None
        return whole_load(self.work, why, is_costly=True) if why else Reading(How.BY_RANGE)

    def _load_range(self, ranges: Ranges, number: int, conn: Connection) -> StepResult:
        query, ends = ranges.batch(number)
        scope = reader_scope(self.job.columns, sql.SQL("$1::text[]"), "$2")
        with self._explained():
            rows = self._insert(conn, scope, self.work.key_columns("t"), [ends, query.as_string(None)])
        return self._loaded(Counts(read=rows, written=rows), number + 1, len(ranges))

    def _stream(self, conn: Connection) -> StepResult:
        """Everything that the query gives, as it comes."""
        loader = self.job.writer.loader
        assert loader is not None
        with self._explained():
            rows = loader.load(self.job.reader, self.work.query, self.work.mart, conn, self.job.check)
        counts = Counts(read=rows, written=rows)
        return StepResult(Event.LOADED, counts, FullPosition("load", rows, rows), is_batch=True)

    def _load_all(self, why: str | None, conn: Connection, *, is_costly: bool) -> StepResult:
        """Everything that the query gives: inside Postgres if ranges would be costly there, else through here."""
        with self._explained():
            read, written = self._insert_all(conn) if is_costly else self.work.pour(self.work.mart, conn)
        self.work.refuse_null_keys(conn, self.work.mart.identifier)
        self.work.check_all(conn)
        counts, fields = Counts(read=read, written=written), {"why": why}
        return StepResult(Event.LOADED, counts, FullPosition("load"), fields, is_batch=True)

    def _insert_all(self, conn: Connection) -> tuple[int, int]:
        """In one statement, with the memory of a comparison."""
        conn.execute("SELECT set_config('work_mem', %s, true)", [self.job.settings.find_work_mem])
        scope = reader_scope(self.job.columns, sql.SQL("'{}'::text[]"), "$1")
        whole = [self.work.query.whole().as_string(conn)]
        with without_key(conn, self.work.mart):
            row = self.work.apply(conn, self.work.untold.insert(scope, self.work.key_columns("t")), whole)
        rows = int(row["written"])
        return rows, rows

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """A row that does not fit is named."""
        try:
            yield
        except (psycopg.IntegrityError, VitrinaError) as error:
            fault = self._fault(error)
            if fault is error:
                raise  # with its own cause, which tells what it was
            raise fault from error

    def _fault(self, error: Exception) -> Exception:
        """What is wrong with a row, if that is what it was."""
        cause = error if isinstance(error, psycopg.Error) else error.__cause__
        if isinstance(cause, psycopg.errors.UniqueViolation):
            return self._conflict(cause)
        if isinstance(cause, psycopg.errors.NotNullViolation) and cause.diag.column_name in self.work.mart.key:
            self.work.refuse_nulls(self.work.mart.key, "key")
            return ConfigError(f"a key is NULL: {cause.diag.message_detail}", NO_NULLS)
        return error

    def load_slice(self, start: int, end: int, conn: Connection) -> StepResult:
        """Staged rows, by number."""
        with self._explained():
            rows = self._insert(conn, self.work.stage.slice(), sql.SQL("t.vitrina_n"), [start, end])
        return self._loaded(Counts(written=rows), end, self.work.staged_rows or 0)

    def _insert(self, conn: Connection, scope: sql.Composable, order: sql.Composable, params: list[Any]) -> int:
        return int(self.work.apply(conn, self.work.statements.insert(scope, order), params)["written"])

    def _loaded(self, counts: Counts, done: int, total: int) -> StepResult:
        position = FullPosition("load", done, total)
        return StepResult(Event.LOADED, counts, position, {"done": done, "of": total}, is_batch=True)

    def _conflict(self, error: psycopg.errors.UniqueViolation) -> Exception:
        """A key was there already: the query gave it twice, or somebody else writes to the mart."""
        detail = error.diag.message_detail or ""
        if self.work.staged or not self.work.stays_inside:
            return ConfigError(f"the query gives a key twice: {detail}", ONCE)
        self.work.refuse_duplicates(self.job.reader.fetch(self.work.statements.duplicates(self.work.query.source)))
        return RetryableError(f"somebody else wrote to {self.job.plan.target}: {detail}")
