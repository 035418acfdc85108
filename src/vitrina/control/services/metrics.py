"""How things stand, for Prometheus: read from the meta-store, the same whichever process is asked."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock

from prometheus_client import CollectorRegistry, Info, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from psycopg.rows import DictRow

from vitrina import __version__
from vitrina.control.plane import ControlPlane
from vitrina.control.services.freshness import cursor_time
from vitrina.domain.lifecycle import Status
from vitrina.meta.db import fetch_all, fetch_one, queries

SQL = queries("metrics")
KEPT_SECONDS = 5.0
MART = ("pipeline", "target")
# Of each pipeline: name, what it is, and which column of the query says it; those that do not apply are left out.
PIPELINE = (
    ("enabled", "Whether runners may take it.", "enabled"),
    ("last_success_timestamp_seconds", "When its last successful run ended.", "succeeded_at"),
    ("age_seconds", "How old its mart is: it has everything that was committed before.", "age"),
    ("freshness_limit_seconds", "How old its mart may be.", "allowed"),
    ("stale", "Whether its mart is older than that.", "stale"),
    ("lag_seconds", "live: how long its last change took; incremental: how old its cursor is.", "lag"),
    ("backlog_changes", "live: changes in the log that its mart does not have yet.", "backlog"),
    ("stuck", "live: whether it is behind, and nobody works at it.", "stuck"),
    ("captured", "live: whether the changes of its source are being captured.", "captured"),
    ("checks_broken", "Checks that are not kept, as they were asked last.", "checks_broken"),
    ("audited_share", "live: how much of the mart the audit has read, of the last whole lap or the first.", "audited"),
    ("audited_rows", "live: rows that the audit has read, in all.", "audited_rows"),
    ("audit_wrong_rows", "live: rows that the audit found wrong, in all.", "wrong_rows"),
    ("audit_seconds", "live: time that the audit has taken, in all.", "audit_seconds"),
)
# Of everything else: name, what it is, and the columns, by status where there are several.
SYSTEM: tuple[tuple[str, str, str | dict[str, str]], ...] = (
    (
        "runners",
        "Runner processes: alive, or silent without having signed off, within the last hour.",
        {"alive": "runners_alive", "silent": "runners_silent"},
    ),
    ("runners_heartbeat_age_seconds", "Since any runner was seen.", "heartbeat_age"),
    ("neighbours_silent", "Sources and sinks that do not answer some runner.", "neighbours_silent"),
    (
        "captures",
        "Captured sources: capturing, idle (nobody captures) or failed.",
        {"capturing": "captures_capturing", "idle": "captures_idle", "failed": "captures_failed"},
    ),
    ("capture_lag_seconds", "How long the slowest capture has not had everything.", "capture_lag"),
    ("capture_slot_lag_bytes", "WAL that a source keeps for a slot, the most of all.", "slot_lag"),
    ("capture_slot_safe_bytes", "WAL until a slot is lost, the least of all, where there is a limit.", "slot_safe"),
    ("change_log_changes", "Changes that are kept for live pipelines.", "log_changes"),
    ("alerts", "Alerts: pending, or given_up.", {"pending": "alerts_pending", "given_up": "alerts_given_up"}),
)


@dataclass(eq=False)
class StateMetrics(Collector):
    """The exposition of one API process, made anew every few seconds at most, however many ask."""

    plane: ControlPlane
    _lock: Lock = field(default_factory=Lock)
    _text: bytes = b""
    _made_at: float = -KEPT_SECONDS

    def __post_init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        Info("vitrina_build", "The version of this process.", registry=self.registry).info({"version": __version__})

    def exposition(self) -> bytes:
        """As Prometheus reads it."""
        with self._lock:
            if time.monotonic() - self._made_at >= KEPT_SECONDS:
                self._text = generate_latest(self.registry)
                self._made_at = time.monotonic()
            return self._text

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """All of it, as of one moment."""
        with self.plane.snapshot() as conn:
            pipelines = fetch_all(conn, SQL["pipelines"])
            system = fetch_one(conn, SQL["system"], {"seconds": self.plane.settings.lease_seconds})
        yield from _statuses(pipelines)
        for row in pipelines:
            row["lag"] = _lag(row)
        for name, about, column in PIPELINE:
            yield _of_pipelines(name, about, column, pipelines)
        yield from _system(system or {})


def _statuses(pipelines: list[DictRow]) -> Iterator[GaugeMetricFamily]:
    counts = GaugeMetricFamily("vitrina_pipelines", "Pipelines in each status.", labels=["status"])
    for status in Status:
        counts.add_metric([status], sum(row["status"] == status for row in pipelines))
    yield counts
    each = GaugeMetricFamily("vitrina_pipeline_status", "1 for where it stands.", labels=[*MART, "status"])
    for row in pipelines:
        each.add_metric([row["pipeline"], row["target"], row["status"]], 1)
    yield each


def _of_pipelines(name: str, about: str, column: str, pipelines: list[DictRow]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"vitrina_pipeline_{name}", about, labels=MART)
    for row in pipelines:
        if row[column] is not None:
            family.add_metric([row["pipeline"], row["target"]], float(row[column]))
    return family


def _system(row: DictRow) -> Iterator[GaugeMetricFamily]:
    for name, about, columns in SYSTEM:
        by_status = {"": columns} if isinstance(columns, str) else columns
        family = GaugeMetricFamily(f"vitrina_{name}", about, labels=[] if isinstance(columns, str) else ["status"])
        for status, column in by_status.items():
            if row[column] is not None:
                family.add_metric([status] if status else [], float(row[column]))
        yield family


def _lag(row: DictRow) -> float | None:
    if row["mode"] == "live":
        return row["lag_ms"] / 1000 if row["lag_ms"] is not None else None
    at = cursor_time(row["last_processed_value"])
    return max((row["now"] - at).total_seconds(), 0.0) if at else None
