"""Loading an empty mart: plain ordered inserts, by key range from the query, at once, or by number from the stage."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from vitrina.adapters.filling import copy_across
from vitrina.adapters.finders.comparison import Comparison
from vitrina.adapters.finders.work import NO_NULLS, ONCE, Work
from vitrina.adapters.job import Step, StepResult, execute
from vitrina.adapters.stage import KeySegment
from vitrina.adapters.writers.converge import reader_scope
from vitrina.adapters.writers.writer import UNLIMITED
from vitrina.domain.errors import ConfigError, RetryableError, VitrinaError
from vitrina.domain.run import Counts
from vitrina.meta.db import Connection


class Load:
    """The steps of a load."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.job = work.job
        self.too_dear = ""

    def steps(self, why_whole: str = "") -> Iterator[Step]:
        """By key range. Where everything has to be read at once, it goes straight into the mart, or into a stage first.

        An empty mart has nothing to lose: what is interrupted starts again, as filling a stage would.
        """
        if not why_whole:
            yield self._find_bounds
            why_whole = self.too_dear
        if not why_whole:
            yield from self._ranges(self.job.batch_size)
        elif self._takes_all:
            yield partial(self._load_all, why_whole)
        else:
            yield partial(self.work.fill, why=why_whole)
            yield from self._slices(self.work.staged_rows or 0)

    def _slices(self, rows: int) -> Iterator[Step]:
        atomic = self.job.plan.publish == "atomic"
        for start, end in [(0, rows)] * bool(rows) if atomic else self.job.slices(0, rows):
            yield partial(self.load_slice, start, end)

    def _ranges(self, size: int) -> Iterator[Step]:
        """The bounds are of one size; when another is asked for meanwhile, the rest is found by comparing."""
        for number in range(self.bound_count + 1):
            if self.job.batch_size != size:
                yield from Comparison(self.work).steps()
                return
            yield partial(self._load_range, number)

    def _find_bounds(self, conn: Connection) -> StepResult:
        columns = {c.name: c for c in self.job.columns}
        self.bounds = KeySegment(self.job.pipeline_id, tuple(columns[name] for name in self.work.mart.key))
        self.bounds.create(conn)
        copy_across(self.job.reader, self.work.query.bounds(self.job.rows_at_once), self.bounds, conn)
        self.bound_count = self.bounds.settle(conn)
        self.work.refuse_null_keys(conn, self.bounds.identifier)
        self.too_dear = self._too_dear(conn)
        batches = self.bound_count + 1
        read = ("at once" if self._takes_all else "staged") if self.too_dear else "by key range"
        return StepResult("found what to load", position={"phase": "load"}, fields={"batches": batches, "read": read})

    @property
    def _takes_all(self) -> bool:
        """Whether all rows go into the mart in one transaction: a table takes them if nothing has to be cast."""
        if self.job.writer.most_rows < UNLIMITED:
            return False
        return bool(self.too_dear) or self.work.mart.takes(self.job.output)

    def _too_dear(self, conn: Connection) -> str:
        """Judged by a batch in the middle."""
        if self.bound_count == 0:
            return ""
        middle = self.bound_count // 2
        one = self.work.query.by_range(lower=middle > 0, upper=True)
        return self.work.is_dear(one, self._ends(conn, middle), self.bound_count + 1)

    def _ends(self, conn: Connection, number: int) -> list[str | None]:
        """Both ends of a batch, as text; an open end is NULL."""
        return self._bound(conn, number) + self._bound(conn, number + 1)

    def _bound(self, conn: Connection, number: int) -> list[str | None]:
        names = sql.SQL(", ").join(sql.SQL("{}::text").format(c.identifier) for c in self.bounds.columns)
        text = sql.SQL("SELECT ARRAY[{}] AS bound FROM {} WHERE vitrina_n = $1").format(names, self.bounds.identifier)
        row = execute(conn, text, [number]).fetchone()
        return row["bound"] if row else [None] * len(self.bounds.columns)

    def _load_range(self, number: int, conn: Connection) -> StepResult:
        query = self.work.query.by_range(lower=number > 0, upper=number < self.bound_count)
        scope = reader_scope(self.job.columns, sql.SQL("$1::text[]"), "$2")
        params = [self._ends(conn, number), query.as_string(conn)]
        with self._explained():
            rows = self._insert(conn, scope, self.work.key_columns("t"), params)
        return self._loaded(Counts(read=rows, written=rows), number + 1, self.bound_count + 1)

    def _load_all(self, why: str, conn: Connection) -> StepResult:
        """Everything that the query gives: inside Postgres if ranges would be dear there, else through here."""
        with self._explained():
            read, written = self._insert_all(conn) if self.too_dear else self.work.pour(self.work.mart, conn)
        self.work.refuse_null_keys(conn, self.work.mart.identifier)
        return StepResult("loaded", Counts(read=read, written=written), {"phase": "load"}, {"why": why}, is_batch=True)

    def _insert_all(self, conn: Connection) -> tuple[int, int]:
        """In one statement, with the memory of a comparison."""
        conn.execute("SELECT set_config('work_mem', %s, true)", [self.job.reader.settings["work_mem"]])
        scope = reader_scope(self.job.columns, sql.SQL("'{}'::text[]"), "$1")
        rows = self._insert(conn, scope, self.work.key_columns("t"), [self.work.query.whole().as_string(conn)])
        return rows, rows

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """A row that does not fit is named."""
        try:
            yield
        except (psycopg.IntegrityError, VitrinaError) as error:
            raise self._fault(error) from error

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
        progress = {"done": done, "of": total}
        return StepResult("loaded", counts, {"phase": "load", **progress}, progress, is_batch=True)

    def _conflict(self, error: psycopg.errors.UniqueViolation) -> Exception:
        """A key was there already: the query gave it twice, or somebody else writes to the mart."""
        detail = error.diag.message_detail or ""
        if self.work.staged or not self.job.stays_inside:
            return ConfigError(f"the query gives a key twice: {detail}", ONCE)
        self.work.refuse_duplicates(self.job.reader.fetch(self.work.statements.duplicates(self.work.query.source)))
        return RetryableError(f"somebody else wrote to {self.job.plan.target}: {detail}")
