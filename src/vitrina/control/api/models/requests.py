"""Requests that are no runs as JSON, and their answers."""

from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from psycopg.rows import DictRow
from pydantic import BaseModel, ConfigDict, Field

from vitrina.control.api.models.body import Body


class ReconcileBody(Body):
    """What to compare."""

    sample: int = Field(default=20, ge=0, le=1000, description="How many keys of each kind to show.")
    control_field: str | None = Field(
        default=None, description="Whose min and max to compare; default: the cursor or key."
    )

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"sample": 5, "control_field": "rating"}]}
    )


class RepairBody(Body):
    """How far the repair may go."""

    allow_deletes: bool = Field(default=False, description="Let the mass-delete guard pass, this once.")

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"allow_deletes": False}]})


class PreviewBody(Body):
    """How much to show."""

    limit: int = Field(default=20, ge=1, le=200)

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"limit": 5}]})


class RequestOut(BaseModel):
    """A request to a runner, and its answer."""

    id: UUID
    pipeline_id: UUID | None
    kind: str
    status: Literal["REQUESTED", "RUNNING", "DONE", "FAILED"]
    asked_by: str
    params: dict[str, Any]
    result: dict[str, Any] | None
    error: str | None
    remedy: str | None = Field(description="What to do about the error.")
    created_at: datetime
    finished_at: datetime | None

    @classmethod
    def of(cls, row: DictRow) -> Self:
        """From the meta-store, without what is the runners' own."""
        return cls(**{name: row[name] for name in cls.model_fields})


class PreviewColumn(BaseModel):
    """A column of a preview."""

    name: str
    type: str


class PreviewStep(BaseModel):
    """The rows after one step of the plan."""

    type: Literal["SQL", "PYTHON"]
    name: str
    columns: list[PreviewColumn]
    rows: list[dict[str, Any]]


class PreviewOut(BaseModel):
    """The first rows, after the last step and after each."""

    columns: list[PreviewColumn]
    rows: list[dict[str, Any]]
    more: bool = Field(description="Whether the query gives more than these.")
    steps: list[PreviewStep]
    seconds: float
