"""What a claim needs to be worked at, put together: for a run, and for a follower."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from vitrina.domain.events import Event, fields_of
from vitrina.domain.pipeline import Pipeline, Plan
from vitrina.domain.positions import Position, parse_position
from vitrina.engine.asking import Asked
from vitrina.engine.changed import Changes
from vitrina.engine.checks import Checks, Standing
from vitrina.engine.job import Job
from vitrina.engine.shared import Company, may_be_shared
from vitrina.meta.db import Connection
from vitrina.meta.repos.checks import CheckRepo
from vitrina.meta.repos.leases import Claim
from vitrina.meta.repos.state import written_to
from vitrina.meta.repos.upstream import UpstreamRepo, naming_writers
from vitrina.planning import make_job, reads_of, resolve_key, tables_named, vet_checks, vet_plan
from vitrina.runner.control import RunControl
from vitrina.runner.ledger import Ledger
from vitrina.runner.runlog import RunLog
from vitrina.sources.connections import Connections
from vitrina.sources.source import Source

L = TypeVar("L", bound=Ledger)


@dataclass(frozen=True)
class Assembly:
    """One claim, its plan, and the source that it reads."""

    claim: Claim
    pipeline: Pipeline
    plan: Plan
    connections: Connections
    reader: Source
    control: RunControl
    log: RunLog

    def job(self, conn: Connection) -> Job:
        """The plan, guarded, and where it goes on; `conn` reads the meta-store."""
        claim, plan, settings, upstream = self.claim, self.plan, self.connections.settings, UpstreamRepo(conn)
        with naming_writers(upstream.above, tables_named(plan, settings)):
            for finding in vet_plan(self.reader, plan, settings):
                self.log.say("warning", Event.FINDING, **fields_of(finding))
        upstream.keep(claim.pipeline_id, claim.version, plan.target, reads_of(self.reader, plan))
        key = resolve_key(conn, plan) if plan.transforms else plan.key
        checks = Checks(plan, self.control.check, self._vet_checks, self._standing(conn))
        job = replace(
            make_job(claim.pipeline_id, self.pipeline, plan, self.reader, key, settings, self.control.check),
            options=claim.options,
            position=self._position(),
            written_before=written_to(plan.target, claim.columns),
            tell=partial(self.log.say, "warning"),
            say=partial(self.log.say, "info"),
            name=f"{claim.name} run {claim.run_id}",
            was_asked_for=claim.asked,
            checks=checks if plan.checks else None,
            sharing=self._company(conn),
            changes=Changes(plan.keep_changes) if plan.keep_changes else None,
        )
        return job if may_be_shared(job) else replace(job, sharing=None)

    def _company(self, conn: Connection) -> Company | None:
        """Other targets of the query that are due too. A position that has to be no older than its rows shares none."""
        claim, plan, whole = self.claim, self.plan, self.pipeline.part_of
        by_rows = plan.mode == "full" or (
            plan.mode == "incremental" and (claim.options.repair or claim.options.rebuild)
        )
        if whole is None or claim.since is None or not by_rows:
            return None
        company = Company(whole, claim.pipeline_id, claim.since)
        return company if company.is_there(conn) else None

    def ledger(self, conn: Connection, job: Job, make: Callable[..., L]) -> L:
        """Of this sort, through the session that writes."""
        plan, claim, connections = self.plan, self.claim, self.connections
        columns = {"target": plan.target, "types": {c.name: c.type for c in job.written}}
        settings, timeout = connections.writing | self.reader.own_settings(), connections.fence_timeout
        known = plan.fingerprint, columns, claim.seq, job.position
        ledger = make(conn, claim, settings, timeout, self.log, *known, connections.latencies)
        ledger.checks, ledger.changes = job.checks, job.changes
        return ledger

    def _standing(self, conn: Connection) -> dict[str, Standing]:
        rows = CheckRepo(conn, self.claim.pipeline_id).standing() if self.plan.checks else ()
        return {row["name"]: Standing(row["definition"], row["outcome"]) for row in rows}

    def _vet_checks(self, asked: Asked) -> None:
        """Where they are asked: in the warehouse."""
        settings = self.connections.settings
        if self.reader.abilities.is_local:
            vet_checks(self.reader, self.plan, asked, settings)
            return
        with self.connections.read_warehouse() as warehouse:
            vet_checks(warehouse, self.plan, asked, settings)

    def _position(self) -> Position | None:
        """Where the last run left off, if the configuration is what it was then."""
        claim, plan = self.claim, self.plan
        if claim.config_hash in (None, plan.fingerprint):
            return parse_position(plan.mode, claim.checkpoint)
        if claim.checkpoint:
            self.log.say("warning", Event.CHECKPOINT_DROPPED)
        return None
