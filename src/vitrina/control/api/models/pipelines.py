"""Pipelines as JSON: how they are, how they are changed, what is asked of them."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo

from vitrina.control.api.checks import CheckOut
from vitrina.control.api.findings import FindingModel
from vitrina.control.api.freshness import IncidentOut, LiveOut, WaitOut
from vitrina.control.api.models.body import Body
from vitrina.control.api.models.runs import RunOut
from vitrina.control.services.freshness import Freshness
from vitrina.control.services.pipelines import Answer, Standing
from vitrina.control.services.waiting import Waiting
from vitrina.domain.checks import Check
from vitrina.domain.findings import Finding
from vitrina.domain.lifecycle import Status
from vitrina.domain.pipeline import Pipeline, Task
from vitrina.domain.run import RunOptions
from vitrina.meta.repos.pipelines import StoredPipeline


class MemberOut(BaseModel):
    """One of several targets: a pipeline of its own, which may be run, paused, reconciled and repaired by its name."""

    id: UUID
    name: str
    target: str
    status: Status

    @classmethod
    def all(cls, stored: StoredPipeline) -> list[Self]:
        """Of a pipeline of several."""
        return [cls(**vars(member)) for member in stored.members]


class PipelineOut(BaseModel):
    """A pipeline: its configuration, and where it stands."""

    id: UUID
    name: str
    status: Status
    version: int
    target: str | None = Field(
        description="Where it writes, after the last task's override; null for one of several targets."
    )
    members: list[MemberOut] = Field(default=[], description="Of several targets: each of them.")
    due_at: datetime | None = Field(description="When it will run next, or since when it has been waiting.")
    config: Pipeline
    findings: list[FindingModel] = Field(default=[], description="What validation said when it was saved.")
    live: LiveOut | None = Field(default=None, description="How fresh a live mart is; in GET alone.")
    waits: WaitOut | None = Field(default=None, description="What it waits for, without a slot; in GET alone.")

    @classmethod
    def of(
        cls,
        stored: StoredPipeline,
        findings: list[Finding] | None = None,
        live: Freshness | None = None,
        waits: Waiting | None = None,
    ) -> Self:
        """From the meta-store; a row written by hand may hold a configuration that no run would take."""
        return cls(
            id=stored.id,
            name=stored.name,
            status=stored.status,
            version=stored.version,
            target=stored.target,
            members=MemberOut.all(stored),
            due_at=stored.due_at,
            config=_as_it_is(stored.config),
            findings=[FindingModel.of(finding) for finding in findings or []],
            live=LiveOut.of(live) if live else None,
            waits=WaitOut.of(waits),
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
        "_Changes",
        __base__=Body,
        **{name: _or_null(it) for name, it in Pipeline.model_fields.items() if name != "id"},
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

    members: list["Requested"] = Field(default=[], description="Of several targets: what became of it for each.")

    @classmethod
    def of(cls, answer: Answer) -> Self:
        """From the service's."""
        return cls(**vars(answer) | {"members": [cls.of(each) for each in answer.members]})


class Reloaded(BaseModel):
    """Which version the run takes at its next batch."""

    version: int


class StatusOut(BaseModel):
    """Where a pipeline stands."""

    id: UUID
    name: str
    status: Status
    enabled: bool
    version: int
    due_at: datetime | None
    last_run: RunOut | None
    live: LiveOut | None = Field(description="For live: how fresh the mart is.")
    incidents: list[IncidentOut] = Field(description="What is wrong now, and was told by an alert.")
    waits: WaitOut | None = Field(description="What it waits for, without a slot.")
    checks: list[CheckOut] = Field(description="Its checks, and how each stands.")
    members: list[MemberOut] = Field(default=[], description="Of several targets: each of them.")

    @classmethod
    def of(cls, standing: Standing) -> Self:
        """From the meta-store."""
        stored, last_run, live, waits = standing.stored, standing.last_run, standing.live, standing.waits
        kept = {name: getattr(stored, name) for name in ("id", "name", "status", "enabled", "version", "due_at")}
        run = RunOut.of(last_run) if last_run else None
        wrong = [IncidentOut.of(row) for row in standing.incidents]
        fresh, wait = LiveOut.of(live) if live else None, WaitOut.of(waits)
        checks = [CheckOut.of(check) for check in standing.checks]
        members = MemberOut.all(stored)
        return cls(**kept, last_run=run, live=fresh, incidents=wrong, waits=wait, checks=checks, members=members)


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


def _as_it_is(config: dict[str, Any]) -> Pipeline:
    """Not validated: a row that was written by hand is shown as it is, right or wrong."""
    tasks = tuple(Task.model_construct(**task) for task in config["tasks"])
    lists = {"key": tuple(config["key"]), "labels": tuple(config.get("labels") or ()), "tasks": tasks}
    ids = {name: UUID(config[name]) for name in ("id", "part_of") if config.get(name)}
    lists["targets"] = tuple(config.get("targets") or ())
    if isinstance(checks := config.get("checks"), list):
        lists["checks"] = tuple(map(_check_as_it_is, checks))
    return Pipeline.model_construct(**(config | lists | ids))


def _check_as_it_is(check: Any) -> Any:
    try:
        return Check.model_validate(check)
    except ValidationError:
        return check
