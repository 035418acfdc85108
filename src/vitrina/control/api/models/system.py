"""Runners, lineage and health as JSON."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

from vitrina import __version__
from vitrina.control.api.findings import FindingModel


class OutageOut(BaseModel):
    """Since when somebody does not answer, and what the last attempt said."""

    since: datetime
    error: str


class RunnerOut(BaseModel):
    """A runner process."""

    id: UUID
    name: str
    version: str
    slots: int
    busy: int
    started_at: datetime
    seen_at: datetime
    alive: bool
    neighbours: dict[str, OutageOut] = Field(
        default_factory=dict, description="Sources by name, and sinks by prefix (`es:`), that do not answer it."
    )


class ColumnLineage(BaseModel):
    """Where a column of a mart comes from."""

    name: str
    type: str
    sources: list[str] = Field(description="The table columns it is computed from, as schema.table.column.")


class LineageOut(BaseModel):
    """From tables to a mart."""

    pipeline: str
    target: str | None
    tables: list[str]
    columns: list[ColumnLineage]
    error: str | None = None
    finding: FindingModel | None = Field(default=None, description="The error by its code.")

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """From the service's."""
        found = row.get("finding")
        return cls.model_validate({**row, "finding": FindingModel.of(found) if found else None})


class Health(BaseModel):
    """Whether this process can serve."""

    status: Literal["ok", "unavailable"]
    version: str = Field(default_factory=lambda: __version__, description="Of the program.")
    checks: dict[str, str]
