"""The executor: the only place that puts a run together.

    check the plan → open source and warehouse → for each step: run, checkpoint, commit → close the run

Everything longer than that lives in the engine and the sinks.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from vitrina.domain.errors import DatabaseLost, RetryableError
from vitrina.domain.events import Event, fields_of
from vitrina.domain.lifecycle import RunStatus
from vitrina.domain.pipeline import Pipeline, Plan
from vitrina.domain.positions import Position, parse_position
from vitrina.engine.job import Awaiting, Job, Mode
from vitrina.engine.meaning import Meaning
from vitrina.failpoints import reach
from vitrina.meta.repos.leases import Claim, LeaseRepo
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.state import StateRepo, written_to
from vitrina.planning import check_plan, make_job, resolve_key, vet_plan
from vitrina.runner.control import Interrupted, PauseRequested, RunControl, RunnerStopping
from vitrina.runner.ledger import Ledger
from vitrina.runner.limits import name_limit
from vitrina.runner.runlog import RunLog
from vitrina.sinks.registry import resolve_mode
from vitrina.sources.connections import Connections
from vitrina.sources.source import Source
from vitrina.transforms.running import begin_worker


@dataclass(frozen=True)
class PipelineExecutor:
    """Executes one claimed run to its end, or to the point where it is interrupted."""

    connections: Connections
    leases: LeaseRepo
    has_room: Callable[[], bool]  # whether this runner could take on another run

    def execute(self, claim: Claim, control: RunControl) -> RunStatus:
        """Run all steps and release the lease: done, paused, or handed back. Errors are the dispatcher's."""
        log = RunLog(self.leases.conn, claim)
        log.say("info", Event.STARTED, attempt=claim.attempt, config_version=claim.version)
        reach("claimed")
        try:
            ledger, is_burst = self._cuttable(claim, control, log)
        except PauseRequested:
            log.say("info", Event.PAUSED_AT_ONCE if control.cut.was_made else Event.PAUSED)
            self.leases.pause(claim)
            return RunStatus.PAUSED
        except RunnerStopping:
            log.say("info", Event.HANDED_BACK)
            self.leases.hand_back(claim, "the runner is stopping; another goes on")
            return RunStatus.PAUSED
        except Awaiting as wait:
            log.say("info", Event.SLOT_GIVEN_BACK, holder=str(wait))
            self.leases.wait(claim, f"waits for a transaction that was open: {wait}")
            return RunStatus.PAUSED
        reach("before end")
        self.leases.succeed(claim, is_burst=is_burst)
        PipelineRepo(self.leases.conn).wake_live()  # for a change that came while it was leaving
        log.show("info", Event.SUCCEEDED, {f"rows_{name}": value for name, value in vars(ledger.total).items()})
        return RunStatus.SUCCESS

    def _cuttable(self, claim: Claim, control: RunControl, log: RunLog) -> tuple[Ledger, bool]:
        """The run, whose statements may be cancelled under it: what was not committed is as if it had not begun."""
        try:
            return self._run(claim, control, log)
        except (RetryableError, DatabaseLost) as error:
            if control.cut.was_made and not control.lost.is_set():
                raise PauseRequested from error
            name_limit(error, self.connections.settings)
            raise
        finally:
            control.cut.end()

    def _run(self, claim: Claim, control: RunControl, log: RunLog) -> tuple[Ledger, bool]:
        pipeline = Pipeline.parse(claim.config)
        plan = check_plan(pipeline, self.connections.settings)
        control.check()  # what comes next may wait for a server that does not answer
        connections = replace(self.connections, opened=control.cut.add)
        if plan.transforms:
            begin_worker(connections.settings)
        with connections.open_both(f"run {claim.name}", plan.source) as (conn, reader):
            meaning = Meaning.take(reader, plan)
            job = self._job(claim, pipeline, plan, reader, control, log)
            columns = {"target": plan.target, "types": {c.name: c.type for c in job.written}}
            settings, timeout = self.connections.writing | reader.own_settings(), self.connections.fence_timeout
            ledger = Ledger(conn, claim, settings, timeout, log, plan.fingerprint, columns, claim.seq, job.position)
            mode = resolve_mode(job, connections, claim.epoch)
            with closing(mode.steps()) as steps:
                for step in steps:
                    fenced = ledger.commit(meaning.hold(step))
                    control.status, control.has_recovered = fenced.status, ledger.has_recovered
                    self._stop_if_asked(mode, control, ledger)
                    self._reload(job, claim, fenced.reload_version, log)
        return ledger, mode.is_burst

    def _stop_if_asked(self, mode: Mode, control: RunControl, ledger: Ledger) -> None:
        """Between two steps; what is on its way to a mart arrives first."""
        try:
            control.check()
        except Interrupted:
            control.cut.end()
            for step in mode.wind_up():
                ledger.commit(step)
            raise

    def _reload(self, job: Job, claim: Claim, version: int | None, log: RunLog) -> None:
        """`reload-config`: of what may be edited under a run, only the batch size concerns it."""
        if version is None or version <= claim.version:
            return
        size = StateRepo(self.leases.conn).config(claim.pipeline_id, version).get("batch_size", job.batch_size)
        if size != job.batch_size:
            log.say("info", Event.RELOADED, config_version=version, batch_size=size)
            job.pace.batch_size = size

    def _job(
        self, claim: Claim, pipeline: Pipeline, plan: Plan, reader: Source, control: RunControl, log: RunLog
    ) -> Job:
        settings = self.connections.settings
        for finding in vet_plan(reader, plan, settings):
            log.say("warning", Event.FINDING, **fields_of(finding))
        key = resolve_key(self.leases.conn, plan) if plan.transforms else plan.key
        return replace(
            make_job(claim.pipeline_id, pipeline, plan, reader, key, settings, control.check),
            options=claim.options,
            position=_position(claim, plan, log),
            written_before=written_to(plan.target, claim.columns),
            tell=partial(log.say, "warning"),
            others_wait=self._others_wait,
            has_room=self.has_room,
            was_asked_for=claim.asked,
        )

    def _others_wait(self) -> bool:
        """Those whose source or sink does not answer wait for that, and not for this slot."""
        return self.leases.others_wait(self.connections.neighbours.avoided(self.connections.settings.slots))


def _position(claim: Claim, plan: Plan, log: RunLog) -> Position | None:
    """Where the last run left off, if the configuration is what it was then."""
    if claim.config_hash in (None, plan.fingerprint):
        return parse_position(plan.mode, claim.checkpoint)
    if claim.checkpoint:
        log.say("warning", Event.CHECKPOINT_DROPPED)
    return None
