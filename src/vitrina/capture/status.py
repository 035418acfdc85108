"""How captures stand: for people, with what they should worry about."""

from collections.abc import Iterator
from typing import Any

from vitrina.domain.errors import VitrinaError
from vitrina.domain.findings import Code, Finding
from vitrina.domain.wording import Data
from vitrina.meta.db import Connection, fetch_all, queries
from vitrina.meta.repos.captures import Capture, CaptureRepo
from vitrina.sql.lineage import tables_of

SQL = queries("captures")
LOW_WAL = 500_000_000  # bytes that may still be written before the slot is lost
SLOW_SECONDS = 60


def report(meta: Connection, capture: Capture) -> dict[str, Any]:
    """The row, the lag, the followers, and what to worry about."""
    followers, lag = CaptureRepo(meta).followers(capture.source), _lag(capture)
    return {
        "source": capture.source,
        "kind": capture.kind,
        "tap": capture.tap,
        "tables": list(capture.tables),
        "slot": capture.read_slot if capture.kind == "wal" else None,
        "runner": capture.runner if _is_held(capture) else None,
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
        "warnings": [*map(str, warnings(capture))],
        "findings": warnings(capture),
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


def warnings(capture: Capture) -> list[Finding]:
    """What to worry about."""
    return [Finding("warning", capture.source, code, data) for code, data in _wrong(capture)]


def _wrong(capture: Capture) -> Iterator[tuple[Code, Data]]:
    if capture.installed_at is None:
        yield Code.CAPTURE_UNFINISHED, {}
        return
    if capture.last_error:
        yield Code.CAPTURE_FAILED, {"error": capture.last_error}
    elif not _is_held(capture):
        yield Code.NOBODY_CAPTURES, {}
    lag = _lag(capture)
    if lag is not None and lag > SLOW_SECONDS:
        yield Code.CAPTURE_BEHIND, {"seconds": lag}
    if capture.wal_status == "lost":
        yield Code.WAL_LOST, {}
    elif capture.safe_wal_size is not None and capture.safe_wal_size < LOW_WAL:
        yield Code.WAL_SHORT, {"megabytes": capture.safe_wal_size / 1e6}


def _lag(capture: Capture) -> float | None:
    return (capture.now - capture.caught_up_at).total_seconds() if capture.caught_up_at else None


def _is_held(capture: Capture) -> bool:
    return capture.owner is not None and capture.expires_at is not None and capture.expires_at > capture.now
