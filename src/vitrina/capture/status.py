"""How captures stand: for people, with what they should worry about."""

from collections.abc import Iterator
from typing import Any

from vitrina.domain.errors import VitrinaError
from vitrina.meta.db import Connection, fetch_all, queries
from vitrina.meta.repos.captures import Capture, CaptureRepo
from vitrina.sql.lineage import tables_of

SQL = queries("captures")
LOW_WAL = 500_000_000  # bytes that may still be written before the slot is lost
SLOW_SECONDS = 60


def report(meta: Connection, capture: Capture) -> dict[str, Any]:
    """The row, the lag, and the followers; `warnings` first of all."""
    followers = CaptureRepo(meta).followers(capture.source)
    lag = (capture.now - capture.caught_up_at).total_seconds() if capture.caught_up_at else None
    held = capture.owner is not None and capture.expires_at is not None and capture.expires_at > capture.now
    return {
        "source": capture.source,
        "kind": capture.kind,
        "tap": capture.tap,
        "tables": list(capture.tables),
        "slot": capture.slot if capture.kind == "wal" else None,
        "runner": capture.runner if held else None,
        "position": capture.position,
        "lag_seconds": round(max(lag, 0.0), 1) if lag is not None else None,
        "lag_bytes": capture.lag_bytes,
        "safe_wal_size": capture.safe_wal_size,
        "wal_status": capture.wal_status,
        "last_commit": capture.committed_at,
        "last_id": capture.last_id,
        "log_start": capture.log_start,
        "generation": capture.generation,
        "generation_reason": capture.generation_reason,
        "generation_at": capture.generation_at,
        "error": capture.last_error,
        "pipelines": [dict(row) for row in followers],
        "warnings": [*_warnings(capture, held, lag)],
    }


def live_tables(meta: Connection, source: str) -> list[str]:
    """The tables that the live pipelines of a source read; what cannot be parsed has none."""
    tables: set[str] = set()
    for row in fetch_all(meta, SQL["live_selects"], {"source": source}):
        if row["query"] is None:
            tables |= {row["source_table"]} - {None}
            continue
        try:
            tables |= {*tables_of(row["query"])}
        except (VitrinaError, ValueError):  # the pipeline itself says what is wrong with it
            continue
    return sorted(tables)


def _warnings(capture: Capture, held: bool, lag: float | None) -> Iterator[str]:
    if capture.installed_at is None:
        yield "it is not installed to its end; run: vitrina capture install"
        return
    if capture.last_error:
        yield f"the last attempt failed: {capture.last_error}"
    elif not held:
        yield "no runner captures; start one with: vitrina runner"
    if lag is not None and lag > SLOW_SECONDS:
        yield f"it has been behind for {lag:.0f} s"
    if capture.wal_status == "lost":
        yield "the WAL that was not read is gone; everything is compared in full once a runner captures again"
    elif capture.safe_wal_size is not None and capture.safe_wal_size < LOW_WAL:
        left = f"{capture.safe_wal_size / 1e6:,.0f} MB"
        yield f"after {left} more of WAL the slot is lost; let a runner catch up, or raise max_slot_wal_keep_size"
