"""Mode `full`: compare query and mart, then converge the keys that differ. An empty mart is loaded.

The mart itself is the checkpoint: a run that was paused or killed finds again, and what is done no longer differs.
"""

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial

from vitrina.domain.events import Event
from vitrina.domain.positions import FullPosition
from vitrina.domain.run import Counts
from vitrina.engine.comparison import Comparison
from vitrina.engine.job import Found, Job, Mode, Step, StepResult, ask, finding
from vitrina.engine.load import Load
from vitrina.engine.reading import why_whole
from vitrina.engine.work import Work
from vitrina.meta.db import Connection


class FullMode(Mode):
    """The steps of a full run. Each is one fenced transaction; a pause or a crash falls between two."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def steps(self) -> Generator[Step, None, None]:
        """Prepare the mart, then load it, or compare and converge."""
        yield from self.run()

    def run(self) -> Generator[Step, None, bool]:
        """The same; whether the mart was empty, and so was loaded."""
        session = yield from finding(self._prepare)
        yield from session.steps()
        return session.mart_is_empty

    def _prepare(self, conn: Connection) -> Found["FullSession"]:
        work = Work.prepare(self.job, conn)
        result = StepResult(Event.MART_READY, fields={"target": self.job.plan.target, "ddl": work.ddl})
        return result, FullSession(work, work.is_empty(conn))


@dataclass(frozen=True)
class FullSession:
    """A full run whose mart is ready."""

    work: Work
    mart_is_empty: bool

    def steps(self) -> Generator[Step, None, None]:
        """Load, or compare and converge; from a stage if need be."""
        work, reason = self.work, why_whole(self.work)
        if self.mart_is_empty:
            yield from Load(work).steps(reason)
        else:
            if reason:
                work = yield from finding(partial(work.fill, why=reason))
            yield from [partial(_replace_all, work)] if work.job.options.rebuild else Comparison(work).steps()
        yield self._clean_up

    def _clean_up(self, conn: Connection) -> StepResult:
        self.work.clean_up(conn)
        return StepResult(Event.FINISHED)


def _replace_all(work: Work, conn: Connection) -> StepResult:
    """A rebuild: every row deleted and written again in one transaction; readers of the mart see old or new."""
    rows, statements = work.staged_rows or 0, work.statements
    before = work.count(conn)
    [gone] = ask(conn, work.mart, statements.count_gone(work.stage.identifier))
    work.guard_deletes(gone["rows"], before, rows)
    work.apply(conn, statements.delete_all())
    written = Load(work).load_slice(0, rows, conn).counts.written
    return StepResult(Event.REBUILT, Counts(written=written, deleted=before), FullPosition("rebuild"), is_batch=True)
