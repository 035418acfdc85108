"""Runs as JSON, and what they say."""

from datetime import datetime
from typing import Any, Self
from uuid import UUID

from psycopg.rows import DictRow
from pydantic import BaseModel, Field

from vitrina.control.api.checks import RunCheckOut
from vitrina.domain.events import Said, shown
from vitrina.domain.lifecycle import RunStatus


class RunOut(BaseModel):
    """One run, with as many attempts as it took."""

    id: int
    pipeline_id: UUID
    name: str
    status: RunStatus
    attempt: int = Field(description="The number of the last one.")
    due_at: datetime | None
    options: dict[str, Any]
    config_version: int
    runner: str
    started_at: datetime
    finished_at: datetime | None
    rows_read: int
    rows_written: int
    rows_deleted: int
    rows_unchanged: int
    batches: int
    error: str | None = Field(description="Of the last attempt that failed, if the run has not succeeded.")
    remedy: str | None = Field(description="What to do about the error.")
    waiting_since: datetime | None = Field(description="It is open, and nobody has it: it goes on in another attempt.")
    broken_checks: list[RunCheckOut] = Field(description="Those of its checks that were not kept.")

    @classmethod
    def of(cls, row: DictRow) -> Self:
        """From the meta-store."""
        return cls(**row | {"broken_checks": [RunCheckOut.of(check) for check in row["broken_checks"]]})


class AttemptOut(BaseModel):
    """One attempt of a run."""

    attempt: int
    runner: str
    started_at: datetime
    finished_at: datetime | None
    status: RunStatus
    error: str | None
    remedy: str | None


class RunWithAttempts(RunOut):
    """One run, and its attempts in order."""

    attempts: list[AttemptOut]


class RunPage(BaseModel):
    """One page of runs, newest first."""

    items: list[RunOut]
    next: int | None = Field(description="Pass it as `before` for the next page; null on the last.")


class EventOut(BaseModel):
    """Something a run said."""

    id: int
    at: datetime
    level: str
    event: str = Field(description="What it is, for programs: stable, and listed in docs/reference.md.")
    message: str = Field(description="The same for people, in English.")
    fields: dict[str, Any]

    @classmethod
    def of(cls, row: Said) -> Self:
        """From the meta-store."""
        return cls.model_validate({**row, "message": shown(row["event"], row["fields"])[0]})
