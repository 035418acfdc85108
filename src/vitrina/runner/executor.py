"""The executor: the only place that puts a run together.

    check the plan → open source and warehouse → for each step: run, checkpoint, commit → close the run

Everything longer than that lives in the adapters.
"""

from contextlib import ExitStack
from dataclasses import dataclass

from vitrina.adapters.connections import Connections
from vitrina.adapters.job import Job, Limits
from vitrina.adapters.readers.postgres import PostgresReader
from vitrina.adapters.registry import resolve_mode
from vitrina.adapters.transformers import resolve_transformer
from vitrina.domain.pipeline import Pipeline, Plan, resolve
from vitrina.domain.policy import require_allowed_target
from vitrina.meta.repos.leases import Claim, LeaseRepo
from vitrina.runner.control import PauseRequested, RunControl, RunnerStopping
from vitrina.runner.ledger import Ledger
from vitrina.runner.runlog import RunLog
from vitrina.sql.guard import check_select


@dataclass(frozen=True)
class PipelineExecutor:
    """Executes one claimed run to its end, or to the point where it is interrupted."""

    connections: Connections
    leases: LeaseRepo

    def execute(self, claim: Claim, control: RunControl) -> None:
        """Run all steps and release the lease: done, paused, or handed back. Errors are the dispatcher's."""
        log = RunLog(self.leases.conn, claim)
        log.say("info", "started", attempt=claim.attempt, config_version=claim.version)
        try:
            ledger = self._run(claim, control, log)
        except PauseRequested:
            log.say("info", "paused")
            self.leases.pause(claim)
        except RunnerStopping:
            log.say("info", "handed back: this runner is stopping")
            self.leases.hand_back(claim, "the runner is stopping; another goes on")
        else:
            self.leases.succeed(claim)
            log.show("info", "succeeded", {f"rows_{name}": value for name, value in vars(ledger.total).items()})

    def _run(self, claim: Claim, control: RunControl, log: RunLog) -> Ledger:
        pipeline = Pipeline.parse(claim.config)
        plan = self._check(pipeline)
        with ExitStack() as stack:
            conn = stack.enter_context(self.connections.open_warehouse(f"run {claim.name}"))
            self.leases.enter(claim, conn)
            reader = stack.enter_context(self.connections.resolve_reader(plan.source))
            job = self._job(claim, pipeline, plan, reader, control, log)
            columns = {c.name: c.type for c in job.output}
            ledger = Ledger(conn, claim, self.connections.writing, log, plan.fingerprint, columns, claim.seq)
            for step in resolve_mode(job).steps():
                control.status = ledger.commit(step)
                control.check()
        return ledger

    def _check(self, pipeline: Pipeline) -> Plan:
        """Whoever wrote the row, it is checked again here."""
        settings = self.connections.settings
        plan = resolve(pipeline)
        require_allowed_target(plan.target, settings.whitelist)
        return plan.model_copy(update={"select": check_select(plan.select, settings.allowed_source_schemas)})

    def _job(
        self, claim: Claim, pipeline: Pipeline, plan: Plan, reader: PostgresReader, control: RunControl, log: RunLog
    ) -> Job:
        settings = self.connections.settings
        columns = reader.describe(plan.select)
        changed = claim.config_hash not in (None, plan.fingerprint)
        if changed and claim.checkpoint:
            log.say("warning", "checkpoint dropped: the configuration has changed")
        return Job(
            pipeline_id=claim.pipeline_id,
            plan=plan,
            reader=reader,
            columns=tuple(columns),
            transformer=resolve_transformer(plan.transforms, columns, plan.key) if plan.transforms else None,
            batch_size=pipeline.batch_size,
            options=claim.options,
            limits=Limits(settings.max_delete_share, settings.max_delete_rows, settings.horizon_margin),
            position=None if changed else claim.checkpoint,
            written_before={} if changed else claim.columns or {},
            check=control.check,
        )
