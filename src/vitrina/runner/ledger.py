"""The ledger of a run: each step's rows, counters, checkpoint and log line commit in one fenced transaction."""

import time
from dataclasses import dataclass
from typing import Any

from vitrina.domain.positions import LivePosition, Position
from vitrina.domain.run import NOTHING, Counts
from vitrina.domain.wording import Data
from vitrina.engine.job import Step, StepResult
from vitrina.failpoints import reach
from vitrina.meta.db import Connection, queries, transaction
from vitrina.meta.repos.leases import Claim
from vitrina.meta.repos.marks import PIPELINE, Mark
from vitrina.meta.repos.runs import RunRepo
from vitrina.meta.repos.state import Checkpoint, Fenced, StateRepo
from vitrina.metrics.events import Meter
from vitrina.runner.runlog import RunLog
from vitrina.tracing import note, span

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
    has_recovered: bool = False
    total: Counts = NOTHING

    def commit(self, step: Step) -> Fenced:
        """Run a step and commit it, unless the lease is lost; tells what was asked of the run meanwhile."""
        started = time.monotonic()
        with span("vitrina.batch", seq=self.seq) as traced, transaction(self.conn, self.settings):
            # Behind a pooler every transaction may have another session: each says that it is the one that writes.
            Mark(self.conn, str(self.claim.pipeline_id), PIPELINE).leave()
            result = step(self.conn)
            self.conn.execute(STATE["approach_fence"], {"timeout": self.fence_timeout})
            fields = self._fields(result, time.monotonic() - started)
            runs = RunRepo(self.conn)
            runs.count(self.claim.run_id, result.counts, int(result.is_batch))
            if not result.quiet:
                runs.log(self.claim.run_id, "info", result.event, fields)
            recovers = self.claim.attempt > 1 and self._got_past(result)
            if recovers:
                self.conn.execute(LEASES["recover"], vars(self.claim))
            reach("before checkpoint")
            checkpoint = Checkpoint(result.position, self.columns, self.config_hash)
            fenced = StateRepo(self.conn).fence(self.claim.pipeline_id, self.claim.epoch, self.seq, checkpoint)
            note(traced, event=result.event, **vars(result.counts))
        reach("after checkpoint")
        self.seq += 1
        self.has_recovered |= recovers
        self.total += result.counts
        self._measure(result, time.monotonic() - started)
        if not result.quiet:
            self.log.show("info", result.event, fields)
        return fenced

    def _measure(self, result: StepResult, seconds: float) -> None:
        meter = Meter(self.claim.name, self.claim.target)
        meter.rows(result.counts)
        if result.is_batch:
            meter.batch(seconds)

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
