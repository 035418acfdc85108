"""Pipelines: stored, found, asked to run or to rest, planned."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from psycopg import errors, sql
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from vitrina.domain.errors import ConfigError
from vitrina.domain.lifecycle import Status
from vitrina.domain.pipeline import Pipeline
from vitrina.domain.run import RunOptions
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated

SQL = queries("pipelines")
FAR_BEHIND = 100_000  # changes, of tables that do not concern a pipeline, after which it moves its position on


@dataclass(frozen=True)
class Member:
    """One target of a pipeline of several, as the pipeline that keeps it."""

    id: UUID
    name: str
    target: str
    status: Status


@dataclass(frozen=True)
class StoredPipeline:
    """A pipeline as the meta-store has it; its configuration may be wrong."""

    id: UUID
    name: str
    status: Status
    enabled: bool
    version: int
    due_at: datetime | None
    target: str | None
    config: dict[str, Any]
    part_of: UUID | None = None  # the pipeline of several targets of which this is one
    members: tuple[Member, ...] = ()  # of such a pipeline

    @classmethod
    def from_row(cls, row: DictRow) -> Self:
        """From `find` or `list`."""
        target = row["effective_target"]
        kept = {name: row[name] for name in ("id", "name", "enabled", "version", "due_at", "config", "part_of")}
        members = tuple(
            Member(UUID(each["id"]), each["name"], each["target"], Status(each["status"])) for each in row["members"]
        )
        return cls(status=Status(row["status"]), target=target, members=members, **kept)


FIELDS = sql.SQL(", ").join(sql.Identifier(name) for name in Pipeline.model_fields if name != "tasks")
VALUES = sql.SQL(", ").join(sql.Placeholder(name) for name in Pipeline.model_fields if name != "tasks")
# A field of the model is a column of the table.
ADD = sql.SQL("INSERT INTO etl.etl_pipelines ({}) VALUES ({})").format(FIELDS, VALUES)
REPLACE = sql.SQL("UPDATE etl.etl_pipelines SET ({}) = ROW ({}) WHERE id = %(id)s").format(FIELDS, VALUES)


def columns(pipeline: Pipeline) -> dict[str, Any]:
    """A pipeline without its tasks, as the columns of its row."""
    values = pipeline.model_dump(exclude={"tasks"})
    documents = {name: Jsonb(value) for name, value in values.items() if isinstance(value, dict)}
    lists = {name: list(value) for name, value in values.items() if isinstance(value, tuple)}
    return values | documents | lists | {"checks": Jsonb(values["checks"])}


@dataclass(frozen=True)
class PipelineRepo:
    """Table `etl_pipelines` and its tasks."""

    conn: Connection

    def add(self, pipeline: Pipeline) -> None:
        """Store a new pipeline with its tasks; a ConfigError if its name or target is another's."""
        with translated(), _taken(), self.conn.transaction():
            self.conn.execute(ADD, columns(pipeline))
            for task in pipeline.tasks:
                self.conn.execute(SQL["add_task"], task.model_dump() | {"pipeline_id": pipeline.id})

    def get(self, which: str | UUID) -> StoredPipeline:
        """By uuid or name; a ConfigError when there is none."""
        row = fetch_one(self.conn, SQL["find"], {"which": str(which)})
        if row is None:
            raise ConfigError(f"there is no pipeline {str(which)!r}")
        return StoredPipeline.from_row(row)

    def all(self) -> list[StoredPipeline]:
        """All of them, by name."""
        return [StoredPipeline.from_row(row) for row in fetch_all(self.conn, SQL["list"])]

    def request_run(self, pipeline_id: UUID, options: RunOptions | None = None) -> bool:
        """Ask for a run; False if it is requested or running already, or disabled."""
        params = {"id": pipeline_id, "options": Jsonb(vars(options or RunOptions()))}
        return fetch_one(self.conn, SQL["request_run"], params) is not None

    def ask_again(self, pipeline_id: UUID) -> None:
        """For a run that was requested already: with rows that are no older than this."""
        with translated():
            self.conn.execute(SQL["ask_again"], {"id": pipeline_id})

    def request_pause(self, pipeline_id: UUID, *, now: bool = False) -> bool:
        """Ask for a pause, after the batch under way or at once; False if there is nothing to pause."""
        return fetch_one(self.conn, SQL["request_pause"], {"id": pipeline_id, "now": now}) is not None

    def unplanned(self) -> list[DictRow]:
        """Scheduled pipelines without a due time, with the database's clock."""
        return fetch_all(self.conn, SQL["unplanned"])

    def wake_live(self) -> int:
        """Live pipelines are due when there is something to follow; how many became so."""
        with translated():
            return self.conn.execute(SQL["wake_live"], {"far": FAR_BEHIND}).rowcount

    def schedule(self, pipeline_id: UUID, schedule_interval: str, due_at: datetime) -> None:
        """Set the next due time, unless somebody was first."""
        with translated():
            self.conn.execute(
                SQL["schedule"], {"id": pipeline_id, "schedule_interval": schedule_interval, "due_at": due_at}
            )


@contextmanager
def _taken() -> Iterator[None]:
    try:
        yield
    except errors.UniqueViolation as error:
        raise ConfigError(f"another pipeline has this already: {error.diag.message_detail}") from error
