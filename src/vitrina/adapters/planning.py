"""From a configuration to a plan that may be executed: whoever wrote it, it is checked again here."""

from collections.abc import Callable, Sequence
from uuid import UUID

from vitrina.adapters.job import Job, Limits
from vitrina.adapters.readers.postgres import PostgresReader
from vitrina.adapters.registry import resolve_writer
from vitrina.adapters.transformers import resolve_transformer
from vitrina.adapters.writers.postgres import SQL as MARTS
from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Pipeline, Plan, resolve
from vitrina.domain.policy import is_index, require_allowed_target, split_table
from vitrina.domain.run import RunOptions
from vitrina.meta.db import Connection, fetch_all
from vitrina.settings import Settings
from vitrina.sql.guard import check_select
from vitrina.sql.rules import Finding
from vitrina.sql.vet import vet_select


def check_plan(pipeline: Pipeline, settings: Settings, *, reads_only: bool = False) -> Plan:
    """The plan, with the target allowed (unless nothing will be written) and the query guarded."""
    plan = resolve(pipeline)
    if not reads_only:
        require_allowed_target(plan.target, settings.whitelist)
    return plan.model_copy(update={"select": check_select(plan.select, settings.allowed_source_schemas)})


def vet_plan(reader: PostgresReader, plan: Plan, settings: Settings) -> Sequence[Finding]:
    """A ConfigError if the query calls what it may not, as its own server resolves it; else the warnings."""
    vetted = vet_select(
        reader.conn,
        reader.settings,
        plan.select,
        schemas=settings.allowed_source_schemas,
        functions=settings.allowed_functions,
    )
    return vetted.warnings


def make_job(
    id_: UUID,
    pipeline: Pipeline,
    plan: Plan,
    reader: PostgresReader,
    key: Sequence[str],
    settings: Settings,
    check: Callable[[], None],
) -> Job:
    """A job without a past: the query described, the transforms resolved over its columns."""
    columns = reader.describe(plan.select)
    transformer = resolve_transformer(plan.transforms, columns, key) if plan.transforms else None
    writer = resolve_writer(plan, transformer.columns if transformer else columns)
    select, read = writer.read(plan.select, tuple(columns))
    return Job(
        pipeline_id=id_,
        plan=plan,
        writer=writer,
        reader=reader,
        select=select,
        columns=read,
        transformer=transformer,
        batch_size=pipeline.batch_size,
        options=RunOptions(),
        limits=Limits(settings.max_delete_share, settings.max_delete_rows, settings.horizon_margin),
        position=None,
        written_before={},
        check=check,
    )


def resolve_key(conn: Connection, plan: Plan) -> tuple[str, ...]:
    """The key that the plan names, else the mart's primary key."""
    if plan.key or is_index(plan.target):
        return plan.key
    schema, table = split_table(plan.target)
    for row in fetch_all(conn, MARTS["unique_keys"], {"schema": schema, "table": table}):
        if row["primary"]:
            return tuple(row["columns"])
    raise ConfigError("the pipeline names no key, and the mart has no primary key", "set key: [column, …]")
