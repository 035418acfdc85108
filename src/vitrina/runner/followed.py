"""One mart in a crew's hands: begun as a run is, and driven a step at a time."""

import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID

from vitrina.capture.log import Tip
from vitrina.domain.errors import VitrinaError
from vitrina.domain.pipeline import Pipeline
from vitrina.domain.positions import LivePosition
from vitrina.engine.job import Mode, Step, StepDown, rest
from vitrina.engine.live.staying import Staying
from vitrina.failpoints import reach
from vitrina.meta.repos.leases import Claim
from vitrina.planning import check_plan
from vitrina.runner.assembly import Assembly
from vitrina.runner.control import RunControl
from vitrina.runner.identity import Identity
from vitrina.runner.ledger import HourLedger
from vitrina.runner.runlog import RunLog
from vitrina.runner.sharing import Sessions
from vitrina.sinks.registry import resolve_mode
from vitrina.sources.connections import Connections

SLOW_SECONDS = 1.0  # a step that takes longer makes those late that share a thread with its mart
SLOW_STEPS = 3  # then the end of its slice is not waited for
QUICK_SECONDS = 300.0  # without one, until its mart is no longer among the slow ones
LOCKS = {"lock_timeout": "1s"}  # whoever locks a mart keeps the others of its crew no longer
HASTE = {"synchronous_commit": "off"}  # a crash takes rows and position together, and the log has what is missing


@dataclass
class Trouble:
    """Of one mart: how often in a row, and when last; monotonic."""

    count: int = 0
    at: float = 0.0


@dataclass
class Slow:
    """The marts of a runner whose steps are slow, and when each was so last; monotonic."""

    at: dict[UUID, float] = field(default_factory=dict)

    def time(self, one: "Followed", took: float) -> None:
        """A step took so long."""
        pipeline_id, now = one.claim.pipeline_id, time.monotonic()
        if took > SLOW_SECONDS:
            self.at[pipeline_id] = now
            one.slow_steps += 1
        elif now - self.at.get(pipeline_id, now) > QUICK_SECONDS:
            del self.at[pipeline_id]

    def __contains__(self, pipeline_id: UUID) -> bool:
        return pipeline_id in self.at


@dataclass
class Followed:
    """Of one crew. What it does is committed under its own epoch, through the sessions of all."""

    claim: Claim
    control: RunControl
    is_suspect: bool  # some runner was lost over it, and it has not shown yet that it does no harm
    steps: Generator[Step, None, None] | None = None
    mode: Mode | None = None
    ledger: HourLedger | None = None
    stay: Staying | None = None
    is_busy: bool = True
    slow_steps: int = 0
    kept: int = 0  # the last change that its position in the meta-store is at

    def is_due(self, tip: Tip, now: float) -> bool:
        """Whether there is something to do, as far as the log tells."""
        if self.is_busy or self.stay is None or self.stay.wake_at <= now:
            return True
        return not self.stay.waits and tip.concerns(self.stay.tables, self.stay.at)

    @property
    def rests(self) -> bool:
        """It has everything that concerns it."""
        return self.stay is not None and not self.is_busy and not self.stay.waits

    @property
    def may_move(self) -> bool:
        """Whether somebody else may as well go on: nothing is begun, or the rest would take long."""
        return not self.is_busy or self.slow_steps >= SLOW_STEPS

    def advance(self, shared: Sessions, connections: Connections, identity: Identity) -> bool:
        """One step, committed; False: it rests."""
        steps = self.steps or self._begin(shared, connections, identity)
        step = next(steps, None)
        if step is None:
            raise StepDown("what comes next has to be compared in full")
        self.is_busy = step is not rest
        if self.is_busy:
            assert self.ledger
            reach("following")
            self.ledger.commit(step)
        return self.is_busy

    def _begin(self, shared: Sessions, connections: Connections, identity: Identity) -> Generator[Step, None, None]:
        """As a run is begun, over what all of the crew share."""
        plan = check_plan(pipeline := Pipeline.parse(self.claim.config), connections.settings)
        if not plan.continuous:
            raise StepDown("it is not to be followed any more")
        said = RunLog(shared.meta, self.claim)
        assembly = Assembly(self.claim, pipeline, plan, connections, shared.reader, self.control, said)
        job = assembly.job(shared.meta)
        self.kept = job.position.id if isinstance(job.position, LivePosition) else 0
        self.stay = Staying(shared.feed, at=self.kept)
        job = replace(job, stay=self.stay)
        self.ledger = assembly.ledger(shared.writer, job, partial(HourLedger, owner=identity.id))
        self.ledger.settings |= LOCKS | (HASTE if job.writer.abilities.is_compared_in_place else {})
        self.mode = resolve_mode(job, connections, self.claim.epoch)
        self.steps = self.mode.steps()
        return self.steps

    def was_passed_over(self, at: int) -> None:
        """Its position in the meta-store was moved, by a statement for many."""
        assert self.ledger
        self.ledger.follow_fence()
        self.kept = at

    def wind_up(self) -> None:
        """Somebody else will go on: what is on its way arrives."""
        if self.mode and self.ledger and self.steps:
            for step in self.mode.wind_up():
                self.ledger.commit(step)
            self.ledger.tell()

    def close(self) -> None:
        """Wherever it is; what was not committed is as if it had not begun."""
        steps, self.steps, self.is_busy = self.steps, None, True
        if steps:
            with suppress(VitrinaError):
                steps.close()
