"""What can be known about a mart of typed columns (ClickHouse, a lake, files) before a run, without asking there."""

from collections.abc import Iterator, Sequence

from vitrina.control.services.indexing import Served, drift_findings
from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Code, Finding, refused
from vitrina.domain.pipeline import Plan
from vitrina.domain.policy import split_prefix
from vitrina.settings import Settings
from vitrina.sinks.clickhouse.shape import TypedShape
from vitrina.sinks.clickhouse.tables import Names, Note
from vitrina.sinks.documents.shape import Shape
from vitrina.sinks.files.shape import FilesShape
from vitrina.sinks.lake.shape import LakeShape
from vitrina.sql.describe import Column


def clickhouse_findings(
    plan: Plan, output: Sequence[Column], settings: Settings, served: Served | None
) -> Iterator[Finding]:
    """A ConfigError if ClickHouse cannot keep the columns exactly."""
    if not settings.clickhouse_url:
        yield Finding("warning", "target_table", Code.NO_CLICKHOUSE)
    shape = TypedShape.of(plan, output)
    fields = [f"{c.name} {c.type}" for c in shape.columns]
    yield from _next(plan, shape, served, fields, _of_clickhouse(split_prefix(plan.target)[1], shape))


def lake_findings(plan: Plan, output: Sequence[Column], settings: Settings, served: Served | None) -> Iterator[Finding]:
    """A ConfigError if a table of a lake cannot keep what the query gives."""
    if not settings.lake_url:
        yield Finding("warning", "target_table", Code.NO_LAKE)
    shape = LakeShape.undivided(plan, output)
    if shape.as_text:
        yield Finding("warning", "source_query", Code.KEPT_AS_TEXT, {"columns": shape.as_text})
    try:
        shape = shape.divided_by(plan.partition_by)
    except ConfigError as error:
        yield refused("partition_by", error)
        return
    statement = f"CREATE TABLE {split_prefix(plan.target)[1]} {shape.definitions} USING iceberg{shape.division}"
    yield from _next(plan, shape, served, [c.name for c in shape.columns], [statement])


def _next(
    plan: Plan, shape: Shape, served: Served | None, fields: list[str], statements: Sequence[str]
) -> Iterator[Finding]:
    """What the mart has, or the statements that the next run would send."""
    if served and (served.target, served.shape) == (plan.target, shape.fingerprint):
        yield Finding("info", "target_table", Code.MART_HAS, {"target": plan.target, "fields": fields})
        return
    is_other = served is not None and served.target == plan.target
    code = Code.WOULD_REBUILD_TABLE if is_other else Code.WOULD_CREATE_TABLE
    for statement in statements:
        yield Finding("info", "target_table", code, {"statement": statement})
    if served is not None:
        yield from drift_findings(plan, shape, served)


def _of_clickhouse(mart: str, shape: TypedShape) -> list[str]:
    """As for the first set and the first epoch: which ones it will be is known once it runs."""
    names, sheet, name = Names.of(mart), shape.sheet, f"{mart}-000001"
    created = names.create(name, sheet, Note("…", sheet.key), 1)
    return [*created, names.show(names.table, name, sheet.columns)]


def files_findings(
    plan: Plan, output: Sequence[Column], settings: Settings, served: Served | None
) -> Iterator[Finding]:
    """A ConfigError if files of Parquet cannot keep what the query gives."""
    del settings
    shape = FilesShape.of(plan, output)
    if shape.as_text:
        yield Finding("warning", "source_query", Code.KEPT_AS_TEXT, {"columns": shape.as_text})
    fields = [f"{c.name} {shape.type_of(c.name).said}" for c in shape.columns]
    if served is None or (served.target, served.shape) != (plan.target, shape.fingerprint):
        yield Finding("info", "target_table", Code.WOULD_BE_MADE, {"target": plan.target, "fields": fields})
    yield from _next(plan, shape, served, fields, ())


TYPED = {
    "ch": clickhouse_findings,
    "lake": lake_findings,
    "s3": files_findings,
    "file": files_findings,
}  # by the prefix of the target
