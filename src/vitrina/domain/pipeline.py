"""A pipeline's configuration: one model for the table row, the API's JSON and the YAML file."""

import hashlib
import json
from functools import cache
from typing import Any, Literal, Self, TypeAlias
from uuid import UUID, uuid4

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, field_validator

from vitrina.domain.checks import MOST, Check
from vitrina.domain.errors import ConfigError
from vitrina.domain.faults import Fault, Rule
from vitrina.domain.fields import is_deeper_than, shortened, wrong_fields
from vitrina.domain.labels import read_labels
from vitrina.domain.partitions import read_partitions
from vitrina.domain.reasons import Reason
from vitrina.domain.refusals import Refusal
from vitrina.domain.schedule import check_duration, check_schedule
from vitrina.domain.wording import Because

ModeName: TypeAlias = Literal["full", "incremental", "live"]
WAREHOUSE = "warehouse"
LONGEST_NAME, MOST_TARGETS = 200, 16
BATCH_SIZE = 5_000  # unless a pipeline, or its kind of mart, says another
MAX_DEPTH = 32  # of what is kept as it is: Elasticsearch takes 20, and JSON and YAML are read and shown recursively


class Task(BaseModel):
    """One step of a task plan."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    order_index: int
    task_type: Literal["SQL", "PYTHON"]
    body: str
    target_table: str | None = None


class Pipeline(BaseModel):
    """What a user writes: where from, where to, by which key, how."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: UUID = Field(default_factory=uuid4, description="Generated if left out.")
    name: str = Field(min_length=1, max_length=LONGEST_NAME, description="Unique.")
    description: str = Field(default="", description="For people.")
    labels: tuple[str, ...] = Field(
        default=(), description="name:value, or a name: pipelines are found, grouped and alerted about by them."
    )
    type: Literal["SQL", "PYTHON"] = Field(default="SQL", description="PYTHON: rows go through `python_task`.")
    source: str = Field(default=WAREHOUSE, description="The warehouse itself, or a Postgres that the settings name.")
    source_type: Literal["postgres"] = Field(default="postgres", description="What the source is.")
    source_query: str | None = Field(default=None, description="One SELECT; the mart is kept equal to it.")
    source_table: str | None = Field(default=None, description="Instead of a query: all of this schema.table.")
    target_table: str | None = Field(
        default=None,
        description="The mart: schema.table, es:index, os:index, ch:database.table, lake:namespace.table,"
        " s3://bucket/folder/ or file:///folder/; created if missing.",
    )
    targets: tuple[str, ...] = Field(
        default=(), description="Instead of target_table: several marts of the one query, each with its own position."
    )
    part_of: UUID | None = Field(
        default=None, description="Of a mart that is one of several targets: the pipeline that keeps it. Not to be set."
    )
    key: tuple[str, ...] = Field(
        default=(), description="Columns that identify a row; default: the target's primary key."
    )
    mode: ModeName = Field(
        default="full",
        description="full: compare everything, write what differs. incremental: follow a cursor. live: follow changes.",
    )
    incremental_key: str | None = Field(default=None, description="A column that grows with every change.")
    incremental_id_key: str | None = Field(default=None, description="A unique column that breaks ties.")
    batch_size: int = Field(default=BATCH_SIZE, ge=1, le=1_000_000, description="Rows in a transaction.")
    schedule_interval: str | None = Field(
        default=None, description="30s, 5m, 1h, 1d, or a cron line; left out: on request only."
    )
    after: Literal["upstream"] | None = Field(
        default=None, description="upstream: due after the pipelines whose marts it reads, besides its schedule."
    )
    freshness_limit: str | None = Field(
        default=None, description="30s, 15m, 1h, 1d: a mart that is older is stale, and an alert says so."
    )
    on_failure: Literal["stop", "retry"] = Field(
        default="stop",
        description="After what only a person can mend: stop until somebody runs it, or try again later.",
    )
    enabled: bool = Field(default=True, description="Whether runners may take it.")
    python_task: str | None = Field(
        default=None,
        description="A registered transform, for type PYTHON.",
        validation_alias=AliasChoices("python_task", "task_name"),
        serialization_alias="python_task",
    )
    on_drift: Literal["fail", "add"] = Field(default="fail", description="When the query has a new column.")
    publish: Literal["batches", "atomic"] = Field(default="batches", description="Whether readers see batches.")
    mapping: dict[str, dict[str, Any]] = Field(
        default={}, description="For an index: how a field is mapped, instead of what its type gives."
    )
    settings: dict[str, Any] = Field(default={}, description="For an index: its settings, such as analysers.")
    adopt: bool = Field(default=False, description="For an index: take over one that somebody else made.")
    format: Literal["parquet"] | None = Field(default=None, description="For a mart in files: what they are; parquet.")
    partition_by: tuple[str, ...] = Field(
        default=(),
        description="For a table in a lake: how its rows are kept apart: month(column), bucket(16, column),"
        " truncate(4, column), or a column.",
    )
    impact: dict[str, str] = Field(
        default={}, description="For live: by table, a SELECT of the keys that rows of `changed` touch."
    )
    checks: tuple[Check, ...] = Field(
        default=(), description="What is asked of its rows, before they are published (block) or after (warn)."
    )
    keep_changes: int = Field(
        default=0,
        ge=0,
        le=50,
        description="Of so many of the rows that a run changes, what stood there before and after is kept, for people.",
    )
    tasks: tuple[Task, ...] = Field(default=(), description="One SQL task, then transforms; wins over source_query.")

    @field_validator("labels", mode="before")
    @classmethod
    def _labels_are_readable(cls, value: Any) -> Any:
        return read_labels(value)

    @field_validator("mapping", "settings", mode="before")
    @classmethod
    def _is_not_deep(cls, value: Any) -> Any:
        if is_deeper_than(value, MAX_DEPTH):
            raise ValueError(Fault.TOO_DEEP.of(limit=MAX_DEPTH))
        return value

    @field_validator("partition_by", mode="before")
    @classmethod
    def _partitions_are_readable(cls, value: Any) -> Any:
        return read_partitions(value)

    @field_validator("targets")
    @classmethod
    def _targets_differ(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        targets = tuple(target.strip() for target in value)
        if not all(targets):
            raise ValueError(Rule.EMPTY_TARGET.of())
        twice = [target for target in targets if targets.count(target) > 1]
        if twice:
            raise ValueError(Rule.NAMED_TWICE.of(name=twice[0]))
        if len(targets) > MOST_TARGETS:
            raise ValueError(Rule.MANY_TARGETS.of(count=len(targets), most=MOST_TARGETS))
        return targets

    @field_validator("checks")
    @classmethod
    def _checks_have_names(cls, value: tuple[Check, ...]) -> tuple[Check, ...]:
        names = [check.name for check in value]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ValueError(Rule.CHECKS_OF_ONE_NAME.of(name=twice[0]))
        if len(names) > MOST:
            raise ValueError(Rule.MANY_CHECKS.of(count=len(names), most=MOST))
        return value

    @field_validator("schedule_interval")
    @classmethod
    def _schedule_is_readable(cls, value: str | None) -> str | None:
        if not value:
            return None
        try:
            check_schedule(value)
        except ConfigError as error:
            raise ValueError(error.whole) from error
        return value

    @field_validator("freshness_limit")
    @classmethod
    def _limit_is_readable(cls, value: str | None) -> str | None:
        if not value:
            return None
        try:
            check_duration("freshness_limit", value)
        except ConfigError as error:
            raise ValueError(error.whole) from error
        return value.strip()

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Self:
        """Build from untrusted values; a ConfigError names each wrong field."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            name, problems = values.get("name"), wrong_fields(error, cls.model_fields)
            if name and isinstance(name, str):
                raise ConfigError.of(Refusal.WRONG_FIELDS_OF, name=shortened(name), problems=problems) from error
            raise ConfigError.of(Refusal.WRONG_FIELDS, problems=problems) from error


def with_defaults(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration as it is stored leaves out what was added since, as long as nobody set it."""
    return _defaults() | config


@cache
def _defaults() -> dict[str, Any]:
    return Pipeline(name="any").model_dump(mode="json", exclude={"id", "name"})


BESIDES = {  # what is read
    *("on_drift", "publish", "mapping", "settings", "adopt", "format", "partition_by", "checks", "keep_changes")
}


class Plan(BaseModel):
    """A pipeline resolved: one SELECT, the transforms after it, one target. Checked before anything runs."""

    model_config = ConfigDict(frozen=True)

    source: str
    select: str
    transforms: tuple[str, ...]
    target: str
    key: tuple[str, ...]
    mode: ModeName
    cursor: tuple[str, str] | None
    on_drift: Literal["fail", "add"]
    publish: Literal["batches", "atomic"]
    mapping: dict[str, dict[str, Any]]
    settings: dict[str, Any]
    adopt: bool
    impact: dict[str, str]
    checks: tuple[Check, ...] = ()
    keep_changes: int = 0
    format: str | None = None
    partition_by: tuple[str, ...] = ()
    continuous: bool = False  # live, and not on a schedule

    @property
    def fingerprint(self) -> str:
        """Changes exactly when a checkpoint taken under another plan says nothing about this one."""
        kept = self.model_dump(
            mode="json",
            exclude={*BESIDES, "continuous"},
        )
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def resolve(pipeline: Pipeline) -> Plan:
    """The plan of a pipeline, or a ConfigError that says which rule it breaks."""
    if pipeline.targets:
        raise ConfigError.of(Refusal.SEVERAL_TARGETS, name=pipeline.name, names=_names(pipeline))
    select, transforms, target = _from_tasks(pipeline) if pipeline.tasks else _from_fields(pipeline)
    if not target:
        raise ConfigError.of(Refusal.NO_TARGET, name=pipeline.name)
    return Plan(
        source=pipeline.source,
        select=select,
        transforms=transforms,
        target=target,
        key=pipeline.key,
        mode=pipeline.mode,
        cursor=_cursor(pipeline),
        on_drift=pipeline.on_drift,
        publish=pipeline.publish,
        mapping=pipeline.mapping,
        settings=pipeline.settings,
        adopt=pipeline.adopt,
        impact=pipeline.impact,
        checks=pipeline.checks,
        keep_changes=pipeline.keep_changes,
        format=pipeline.format,
        partition_by=pipeline.partition_by,
        continuous=pipeline.mode == "live" and not pipeline.schedule_interval,
    )


def members(pipeline: Pipeline) -> list[Pipeline]:
    """Each of several targets as a pipeline of its own, as the meta-store keeps it; else the pipeline itself."""
    if not pipeline.targets:
        return [pipeline]
    if pipeline.target_table or (pipeline.tasks and pipeline.tasks[-1].target_table):
        raise ConfigError.of(Refusal.TARGET_AND_TARGETS, name=pipeline.name)
    own = {"targets": (), "part_of": pipeline.id}
    made = [
        pipeline.model_copy(update={**own, "name": f"{pipeline.name}@{target}", "target_table": target})
        for target in pipeline.targets
    ]
    longest = max(made, key=lambda member: len(member.name))
    if len(longest.name) > LONGEST_NAME:
        raise ConfigError.of(Refusal.NAME_TOO_LONG, name=longest.name, characters=LONGEST_NAME)
    return made


def _names(pipeline: Pipeline) -> str:
    return ", ".join(f"{pipeline.name}@{target}" for target in pipeline.targets)


def _from_fields(pipeline: Pipeline) -> tuple[str, tuple[str, ...], str | None]:
    if bool(pipeline.source_query) == bool(pipeline.source_table):
        raise ConfigError.of(Refusal.ONE_SOURCE, name=pipeline.name)
    if (pipeline.type == "PYTHON") != bool(pipeline.python_task):
        raise ConfigError.of(Refusal.PYTHON_TASK, name=pipeline.name)
    select = pipeline.source_query or _select_all(str(pipeline.source_table))
    return select, (pipeline.python_task,) if pipeline.python_task else (), pipeline.target_table


def _from_tasks(pipeline: Pipeline) -> tuple[str, tuple[str, ...], str | None]:
    steps = pipeline.tasks
    problems = list(_task_problems(steps))
    if problems:
        raise ConfigError.of(Refusal.TASK_PLAN, name=pipeline.name, problems=problems)
    return steps[0].body, tuple(s.body for s in steps[1:]), steps[-1].target_table or pipeline.target_table


def _task_problems(steps: tuple[Task, ...]) -> list[Because]:
    orders = [step.order_index for step in steps]
    found = list[Because]()
    if len(set(orders)) != len(orders):
        found.append(Reason.ORDER_TWICE.of())
    elif orders != sorted(orders):
        found.append(Reason.OUT_OF_ORDER.of())
    found += [Reason.EMPTY_TASK.of(task=step.order_index) for step in steps if not step.body.strip()]
    if steps[0].task_type != "SQL":
        found.append(Reason.FIRST_IS_SQL.of())
    found += [Reason.OTHERS_ARE_PYTHON.of(task=s.order_index) for s in steps[1:] if s.task_type == "SQL"]
    found += [Reason.TARGET_OF_LAST.of(task=s.order_index) for s in steps[:-1] if s.target_table]
    return found


def _cursor(pipeline: Pipeline) -> tuple[str, str] | None:
    if pipeline.mode != "incremental":
        return None
    tie_breaker = pipeline.incremental_id_key or (pipeline.key[0] if len(pipeline.key) == 1 else None)
    if not pipeline.incremental_key or not tie_breaker:
        raise ConfigError.of(Refusal.CURSOR_UNNAMED, name=pipeline.name)
    return pipeline.incremental_key, tie_breaker


def _select_all(table: str) -> str:
    parts = table.split(".")
    if len(parts) != 2 or not all(parts):
        raise ConfigError.of(Refusal.NO_SOURCE_TABLE, table=table)
    quoted = ('"' + part.strip('"').replace('"', '""') + '"' for part in parts)
    return "TABLE " + ".".join(quoted)
