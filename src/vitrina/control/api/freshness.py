"""What goes out as JSON about live marts and captures."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Self

from psycopg.rows import DictRow
from pydantic import BaseModel, Field

from vitrina.control.api.findings import FindingModel
from vitrina.control.services.freshness import Freshness, State
from vitrina.control.services.latency import Course, Point
from vitrina.control.services.waiting import Kind, Waiting
from vitrina.domain.lifecycle import Status
from vitrina.domain.wording import Because


class AuditOut(BaseModel):
    """How much of a live mart was read again in the background, and what was wrong."""

    share: float = Field(description="Of its keys, how many were read since then: 1 is all of them.")
    since: datetime
    wrong: int = Field(description="Rows that no change explains, found and put right since then.")
    rows: int = Field(description="Rows read since the first audit.")
    seconds: float = Field(description="The time that took.")
    next_at: datetime = Field(description="When it goes on.")

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """From the meta-store."""
        return cls(**{name: row[name] for name in cls.model_fields})


class WaitOut(BaseModel):
    """What a pipeline waits for, without a slot."""

    kind: Kind = Field(
        description="transaction: one that was open when it began to go live; neighbour: its source, its sink or the"
        " warehouse is away, and the run, or whoever follows, goes on once it answers; failure: it has failed, and"
        " on_failure says retry."
    )
    since: datetime
    whom: str = Field(description="In a word or two.")
    said: str = Field(description="In a sentence.")
    remedy: str
    holder: dict[str, Any] = Field(
        description="Of a transaction: as far as the reader's role may see; empty: nothing of it."
    )
    neighbour: str | None = Field(description="Who is away: a source's name, or a sink's prefix (`es:`).")
    next_at: datetime | None = Field(
        description="When it is tried next; sooner, if the neighbour answers sooner, and only then, if this is null."
    )
    tries: int | None = Field(description="How often in a row it got no further.")

    @classmethod
    def of(cls, found: Waiting | None) -> Self | None:
        """From the service's."""
        kept = {name: value for name, value in vars(found).items() if name != "name"} if found else {}
        return cls(**kept) if found else None


class LiveOut(BaseModel):
    """How fresh a live mart is."""

    state: State = Field(
        description="following: the mart has every captured change; catching up: some are still to come; comparing: it"
        " goes live; compares next: changes may be missing, or something else than rows has changed that the"
        " query depends on, so the next run compares in full; not live: it has never"
        " run; not captured: install a capture; capture stopped: it has what was captured, and nobody captures, or"
        " that fails, as `why` says; stopped: it is paused, failed or disabled."
    )
    why: str | None = Field(
        description="Why it compares, or will: what changed, or why changes may be missing; or why nobody captures."
    )
    why_code: str | None = Field(description="The code of that reason, for programs; null: it has none.")
    behind: int | None = Field(description="Changes in the log after its position, 0 if none concerns it.")
    rate: float | None = Field(description="Changes a second that it works off; null: nothing, or it stands still.")
    seconds_left: float | None = Field(description="Until it has caught up, at that rate.")
    compares_at: datetime | None = Field(
        description="A change may touch any key: when it compares in full, at the latest; sooner once it is quiet."
    )
    lag_ms: float | None = Field(description="How long the last change took from its commit to the mart.")
    committed_at: datetime | None = Field(description="When that change was committed.")
    applied_at: datetime | None = Field(description="When it was in the mart.")
    as_of: datetime | None = Field(description="The mart has everything that was committed before; an index shows it.")
    audit: AuditOut | None = Field(description="How it stands with the audit; null: it is off, or has not begun.")
    capture: list[str] = Field(description="What is wrong with the capture of its source; empty: nothing.")
    findings: list[FindingModel] = Field(description="The same, with codes.")

    @classmethod
    def of(cls, found: Freshness) -> Self:
        """From the service's."""
        audit = AuditOut.of(found.audit) if found.audit else None
        said = {"capture": [*map(str, found.capture)], "findings": [*map(FindingModel.of, found.capture)]}
        why_code = found.why.code.value if isinstance(found.why, Because) else None
        return cls(**vars(found) | said | {"audit": audit, "why_code": why_code})


class IncidentOut(BaseModel):
    """Something that is wrong with a pipeline until it has recovered."""

    kind: Literal["failed", "stale", "stuck", "wrong", "outage", "check"] = Field(
        description="stale: its mart is older than freshness_limit; stuck: it is behind, and nobody works at it; wrong:"
        " the audit found rows that no change explains, and has not yet read every key again since; outage: it waits"
        " for a source, a sink or the warehouse, for longer than outage_alert_seconds; check: rows are in the mart that"
        " break a check, or one could not be asked."
    )
    since: datetime

    @classmethod
    def of(cls, row: DictRow) -> Self:
        """From the meta-store."""
        return cls(kind=row["kind"], since=row["since"])


class LatencyPoint(BaseModel):
    """A minute or several, of a live mart."""

    at: datetime
    arrivals: int = Field(description="Slices of changes that came to the mart.")
    mean_ms: float | None = Field(description="How late they were, from the commit of the oldest change of each.")
    p50_ms: float | None = Field(description="As near as the buckets of the histogram tell.")
    p99_ms: float | None = Field(description="Likewise.")
    max_ms: float | None
    backlog: int = Field(description="Changes in the log that it lacked, at most.")

    @classmethod
    def of(cls, point: Point) -> Self:
        """From what was kept."""
        late = point.tally.ms_max if point.tally.arrivals else None
        return cls(
            at=point.at, arrivals=point.tally.arrivals, mean_ms=point.mean_ms, p50_ms=point.quantile_ms(0.5),
            p99_ms=point.quantile_ms(0.99), max_ms=late, backlog=point.backlog,
        )  # fmt: skip


class LatencyOut(BaseModel):
    """How late changes came to a live mart, oldest first; what has no point had neither changes nor a backlog."""

    minutes: int = Field(description="That a point stands for.")
    points: list[LatencyPoint]

    @classmethod
    def of(cls, found: Course) -> Self:
        """From what was kept."""
        return cls(minutes=found.minutes, points=[*map(LatencyPoint.of, found.points)])


class FollowerOut(BaseModel):
    """A live pipeline of a captured source."""

    name: str
    enabled: bool
    status: Status
    id: int | None = Field(description="The last change that it has read.")
    backlog: int | None = Field(description="Changes in the log after that; null: it will compare in full.")


class CaptureOut(BaseModel):
    """How the changes of a source are captured."""

    source: str
    kind: Literal["wal", "trigger"]
    tap: str | None = Field(description="Which package's tap reads it; null: Vitrina's own.")
    tables: list[str]
    slot: str | None = Field(description="The replication slot, and the publication; null by trigger.")
    runner: str | None = Field(description="Who captures now.")
    position: str | None = Field(description="How far the source has been read: an LSN, or a snapshot.")
    lag_seconds: float | None = Field(description="Since when it has not had everything.")
    lag_bytes: int | None = Field(description="WAL that the source keeps for the slot.")
    safe_wal_size: int | None = Field(
        description="WAL that may still be written before the slot is lost; null: no limit but the disk."
    )
    wal_status: str | None = Field(description="As in pg_replication_slots: reserved, extended, unreserved, lost.")
    last_commit: datetime | None = Field(description="Of the newest transaction captured.")
    last_id: int = Field(description="The newest change in the log.")
    log_start: int = Field(description="The oldest that is kept.")
    generation: int = Field(description="Another one: changes may be missing, so all followers compare in full.")
    generation_reason: str
    generation_at: datetime
    error: str | None = Field(description="Why it does not capture.")
    pipelines: list[FollowerOut]
    warnings: list[str] = Field(description="What to worry about.")
    findings: list[FindingModel] = Field(description="The same, with codes.")

    @classmethod
    def of(cls, row: dict[str, Any]) -> Self:
        """From a report."""
        return cls(**row | {"findings": [*map(FindingModel.of, row["findings"])]})
