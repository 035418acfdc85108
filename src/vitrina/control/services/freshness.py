"""How fresh live marts are: whether they follow, how late the last change arrived, how much is still to come."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from psycopg.rows import DictRow

from vitrina.capture.status import warnings
from vitrina.domain.findings import Code, Finding
from vitrina.domain.positions import Gap, LivePosition
from vitrina.meta.db import Connection, fetch_all, queries
from vitrina.meta.repos.audits import shown as audits_of
from vitrina.meta.repos.captures import CaptureRepo

SQL = queries("freshness")
State = Literal[
    "following", "catching up", "comparing", "compares next", "not live", "not captured", "capture stopped", "stopped"
]

HALT: State = "capture stopped"
HALTED = (Code.CAPTURE_FAILED, Code.NOBODY_CAPTURES, Code.WAL_LOST)  # what changes now, nobody notices
MOVES = timedelta(seconds=10)  # whatever has moved so lately is worked off as fast as it was
READ = ("following", "catching up", HALT)


@dataclass(frozen=True)
class Freshness:
    """Of one live mart, by the meta-store's clock."""

    state: State
    why: str | None  # it compares, or will
    behind: int | None  # changes in the log that it has not read, if some concern it; None: it cannot be told
    rate: float | None  # changes a second that it works off; None: it has stood still for a while
    seconds_left: float | None  # until it has caught up, at that rate
    compares_at: datetime | None  # when it compares at the latest, if its changes may touch any key
    lag_ms: float | None
    committed_at: datetime | None
    applied_at: datetime | None
    as_of: datetime | None
    audit: Mapping[str, Any] | None  # how much of it was read again since when, and what was wrong; None: not yet
    capture: Sequence[Finding]


def freshness(conn: Connection, ids: Sequence[UUID]) -> dict[UUID, Freshness]:
    """Of those of the pipelines that are live."""
    rows = fetch_all(conn, SQL["live"], {"ids": list(ids)})
    sources = {row["source"] for row in rows}
    captures = (capture for capture in CaptureRepo(conn).all() if capture.source in sources)
    worries = {capture.source: warnings(capture) for capture in captures}
    audits = audits_of(conn, [row["id"] for row in rows])
    return {row["id"]: _of(row, audits.get(row["id"]), worries.get(row["source"], ())) for row in rows}


def cursor_time(value: str | None) -> datetime | None:
    """Where the cursor of an incremental pipeline stands, if it is a time."""
    try:
        at = datetime.fromisoformat(value or "")
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _of(row: DictRow, audit: DictRow | None, worries: Sequence[Finding]) -> Freshness:
    position = LivePosition.parse(row["checkpoint"] or {})
    halted = next((worry for worry in worries if worry.code in HALTED), None)
    state = _state(row, halted)
    read = state in READ or (state == "stopped" and row["reason"] is None)
    behind: int | None = (row["backlog"] if row["concerned"] else 0) if read else None
    rests = bool(behind and position.not_before)
    moves = position.applied_at is not None and row["now"] - position.applied_at < MOVES
    rate = position.rate if behind and not rests and moves and state == "catching up" else None
    return Freshness(
        state=state,
        why=_why(row, position) if state in ("comparing", "compares next") else str(halted) if state == HALT else None,
        behind=behind,
        rate=rate,
        seconds_left=round(behind / rate, 1) if behind and rate else None,
        compares_at=position.compare_after if rests else None,
        lag_ms=position.lag_ms,
        committed_at=position.committed_at,
        applied_at=position.applied_at,
        as_of=_as_of(row, state, position),
        audit=audit if audit and audit["runs"] else None,
        capture=worries,
    )


def _as_of(row: DictRow, state: State, position: LivePosition) -> datetime | None:
    """Of an index: what a search sees counts, and not what has arrived."""
    arrived: datetime | None = row["caught_up_at"] if state in READ and not row["concerned"] else position.committed_at
    if arrived and position.unseen_from and position.is_unseen(row["now"]):
        return min(arrived, position.unseen_from)
    return arrived


def _state(row: DictRow, halted: Finding | None) -> State:
    if row["reason"] == Gap.NOT_CAPTURED:
        return "not captured"
    if not row["works"]:
        return "stopped"
    if row["reason"] == Gap.NOT_LIVE:
        return "not live"
    if row["reason"] == Gap.COMPARING:
        return "comparing"
    if row["changed"] or row["reason"]:
        return "compares next"
    if halted:
        return HALT
    return "catching up" if row["concerned"] else "following"


def _why(row: DictRow, position: LivePosition) -> str:
    """A reason that was stored, or what has changed; else changes may be missing from the log, for some reason."""
    if row["changed"] and row["reason"] != Gap.COMPARING:
        return str(row["changed"])
    if row["reason"] == Gap.COMPARING:
        return position.comparing or ""
    return Gap(row["reason"]).said(row["detail"])
