"""What goes in and out as JSON."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from uuid import UUID

from psycopg.rows import DictRow
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

from vitrina import __version__
from vitrina.control.api.findings import FindingModel
from vitrina.control.api.freshness import IncidentOut, LiveOut, WaitOut
from vitrina.control.services.freshness import Freshness
from vitrina.control.services.pipelines import Answer, Standing
from vitrina.domain.events import Said, shown
from vitrina.domain.findings import Finding
from vitrina.domain.lifecycle import RunStatus, Status
from vitrina.domain.pipeline import Pipeline, Task
from vitrina.domain.run import RunOptions
from vitrina.meta.repos.pipelines import StoredPipeline


class Body(BaseModel):
    """A body with a field we do not know is refused."""

    model_config = ConfigDict(extra="forbid")


class ProblemModel(BaseModel):
    """An error: RFC 9457, with the remedy and what was found."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="What is wrong.")
    instance: str = Field(description="The path that was asked for.")
    remedy: str = Field(default="", description="What to do about it.")
    findings: list[FindingModel] = []

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Conflict",
                    "status": 409,
                    "detail": "mode cannot be changed while pipeline 'film_dim' is RUNNING",
                    "instance": "/api/v1/pipelines/film_dim",
                    "remedy": "pause it, wait for PAUSED, then edit",
                    "findings": [],
                }
            ]
        }
    )


class PipelineOut(BaseModel):
    """A pipeline: its configuration, and where it stands."""

    id: UUID
    name: str
    status: Status
    version: int
    target: str | None = Field(description="Where it writes, after the last task's override.")
    due_at: datetime | None = Field(description="When it will run next, or since when it has been waiting.")
    config: Pipeline
    findings: list[FindingModel] = Field(default=[], description="What validation said when it was saved.")
    live: LiveOut | None = Field(default=None, description="How fresh a live mart is; in GET alone.")

    @classmethod
    def of(cls, stored: StoredPipeline, findings: list[Finding] | None = None, live: Freshness | None = None) -> Self:
        """From the meta-store; a row written by hand may hold a configuration that no run would take."""
        return cls(
            id=stored.id,
            name=stored.name,
            status=stored.status,
            version=stored.version,
            target=stored.target,
            due_at=stored.due_at,
            config=_as_it_is(stored.config),
            findings=[FindingModel.of(finding) for finding in findings or []],
            live=LiveOut.of(live) if live else None,
        )


def _or_null(field: FieldInfo) -> tuple[Any, Any]:
    """With its limits and its other names; what it is for is said where it is made."""
    kind: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    validating, serializing = field.validation_alias, field.serialization_alias
    return kind | None, Field(default=None, validation_alias=validating, serialization_alias=serializing)


class PipelinePage(BaseModel):
    """One page of the list."""

    items: list[PipelineOut]
    next: str | None = Field(description="Pass it as `after` for the next page; null on the last.")


if TYPE_CHECKING:
    _Changes = Body
else:  # each field of a pipeline, or null
    _Changes = create_model(
        "_Changes", __base__=Body, **{name: _or_null(it) for name, it in Pipeline.model_fields.items() if name != "id"}
    )


class PipelinePatch(_Changes):
    """The fields to change; what is left out stays, null puts a field back to its default."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"batch_size": 10_000}]})


class RunBody(Body):
    """What to do differently this once."""

    restart: bool = Field(default=False, description="Drop the checkpoint first.")
    allow_deletes: bool = Field(default=False, description="Let the mass-delete guard pass, this once.")
    rebuild: bool = Field(default=False, description="Write every row of the mart anew, at once.")

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"restart": True}]})

    def options(self) -> RunOptions:
        """For the service."""
        return RunOptions(restart=self.restart, allow_deletes=self.allow_deletes, rebuild=self.rebuild)


class PauseBody(Body):
    """How soon."""

    now: bool = Field(
        default=False, description="Cancel what is under way instead of waiting for the end of its batch."
    )

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"now": True}]})


class Requested(BaseModel):
    """What became of a request to run or pause."""

    id: UUID
    name: str
    status: Status
    changed: bool = Field(description="False: it was so already, and nothing was done.")
    after_run: int = Field(
        description="The runs that serve this request have greater ids; one under way is among them."
    )

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """From the service's."""
        return cls(**vars(answer))


class StatusOut(BaseModel):
    """Where a pipeline stands."""

    id: UUID
    name: str
    status: Status
    enabled: bool
    version: int
    due_at: datetime | None
    last_run: "RunOut | None"
    live: LiveOut | None = Field(description="For live: how fresh the mart is.")
    incidents: list[IncidentOut] = Field(description="What is wrong now, and was told by an alert.")
    waits: WaitOut | None = Field(description="For live: whom it waits for before it can go live, without a slot.")

    @classmethod
    def of(cls, standing: Standing) -> Self:
        """From the meta-store."""
        stored, last_run, live, waits = standing.stored, standing.last_run, standing.live, standing.waits
        kept = {name: getattr(stored, name) for name in ("id", "name", "status", "enabled", "version", "due_at")}
        run = RunOut.of(last_run) if last_run else None
        wrong = [IncidentOut.of(row) for row in standing.incidents]
        fresh, wait = LiveOut.of(live) if live else None, WaitOut.of(waits) if waits else None
        return cls(**kept, last_run=run, live=fresh, incidents=wrong, waits=wait)


class StateOut(BaseModel):
    """The checkpoint."""

    pipeline_id: UUID
    checkpoint: dict[str, Any] | None
    last_processed_value: str | None
    last_processed_id: str | None
    epoch: int
    seq: int
    config_hash: str | None
    updated_at: datetime
    horizon: dict[str, Any] | None = Field(
        description="For incremental: up to where rows are final now, and who holds it back."
    )
    live: LiveOut | None = Field(description="For live: how fresh the mart is.")


class RunOut(BaseModel):
    """One attempt."""

    id: int
    pipeline_id: UUID
    name: str
    status: RunStatus
    attempt: int
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
    error: str | None
    remedy: str | None = Field(description="What to do about the error.")

    @classmethod
    def of(cls, row: DictRow) -> Self:
        """From the meta-store."""
        return cls(**row)


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


class VersionOut(BaseModel):
    """The configuration at some time."""

    version: int
    config: dict[str, Any]
    changed_at: datetime
    changed_by: str


class Validated(BaseModel):
    """What validation found."""

    valid: bool
    findings: list[FindingModel]

    @classmethod
    def of(cls, findings: list[Finding]) -> Self:
        """From the service's."""
        valid = not any(finding.level == "error" for finding in findings)
        return cls(valid=valid, findings=[FindingModel.of(finding) for finding in findings])


class ReconcileBody(Body):
    """What to compare."""

    sample: int = Field(default=20, ge=0, le=1000, description="How many keys of each kind to show.")
    control_field: str | None = Field(
        default=None, description="Whose min and max to compare; default: the cursor or key."
    )

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"sample": 5, "control_field": "rating"}]}
    )


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
    neighbours: dict[str, "OutageOut"] = Field(
        default_factory=dict, description="Sources by name, and sinks by prefix (`es:`), that do not answer it."
    )


class OutageOut(BaseModel):
    """Since when somebody does not answer, and what the last attempt said."""

    since: datetime
    error: str


class LineageOut(BaseModel):
    """From tables to a mart."""

    pipeline: str
    target: str | None
    tables: list[str]
    columns: list["ColumnLineage"]
    error: str | None = None


class ColumnLineage(BaseModel):
    """Where a column of a mart comes from."""

    name: str
    type: str
    sources: list[str] = Field(description="The table columns it is computed from, as schema.table.column.")


class Health(BaseModel):
    """Whether this process can serve."""

    status: Literal["ok", "unavailable"]
    version: str = Field(default_factory=lambda: __version__, description="Of the program.")
    checks: dict[str, str]


class Reloaded(BaseModel):
    """Which version the run takes at its next batch."""

    version: int


class RepairBody(Body):
    """How far the repair may go."""

    allow_deletes: bool = Field(default=False, description="Let the mass-delete guard pass, this once.")

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"allow_deletes": False}]})


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


def _as_it_is(config: dict[str, Any]) -> Pipeline:
    """Not validated: a row that was written by hand is shown as it is, right or wrong."""
    tasks = tuple(Task.model_construct(**task) for task in config["tasks"])
    return Pipeline.model_construct(
        **(config | {"id": UUID(config["id"]), "key": tuple(config["key"]), "tasks": tasks})
    )
