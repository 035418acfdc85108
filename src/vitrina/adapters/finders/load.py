"""Loading an empty mart: plain ordered inserts, by key range from the query, whole, or by number from the stage."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from vitrina.adapters.filling import copy_across
from vitrina.adapters.finders.comparison import Comparison
from vitrina.adapters.finders.work import Work
from vitrina.adapters.job import Step, StepResult, execute
from vitrina.adapters.stage import KeySegment
from vitrina.adapters.writers.converge import reader_scope
from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.domain.run import Counts
from vitrina.meta.db import Connection


class Load:
    """The steps of a load."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.job = work.job

    def steps(self) -> Iterator[Step]:
        """Find where batches end, then batch after batch; if ranges would be dear, read once: into the mart or a stage.

        An empty mart has nothing to lose: what is interrupted starts again, as filling a stage would.
        """
        if not self.work.staged:
            yield self._find_bounds
            if self.too_dear and self._fits_at_once:
                yield self._load_whole
                return
            if self.too_dear:
                yield partial(self.work.fill, why=self.too_dear)
        if self.work.staged_rows is not None:
            yield from self._slices(self.work.staged_rows)
        else:
            yield from self._ranges(self.job.batch_size)

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
        read = ("at once" if self._fits_at_once else "staged") if self.too_dear else "by key range"
        return StepResult("found what to load", position={"phase": "load"}, fields={"batches": batches, "read": read})

    @property
    def _fits_at_once(self) -> bool:
        """Whether the writer takes all rows in one transaction: a table does, an index holds them in memory."""
        return (self.bound_count + 1) * self.job.rows_at_once <= self.job.writer.most_rows

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
        rows = self._insert(conn, scope, self.work.key_columns("t"), params)
        return self._loaded(Counts(read=rows, written=rows), number + 1, self.bound_count + 1)

    def _load_whole(self, conn: Connection) -> StepResult:
        """Everything that the query gives, in one statement, with the memory of a comparison."""
        conn.execute("SELECT set_config('work_mem', %s, true)", [self.job.reader.settings["work_mem"]])
        scope = reader_scope(self.job.columns, sql.SQL("'{}'::text[]"), "$1")
        rows = self._insert(conn, scope, self.work.key_columns("t"), [self.work.query.whole().as_string(conn)])
        return self._loaded(Counts(read=rows, written=rows), 1, 1)

    def load_slice(self, start: int, end: int, conn: Connection) -> StepResult:
        """Staged rows, by number."""
        rows = self._insert(conn, self.work.stage.slice(), sql.SQL("t.vitrina_n"), [start, end])
        return self._loaded(Counts(written=rows), end, self.work.staged_rows or 0)

    def _insert(self, conn: Connection, scope: sql.Composable, order: sql.Composable, params: list[Any]) -> int:
        try:
            return int(self.work.apply(conn, self.work.statements.insert(scope, order), params)["written"])
        except psycopg.errors.UniqueViolation as error:
            raise self._conflict(error) from error

    def _loaded(self, counts: Counts, done: int, total: int) -> StepResult:
        progress = {"done": done, "of": total}
        return StepResult("loaded", counts, {"phase": "load", **progress}, progress, is_batch=True)

    def _conflict(self, error: psycopg.errors.UniqueViolation) -> Exception:
        """A key was there already: the query gave it twice, or somebody else writes to the mart."""
        detail = error.diag.message_detail or ""
        if self.work.staged:
            return ConfigError(f"the query gives a key twice: {detail}", "make the key unique in the query")
        self.work.refuse_duplicates(self.job.reader.fetch(self.work.statements.duplicates(self.work.query.source)))
        return RetryableError(f"somebody else wrote to {self.job.plan.target}: {detail}")
