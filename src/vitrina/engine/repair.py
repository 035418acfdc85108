"""Repair and rebuild: one run that works as mode `full` does, whatever the pipeline's mode."""

from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial

from vitrina.domain.events import Event
from vitrina.domain.positions import LivePosition, Position
from vitrina.engine.full import FullMode
from vitrina.engine.job import Found, Job, Mode, Step, StepResult, each, finding
from vitrina.engine.live.watch import Watch
from vitrina.meta.db import Connection
from vitrina.meta.repos.dependencies import DependencyRepo
from vitrina.sql.dependencies import Needs
from vitrina.sql.differences import differences, in_words


@dataclass(frozen=True)
class RepairMode(Mode):
    """The steps of a full run, each of which leaves the checkpoint where it was.

    That is safe for `incremental`: what changed after its position is read again by the next run, which finds it
    done. Moving the position instead could pass a row whose transaction commits late.
    """

    job: Job

    def steps(self) -> Generator[Step, None, None]:
        """As mode full."""
        yield from each(FullMode(self.job).run(), partial(_staying_at, self.job.position))


@dataclass(frozen=True)
class LiveRepair(Mode):
    """The same of a live mart, whose rows are then of the catalogue that the repair has seen. If that is not the one
    that was kept with the position, the next run compares: it may be as it was again before anybody looks."""

    job: Job

    def steps(self) -> Generator[Step, None, None]:
        """Look, repair, look again."""
        watch, position = yield from finding(self._look)
        yield from each(FullMode(self.job).run(), partial(_staying_at, position))
        if watch and isinstance(position, LivePosition):
            yield partial(_look_again, watch, position)

    def _look(self, conn: Connection) -> Found[tuple[Watch | None, Position | None]]:
        watch, position = None, self.job.position
        kept = DependencyRepo(conn).find(self.job.pipeline_id)
        if kept and isinstance(position, LivePosition):
            watch = Watch(self.job.reader, Needs.parse(kept.needs))
            if watch.digest != kept.digest:
                why = in_words(differences(kept.facts, watch.facts, watch.needs))
                position = replace(position, comparing=why)
        return StepResult(Event.DEPENDENCE_SEEN, position=position, quiet=True), (watch, position)


def _staying_at(position: Position | None, step: Step, conn: Connection) -> StepResult:
    return replace(step(conn), position=position)


def _look_again(watch: Watch, position: LivePosition, conn: Connection) -> StepResult:
    del conn
    if not watch.holds():
        position = replace(position, comparing=watch.why_broken())
    return StepResult(Event.DEPENDENCE_SEEN_AGAIN, position=position, quiet=True)
