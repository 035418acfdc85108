"""What this process has done since it started: runs, rows, batches, retries, documents, deliveries.

Labels are pipelines, their targets and statuses: there are as many series as there are pipelines, and no more.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)

from vitrina import __version__
from vitrina.domain.errors import LeaseLost
from vitrina.domain.latency import BOUNDS, Latencies
from vitrina.domain.lifecycle import RunStatus
from vitrina.domain.run import Counts

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, which nobody asks for
REGISTRY = CollectorRegistry()
MART = ("pipeline", "target")
ENDS = (RunStatus.SUCCESS, RunStatus.FAILED, RunStatus.PAUSED)
RUN_SECONDS = (0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200)
BATCH_SECONDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300)

RUNS = Counter("vitrina_runs", "Attempts that ended, by how.", (*MART, "status"), registry=REGISTRY)
ROWS = {
    "read": Counter("vitrina_rows_read", "Rows read from sources.", MART, registry=REGISTRY),
    "written": Counter("vitrina_rows_written", "Rows inserted or updated in marts.", MART, registry=REGISTRY),
    "deleted": Counter("vitrina_rows_deleted", "Rows deleted from marts.", MART, registry=REGISTRY),
    "unchanged": Counter("vitrina_rows_unchanged", "Rows that were right already.", MART, registry=REGISTRY),
}
RUN_DURATION = Histogram(
    "vitrina_run_duration_seconds", "How long an attempt took.", MART, buckets=RUN_SECONDS, registry=REGISTRY
)
BATCH_DURATION = Histogram(
    "vitrina_batch_duration_seconds", "How long a batch took.", MART, buckets=BATCH_SECONDS, registry=REGISTRY
)
LATENCY = Histogram(
    "vitrina_live_latency_seconds",
    "How late changes came to a live mart, from their commit.",
    MART,
    buckets=BOUNDS,
    registry=REGISTRY,
)
LAKE_SPARED = Counter(
    "vitrina_lake_files_spared",
    "Files that readers of lakes need not open any more, of tables at rest.",
    registry=REGISTRY,
)
LAKE_REMOVED = Counter(
    "vitrina_lake_files_removed",
    "Files of tables at rest that were removed, since nobody knew them.",
    registry=REGISTRY,
)
BROKEN = Counter(
    "vitrina_checks_broken",
    "Checks that a run has found not kept: broken, blocked or unasked.",
    (*MART, "status"),
    registry=REGISTRY,
)
RETRIES = Counter("vitrina_retries", "Attempts after one that failed.", MART, registry=REGISTRY)
LEASES_LOST = Counter("vitrina_leases_lost", "Runs that another runner took over.", MART, registry=REGISTRY)
ITEMS = Counter(
    "vitrina_elasticsearch_items",
    "Items of bulk requests: taken, retried, conflict or refused.",
    ("target", "status"),
    registry=REGISTRY,
)
DELIVERIES = Counter(
    "vitrina_alert_deliveries",
    "Attempts to deliver alerts: delivered, retried or given_up.",
    ("status",),
    registry=REGISTRY,
)
for _status in ("delivered", "retried", "given_up"):
    DELIVERIES.labels(_status)
SLOTS = Gauge("vitrina_runner_slots", "Pipelines that this runner runs at once.", registry=REGISTRY)
BUSY = Gauge("vitrina_runner_busy_slots", "Pipelines that it runs now.", registry=REGISTRY)
HEARTBEAT = Gauge(
    "vitrina_runner_heartbeat_timestamp_seconds", "When its last heartbeat reached the meta-store.", registry=REGISTRY
)
Info("vitrina_build", "The version of this process.", registry=REGISTRY).info({"version": __version__})
ProcessCollector(registry=REGISTRY)


@dataclass
class Ending:
    """How an attempt ended; it has failed unless somebody says otherwise."""

    status: RunStatus | None = RunStatus.FAILED  # None: whoever took it over counts it


@dataclass(frozen=True)
class Meter:
    """Counts for one pipeline."""

    pipeline: str
    target: str

    @contextmanager
    def attempt(self) -> Iterator[Ending]:
        """One attempt, however it ends. Its counters begin at zero, so that the first of each kind is an increase."""
        for counter in (RETRIES, LEASES_LOST):
            counter.labels(self.pipeline, self.target)
        for status in ENDS:
            RUNS.labels(self.pipeline, self.target, status)
        ending, started = Ending(), time.monotonic()
        try:
            yield ending
        except LeaseLost:
            ending.status = None
            raise
        finally:
            RUN_DURATION.labels(self.pipeline, self.target).observe(time.monotonic() - started)
            if ending.status:
                self.ended(ending.status)

    def ended(self, status: RunStatus) -> None:
        """An attempt, ours or one that a lost runner left behind."""
        RUNS.labels(self.pipeline, self.target, status).inc()

    def batch(self, seconds: float) -> None:
        """A batch that is committed."""
        BATCH_DURATION.labels(self.pipeline, self.target).observe(seconds)

    def rows(self, counts: Counts) -> None:
        """Rows of a step that is committed."""
        for name, rows in vars(counts).items():
            ROWS[name].labels(self.pipeline, self.target).inc(rows)

    def retry(self) -> None:
        """Another attempt."""
        RETRIES.labels(self.pipeline, self.target).inc()

    def check_broken(self, outcome: str) -> None:
        """A check is not kept; told once a run."""
        BROKEN.labels(self.pipeline, self.target, outcome).inc()

    def lease_lost(self) -> None:
        """Somebody else has it now."""
        LEASES_LOST.labels(self.pipeline, self.target).inc()


def tell_latency(latencies: Latencies, pipeline_id: UUID, meter: Meter, at: datetime, seconds: float) -> None:
    """A slice of changes has come to a live mart and is committed: at this time, so late. For Prometheus, and to be
    written down with those of other marts (`runner/latency.py`)."""
    LATENCY.labels(meter.pipeline, meter.target).observe(seconds)
    latencies.count(pipeline_id, at, seconds)


def count_items(target: str, status: str, items: int) -> None:
    """What became of items of a bulk request."""
    if items:
        ITEMS.labels(target, status).inc(items)


def count_delivery(status: str) -> None:
    """What became of an attempt to deliver an alert."""
    DELIVERIES.labels(status).inc()


def beat(slots: int, busy: int) -> None:
    """The meta-store has seen us."""
    SLOTS.set(slots)
    BUSY.set(busy)
    HEARTBEAT.set(time.time())
