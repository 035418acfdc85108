"""The executor: the only place that puts a run together.

    check the plan → open source and warehouse → for each step: run, checkpoint, commit → close the run

Everything longer than that lives in the engine and the sinks.
"""

from contextlib import closing
from dataclasses import dataclass, replace

from vitrina.domain.errors import DatabaseLost, RetryableError
from vitrina.domain.events import Event
from vitrina.domain.lifecycle import RunStatus
from vitrina.domain.pipeline import Pipeline
from vitrina.engine.job import Awaiting, Job, Mode
from vitrina.engine.meaning import Meaning
from vitrina.failpoints import reach
from vitrina.meta.repos.leases import Claim, LeaseRepo
from vitrina.meta.repos.marks import PIPELINE, Mark
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.meta.repos.state import StateRepo
from vitrina.meta.repos.upstream import UpstreamRepo
from vitrina.planning import check_plan
from vitrina.runner.assembly import Assembly
from vitrina.runner.control import Interrupted, PauseRequested, RunControl, RunnerStopping
from vitrina.runner.ledger import Ledger
from vitrina.runner.limits import name_limit
from vitrina.runner.runlog import RunLog
from vitrina.sinks.registry import resolve_mode
from vitrina.sources.connections import Connections
from vitrina.transforms.running import begin_worker

FOLLOWER_SECONDS = 2.0  # for a follower to notice that a run takes over, amid a slice


@dataclass(frozen=True)
class PipelineExecutor:
    """Executes one claimed run to its end, or to the point where it is interrupted."""

    connections: Connections
    leases: LeaseRepo

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
        UpstreamRepo(self.leases.conn).wake_downstream()
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
            assembly = Assembly(claim, pipeline, plan, connections, reader, control, log)
            job = assembly.job(self.leases.conn)
            ledger = assembly.ledger(conn, job, Ledger)
            if plan.mode == "live":
                Mark(conn, str(claim.pipeline_id), PIPELINE).clear(FOLLOWER_SECONDS)
            mode = resolve_mode(job, connections, claim.epoch)
            with closing(mode.steps()) as steps:
                for step in steps:
                    fenced = ledger.commit(meaning.hold(step))
                    control.hear(fenced.status)
                    if ledger.has_recovered:
                        control.recovered.set()
                    self._stop_if_asked(mode, control, ledger)
                    self._reload(job, claim, fenced.reload_version, log)
                ledger.look()
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
