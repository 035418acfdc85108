"""Mode `incremental` over a source that knows no SQL of Postgres, and whatever it holds is final.

The rows from the last cursor on are read once, into a stage, and then written batch by batch. The last value is read
again by the next run: rows of the same moment may have come. So the position moves when all are written, and what is
interrupted begins the same window anew.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.events import Event
from vitrina.domain.positions import IncrementalPosition
from vitrina.domain.reasons import Reason
from vitrina.domain.run import Counts
from vitrina.engine.full import FullMode
from vitrina.engine.job import Found, Job, Step, StepResult, execute, fetch, finding
from vitrina.engine.work import NO_NULLS, Work
from vitrina.meta.db import Connection


@dataclass(frozen=True)
class Windowed:
    """The steps of such a run."""

    job: Job
    cursor: str

    def steps(self) -> Generator[Step, None, None]:
        """Stage the window, then write it; where nothing is left of what was read last, compare everything."""
        if self.job.transformer:
            remedy = "use mode full: what a transform leaves out has to be deleted"
            raise ConfigError(f"source {self.job.reader.name!r} gives no rows by a cursor to transforms", remedy)
        work, position = yield from finding(self._prepare)
        staged, last = yield from finding(partial(self._fill, work, position.value))
        if not staged.staged_rows and position.value is not None:
            yield from self._compare(position.value)
            return
        yield from [partial(self._write, staged, *piece) for piece in self._pieces(staged.staged_rows or 0)]
        yield partial(self._finish, staged, IncrementalPosition(value=last))

    def _prepare(self, conn: Connection) -> Found[tuple[Work, IncrementalPosition]]:
        work, position = Work.prepare(self.job, conn), self.job.position
        if not isinstance(position, IncrementalPosition) or work.ddl or work.is_empty(conn):
            position = IncrementalPosition()
        result = StepResult(Event.MART_READY, fields={"target": self.job.plan.target, "ddl": work.ddl})
        return result, (work, position)

    def _fill(self, work: Work, after: str | None, conn: Connection) -> Found[tuple[Work, str | None]]:
        select = self.job.reader.window(self.job.select, self.cursor, after)
        windowed = replace(work, job=replace(work.job, select=select))
        result, staged = windowed.fill(conn, Reason.OTHER_SERVER.of(source=self.job.plan.source))
        name, stage = sql.Identifier(self.cursor), work.stage.identifier
        text = "SELECT max({0})::text AS last, count(*) FILTER (WHERE {0} IS NULL) AS nulls FROM {1}"
        found = fetch(conn, sql.SQL(text).format(name, stage))
        if found["nulls"]:
            raise ConfigError(f"the query gives a row with NULL in its cursor {self.cursor}", NO_NULLS)
        work.refuse_duplicates(self._twice(staged, conn))
        return replace(result, position=self.job.position), (staged, found["last"])

    def _twice(self, staged: Work, conn: Connection) -> list[dict[str, object]]:
        return execute(conn, staged.statements.duplicates(staged.stage.identifier)).fetchall()

    def _pieces(self, rows: int) -> list[tuple[int, int]]:
        if self.job.plan.publish == "atomic":
            return [(0, rows)] * bool(rows)
        return list(self.job.slices(0, rows))

    def _write(self, staged: Work, start: int, end: int, conn: Connection) -> StepResult:
        row = staged.upsert(conn, staged.stage.slice(), [start, end])
        counts = Counts(written=row["written"], unchanged=row["read"] - row["written"])
        fields = {"done": end, "of": staged.staged_rows}
        return StepResult(Event.UPSERTED, counts, self.job.position, fields, is_batch=True)

    def _finish(self, staged: Work, position: IncrementalPosition, conn: Connection) -> StepResult:
        staged.clean_up(conn)
        return StepResult(Event.FINISHED, position=position)

    def _compare(self, value: str) -> Generator[Step, None, None]:
        """The lake is older than it was, or the last rows were deleted: as mode full; the next run reads all."""
        self.job.tell(Event.COMPARING, why=Reason.NOTHING_AT_CURSOR.of(value=value))
        for step in FullMode(self.job).steps():
            yield partial(_forgetting, step)


def _forgetting(step: Step, conn: Connection) -> StepResult:
    return replace(step(conn), position=IncrementalPosition())
