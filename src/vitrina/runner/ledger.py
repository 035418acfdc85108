"""The ledger of a run: each step's rows, counters, checkpoint and log line commit in one fenced transaction."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from vitrina.domain import events
from vitrina.domain.events import Event
from vitrina.domain.latency import Latencies
from vitrina.domain.positions import LivePosition, Position
from vitrina.domain.run import NOTHING, Counts
from vitrina.domain.wording import Data
from vitrina.engine.changed import Changes
from vitrina.engine.checks import Blocked, Checks, Outcome, definition_of
from vitrina.engine.job import Step, StepResult
from vitrina.failpoints import reach
from vitrina.meta.db import Connection, queries, transaction
from vitrina.meta.repos.checks import CheckRepo, KeptOutcome
from vitrina.meta.repos.following import NO_RUN, HourRepo
from vitrina.meta.repos.leases import Claim
from vitrina.meta.repos.marks import PIPELINE, Mark
from vitrina.meta.repos.runs import RunRepo
from vitrina.meta.repos.state import Checkpoint, Fenced, StateRepo
from vitrina.metrics.events import Meter, tell_latency
from vitrina.runner.runlog import RunLog
from vitrina.tracing import note, span

LOOK_SECONDS = 60.0  # between two looks of a follower at all of its mart, while changes come
STATE, LEASES = queries("state"), queries("leases")


@dataclass
class Ledger:
    """Where the run stands; `seq` follows the fence."""

    conn: Connection
    claim: Claim
    settings: dict[str, str]
    fence_timeout: str
    log: RunLog
    config_hash: str
    columns: dict[str, Any]  # the target, and the types of the columns written to it
    seq: int
    before: Position | None  # where the last attempt ended
    latencies: Latencies
    has_recovered: bool = False
    total: Counts = NOTHING
    checks: Checks | None = None
    changes: Changes | None = None
    position: Position | None = None  # of the last step
    looks_often = False

    def __post_init__(self) -> None:
        self._told: dict[str, str] = {}  # checks that the history of this run has, and what it says of them
        self.position = self.before
        self.arrived_at = self.before.applied_at if isinstance(self.before, LivePosition) else None

    def commit(self, step: Step) -> Fenced:
        """Run a step and commit it, unless the lease is lost; tells what was asked of the run meanwhile."""
        try:
            return self._commit(step)
        except Blocked as blocked:
            with transaction(self.conn, {}):
                if StateRepo(self.conn).is_held(self.claim.pipeline_id, self.claim.epoch):
                    self._keep(blocked.outcomes)
            raise

    def look(self, position: Position | None = None) -> None:
        """Ask all of the mart what can only be asked of all of it, in a step that leaves the checkpoint where it is."""
        if self.checks and self.checks.has_open:
            self.position = position or self.position
            self.commit(self._look)

    def _look(self, conn: Connection) -> StepResult:
        assert self.checks
        self.checks.at_the_end(conn)
        asked = [outcome for outcome in self.checks.outcomes if outcome.of_all]
        fields: Data = {"checks": len(asked), "broken": sum(outcome.answer != "kept" for outcome in asked)}
        return StepResult(Event.CHECKED, position=self.position, fields=fields, quiet=self.looks_often)

    def follow_fence(self) -> None:
        """It was moved under the same epoch, by another statement than a step's."""
        self.seq += 1

    def _commit(self, step: Step) -> Fenced:
        started = time.monotonic()
        mark = Mark(self.conn, str(self.claim.pipeline_id), PIPELINE)
        with span("vitrina.batch", seq=self.seq) as traced, transaction(self.conn, self.settings, along=mark.ask):
            # Behind a pooler every transaction may have another session: each says that it is the one that writes.
            mark.leave()
            if self.changes:
                self.changes.forget()
            result = step(self.conn)
            outcomes = self._ask(result)
            self.conn.execute(STATE["approach_fence"], {"timeout": self.fence_timeout})
            fields = self._fields(result, time.monotonic() - started)
            recovers = self._write_down(result, fields)
            self._keep(outcomes)
            if self.changes and (changes := self.changes.take()):
                RunRepo(self.conn).log(self._row_of_history(), "info", Event.CHANGED, {"changes": changes})
            reach("before checkpoint")
            checkpoint = Checkpoint(result.position, self.columns, self.config_hash)
            fenced = StateRepo(self.conn).fence(self.claim.pipeline_id, self.claim.epoch, self.seq, checkpoint)
            note(traced, event=result.event, **vars(result.counts))
        reach("after checkpoint")
        self.seq, self.position = self.seq + 1, result.position
        self.has_recovered |= recovers
        self.total += result.counts
        self._measure(result, time.monotonic() - started)
        if not result.quiet:
            self.log.show("info", result.event, fields)
        return fenced

    def _ask(self, result: StepResult) -> Sequence[Outcome]:
        """What came of the checks in this step; a Blocked if it is not to be committed."""
        if not self.checks:
            return ()
        if result.is_batch:
            self.checks.before_commit(self.conn)
        return self.checks.take()

    def _keep(self, outcomes: Sequence[Outcome]) -> None:
        """In the history of the run, and how each check stands now. The same again is not worth a statement."""
        news = [o for o in outcomes if o.of_all or o.answer != "kept" or o.check.name not in self._told]
        if not news:
            return
        run_id = self._run_of_checks(news)
        repo = CheckRepo(self.conn, self.claim.pipeline_id)
        for outcome in news:
            repo.keep(run_id, as_kept(outcome))
            if outcome.answer != "kept" and self._told.get(outcome.check.name) != outcome.answer:
                self._say_broken(run_id, outcome)
            self._told[outcome.check.name] = outcome.answer
        repo.judge()

    def _say_broken(self, run_id: int, outcome: Outcome) -> None:
        """Once a run."""
        fields = outcome.as_fields()
        RunRepo(self.conn).log(run_id, "warning", Event.CHECK_BROKEN, fields)
        self.log.show("warning", Event.CHECK_BROKEN, fields)
        Meter(self.claim.name, self.claim.target).check_broken(outcome.answer)

    def _run_of_checks(self, news: Sequence[Outcome]) -> int:
        """The run that they belong to."""
        del news
        return self._row_of_history()

    def _row_of_history(self) -> int:
        """What is worth a line is a line of this run."""
        return self.claim.run_id

    def _write_down(self, result: StepResult, fields: Data) -> bool:
        """In the run's row and log; whether what the last attempt died of is behind it."""
        runs = RunRepo(self.conn)
        runs.count(self.claim.run_id, result.counts, int(result.is_batch))
        if not result.quiet:
            runs.log(self.claim.run_id, "info", result.event, fields)
        recovers = self.claim.attempt > 1 and self._got_past(result)
        if recovers:
            self.conn.execute(LEASES["recover"], vars(self.claim))
        return recovers

    def _measure(self, result: StepResult, seconds: float) -> None:
        meter = Meter(self.claim.name, self.claim.target)
        meter.rows(result.counts)
        if result.is_batch:
            meter.batch(seconds)
        self._note_arrival(result.position, meter)

    def _note_arrival(self, position: Position | None, meter: Meter) -> None:
        """A slice of changes has come to the mart once the position that says so is committed."""
        if not isinstance(position, LivePosition) or position.applied_at in (None, self.arrived_at):
            return
        self.arrived_at = position.applied_at
        if position.lag_ms is not None and position.applied_at:
            tell_latency(self.latencies, self.claim.pipeline_id, meter, position.applied_at, position.lag_ms / 1000)

    def _got_past(self, result: StepResult) -> bool:
        """Whether this follower is further than where the last attempt ended; some batches of a slice are no step.

        It runs for hours beside pipelines that may kill its runner: what the last one died of is forgotten then.
        """
        now, before = result.position, self.before
        if not result.is_batch or not isinstance(now, LivePosition):
            return False
        return not isinstance(before, LivePosition) or now.id != before.id

    def _fields(self, result: StepResult, seconds: float) -> Data:
        counts = {f"rows_{name}": value for name, value in vars(result.counts).items() if value}
        return {**result.fields, **counts, "ms": round(seconds * 1000, 1)}


def as_kept(outcome: Outcome) -> KeptOutcome:
    """As the meta-store has it."""
    check, keys = outcome.check, [dict(key) for key in outcome.keys]
    told = (outcome.answer, outcome.rows, keys, outcome.error or None, outcome.of_all)
    return KeptOutcome(check.name, check.kind, check.effect, definition_of(check), *told)


PASSING = (*events.PASSING, Event.INDEX_SOUGHT)  # of a follower: not worth a line in the history


@dataclass
class HourLedger(Ledger):
    """Of a follower, which has no run: what it does is added up, and told now and then to the row of its hour."""

    owner: UUID = field(kw_only=True)
    burst: Counts = NOTHING  # since it was told last
    batches: int = 0
    is_counted: bool = False  # this burst, by a line that it wrote
    told_at: float = field(default_factory=time.monotonic)
    looked_at: float = field(default_factory=time.monotonic)  # at all of the mart, for its checks
    has_news: bool = False  # since then
    looks_often = True

    def look(self, position: Position | None = None) -> None:
        """All of the mart, now."""
        super().look(position)
        self.looked_at, self.has_news = time.monotonic(), False

    @property
    def look_at(self) -> float | None:
        """When to do so next; monotonic. None: it would tell nothing new."""
        return self.looked_at + LOOK_SECONDS if self.has_news and self.checks and self.checks.has_open else None

    def _write_down(self, result: StepResult, fields: Data) -> bool:
        if not result.quiet and result.event not in PASSING:
            RunRepo(self.conn).log(self._row_of_history(), "info", result.event, fields)
        return False

    def _run_of_checks(self, news: Sequence[Outcome]) -> int:
        """That of the hour, if there is anything to be said."""
        if all(outcome.answer == "kept" for outcome in news):
            return NO_RUN
        return self._row_of_history()

    def _row_of_history(self) -> int:
        """That of the hour."""
        run_id, began = self._hour(NOTHING, 0, 0)
        self.is_counted |= began
        return run_id

    def _measure(self, result: StepResult, seconds: float) -> None:
        super()._measure(result, seconds)
        self.burst += result.counts
        self.has_news |= result.is_batch
        self.batches += int(result.is_batch)

    def tell(self) -> None:
        """In the history: this much was followed."""
        if self.batches:
            with transaction(self.conn, {}):
                self._hour(self.burst, self.batches, int(not self.is_counted))
            self.is_counted = False
        self.burst, self.batches, self.told_at = NOTHING, 0, time.monotonic()

    def _hour(self, counts: Counts, batches: int, bursts: int) -> tuple[int, bool]:
        return HourRepo(self.conn, self.owner, self.claim).add(counts, batches, bursts)
