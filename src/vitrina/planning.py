"""From a configuration to a plan that may be executed: whoever wrote it, it is checked again here."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

from vitrina.domain.checks import Check
from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Finding
from vitrina.domain.pipeline import Pipeline, Plan
from vitrina.domain.policy import require_allowed_target, split_table
from vitrina.domain.refusals import Refusal
from vitrina.domain.run import RunOptions
from vitrina.engine.asking import MART, Asked
from vitrina.engine.job import Job, Limits, Pace
from vitrina.engine.types import SQL as MARTS
from vitrina.meta.db import Connection, fetch_all
from vitrina.settings import Settings
from vitrina.sinks.registry import abilities_of, resolve_writer, settle
from vitrina.sources.registry import kind_of
from vitrina.sources.source import Kind, Source
from vitrina.sql.guard import check_expression, check_select
from vitrina.sql.live import guardable
from vitrina.sql.live.impact import CHANGED
from vitrina.transforms.chain import resolve_transformer


def check_plan(pipeline: Pipeline, settings: Settings, *, reads_only: bool = False) -> Plan:
    """The plan, with the target allowed (unless nothing will be written) and the query guarded."""
    plan = settle(pipeline)
    if not reads_only:
        require_allowed_target(plan.target, settings.whitelist)
    check_checks(plan, settings)
    impact = check_impact(plan, settings)
    return plan.model_copy(update={"select": check_query(plan, settings), "impact": impact})


def check_query(plan: Plan, settings: Settings) -> str:
    """The SELECT by the grammar of its source's kind."""
    return kind_named(plan.source, settings).check(plan.select, settings.allowed_source_schemas)


def tables_named(plan: Plan, settings: Settings) -> list[str]:
    """The tables that the SELECT names, if they are such as may be marts of others."""
    return kind_named(plan.source, settings).tables(plan.select)


def kind_named(source: str, settings: Settings) -> Kind:
    """The kind of a source; one that nobody knows is refused once it is opened."""
    url = settings.sources.get(source)
    return kind_of(url.get_secret_value() if url else "")


def check_impact(plan: Plan, settings: Settings) -> dict[str, str]:
    """The user's own impact queries by the guard's grammar: one SELECT each, which may also read `changed`."""
    checked = dict(plan.impact)
    for table, query in _impact(plan):
        with _about_impact(table):
            checked[table] = check_select(query, settings.allowed_source_schemas, known=[CHANGED])
    return checked


def check_checks(plan: Plan, settings: Settings) -> None:
    """The SQL of checks by the guard's grammar: an expression, or one SELECT, which may also read `mart`."""
    for check in plan.checks:
        with _about_check(check.name):
            if check.condition:
                check_expression(check.condition)
            if check.empty:
                check_select(check.empty, settings.allowed_source_schemas, known=[MART])


def vet_checks(warehouse: Source, plan: Plan, asked: Asked, settings: Settings) -> Sequence[Finding]:
    """The same by what it calls, where it is asked: in the warehouse, as the reader. A ConfigError, or warnings."""
    found = list[Finding]()
    for check in plan.checks:
        if text := asked.guardable(check):
            with _about_check(check.name):
                found += _vet(warehouse, text, settings)
    return found


def judge_check(warehouse: Source, plan: Plan, check: Check, asked: Asked, settings: Settings) -> Sequence[Finding]:
    """All that can be known of one check before it is asked: its columns, its SQL, what that calls, and its types."""
    alone = plan.model_copy(update={"checks": (check,)})
    check_checks(alone, settings)
    asked.require_columns(check)
    found = vet_checks(warehouse, alone, asked, settings)
    with _about_check(check.name):
        warehouse.plan(asked.trial(check))
    return found


@contextmanager
def _about_check(name: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError.of(Refusal.OF_CHECK, check=name, reason=error.because, way=error.therefore) from error


def vet_plan(reader: Source, plan: Plan, settings: Settings) -> Sequence[Finding]:
    """A ConfigError if its source cannot serve its mode, or a query calls what it may not, as its own server resolves
    it; else the warnings."""
    reader.require(plan.mode)
    return [*_vet(reader, plan.select, settings), *vet_impact(reader, plan, settings)]


def vet_impact(reader: Source, plan: Plan, settings: Settings) -> Sequence[Finding]:
    """The same for the user's own impact queries, with `changed` as a table of images."""
    found = list[Finding]()
    for table, query in _impact(plan):
        with _about_impact(table):
            found += _vet(reader, guardable(table, query), settings)
    return found


def reads_of(reader: Source, plan: Plan) -> list[str]:
    """The relations of the warehouse that a plan reads; what is elsewhere is no mart."""
    return reader.reads(plan.select) if reader.abilities.is_local and reader.abilities.has_catalogue else []


def _vet(reader: Source, select: str, settings: Settings) -> list[Finding]:
    return reader.vet(select, schemas=settings.allowed_source_schemas, functions=settings.allowed_functions)


def _impact(plan: Plan) -> list[tuple[str, str]]:
    """Other modes never run them."""
    return list(plan.impact.items()) if plan.mode == "live" else []


@contextmanager
def _about_impact(table: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError.of(Refusal.OF_IMPACT, table=table, reason=error.because, way=error.therefore) from error


def make_job(
    id_: UUID,
    pipeline: Pipeline,
    plan: Plan,
    reader: Source,
    key: Sequence[str],
    settings: Settings,
    check: Callable[[], None],
) -> Job:
    """A job without a past: the query described, the transforms resolved over its columns."""
    columns = reader.describe(plan.select)
    transformer = resolve_transformer(plan.transforms, columns, key) if plan.transforms else None
    builds = transformer is None and reader.abilities.speaks_sql
    writer = resolve_writer(plan, transformer.columns if transformer else columns, builds=builds)
    select, read = writer.read(plan.select, tuple(columns))
    return Job(
        pipeline_id=id_,
        plan=plan,
        writer=writer,
        reader=reader,
        select=select,
        columns=read,
        transformer=transformer,
        pace=Pace(pipeline.batch_size),
        options=RunOptions(),
        limits=Limits(
            settings.max_delete_share, settings.max_delete_rows, settings.horizon_margin, settings.trusted_owners
        ),
        position=None,
        written_before={},
        settings=settings,
        check=check,
    )


def resolve_key(conn: Connection, plan: Plan) -> tuple[str, ...]:
    """The key that the plan names, else the mart's primary key."""
    if plan.key or not abilities_of(plan.target).is_compared_in_place:
        return plan.key
    schema, table = split_table(plan.target)
    for row in fetch_all(conn, MARTS["unique_keys"], {"schema": schema, "table": table}):
        if row["primary"]:
            return tuple(row["columns"])
    raise ConfigError.of(Refusal.NO_KEY)
