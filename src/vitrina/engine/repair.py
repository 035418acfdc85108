"""Repair and rebuild: one run that works as mode `full` does, whatever the pipeline's mode."""

from collections.abc import Generator
from dataclasses import replace
from functools import partial

from vitrina.domain.events import Event
from vitrina.domain.positions import LivePosition
from vitrina.engine.full import FullMode
from vitrina.engine.job import Job, Mode, Step, StepResult
from vitrina.engine.live.watch import Watch
from vitrina.meta.db import Connection
from vitrina.meta.repos.dependencies import DependencyRepo
from vitrina.sql.dependencies import Needs
from vitrina.sql.differences import differences, in_words


class RepairMode(Mode):
    """The steps of a full run, each of which leaves the checkpoint where it was.

    That is safe for `incremental`: what changed after its position is read again by the next run, which finds it
    done. Moving the position instead could pass a row whose transaction commits late.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.position = job.position

    def steps(self) -> Generator[Step, None, None]:
        """As mode full."""
        for step in FullMode(self.job).steps():
            yield partial(self._keep_position, step)

    def _keep_position(self, step: Step, conn: Connection) -> StepResult:
        return replace(step(conn), position=self.position)


class LiveRepair(RepairMode):
    """The same of a live mart, whose rows are then of the catalogue that the repair has seen. If that is not the one
    that was kept with the position, the next run compares: it may be as it was again before anybody looks."""

    watch: Watch | None = None

    def steps(self) -> Generator[Step, None, None]:
        """Look, repair, look again."""
        yield self._look
        yield from super().steps()
        yield self._look_again

    def _look(self, conn: Connection) -> StepResult:
        kept = DependencyRepo(conn).find(self.job.pipeline_id)
        if kept and self.position:
            self.watch = Watch(self.job.reader, Needs.parse(kept.needs))
            if self.watch.digest != kept.digest:
                self._distrust(in_words(differences(kept.facts, self.watch.facts, self.watch.needs)))
        return StepResult(Event.DEPENDENCE_SEEN, position=self.position, quiet=True)

    def _look_again(self, conn: Connection) -> StepResult:
        del conn
        if self.watch and not self.watch.holds():
            self._distrust(self.watch.why_broken())
        return StepResult(Event.DEPENDENCE_SEEN_AGAIN, position=self.position, quiet=True)

    def _distrust(self, why: str) -> None:
        assert isinstance(self.position, LivePosition)
        self.position = replace(self.position, comparing=why)
