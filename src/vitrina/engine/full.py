"""Mode `full`: compare query and mart, then converge the keys that differ. An empty mart is loaded.

The mart itself is the checkpoint: a run that was paused or killed finds again, and what is done no longer differs.
"""

from collections.abc import Generator
from functools import partial

from vitrina.domain.events import Event
from vitrina.domain.positions import FullPosition
from vitrina.domain.run import Counts
from vitrina.engine.comparison import Comparison
from vitrina.engine.job import Job, Mode, Step, StepResult, ask
from vitrina.engine.load import Load
from vitrina.engine.reading import why_whole
from vitrina.engine.work import Work
from vitrina.meta.db import Connection


class FullMode(Mode):
    """The steps of a full run. Each is one fenced transaction; a pause or a crash falls between two."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def steps(self) -> Generator[Step, None, None]:
        """Prepare the mart, then load it, or compare and converge; from a stage if need be."""
        yield self._prepare
        reason = why_whole(self.work)
        if self.mart_is_empty:
            yield from Load(self.work).steps(reason)
        else:
            if reason:
                yield partial(self.work.fill, why=reason)
            yield from [self._replace_all] if self.job.options.rebuild else Comparison(self.work).steps()
        yield self._clean_up

    def _prepare(self, conn: Connection) -> StepResult:
        self.work = Work.prepare(self.job, conn)
        self.mart_is_empty = self.work.is_empty(conn)
        return StepResult(Event.MART_READY, fields={"target": self.job.plan.target, "ddl": self.work.ddl})

    def _replace_all(self, conn: Connection) -> StepResult:
        """A rebuild: every row deleted and written again in one transaction; readers of the mart see old or new."""
        rows, statements = self.work.staged_rows or 0, self.work.statements
        before = self.work.count(conn)
        [gone] = ask(conn, self.work.mart, statements.count_gone(self.work.stage.identifier))
        self.work.guard_deletes(gone["rows"], before, rows)
        self.work.apply(conn, statements.delete_all())
        written = Load(self.work).load_slice(0, rows, conn).counts.written
        return StepResult(
            Event.REBUILT, Counts(written=written, deleted=before), FullPosition("rebuild"), is_batch=True
        )

    def _clean_up(self, conn: Connection) -> StepResult:
        self.work.clean_up(conn)
        return StepResult(Event.FINISHED)
