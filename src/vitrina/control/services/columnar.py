"""What can be known about a mart in ClickHouse before a run, without asking ClickHouse."""

from collections.abc import Iterator, Sequence

from vitrina.control.services.indexing import Served, drift_findings
from vitrina.domain.findings import Code, Finding
from vitrina.domain.pipeline import Plan
from vitrina.domain.policy import CLICKHOUSE_TARGET_PREFIX
from vitrina.settings import Settings
from vitrina.sinks.clickhouse.shape import TypedShape
from vitrina.sinks.clickhouse.tables import Names, Note
from vitrina.sql.describe import Column


def clickhouse_findings(
    plan: Plan, output: Sequence[Column], settings: Settings, served: Served | None
) -> Iterator[Finding]:
    """The statements that the next run would send; a ConfigError if ClickHouse cannot keep the columns exactly."""
    if not settings.clickhouse_url:
        yield Finding("warning", "target_table", Code.NO_CLICKHOUSE)
    shape = TypedShape.of(plan, output)
    fits = served is not None and (served.target, served.shape) == (plan.target, shape.fingerprint)
    if fits:
        fields = [f"{c.name} {c.type}" for c in shape.columns]
        yield Finding("info", "target_table", Code.MART_HAS, {"target": plan.target, "fields": fields})
        return
    for statement in _statements(plan.target.removeprefix(CLICKHOUSE_TARGET_PREFIX), shape):
        yield Finding("info", "target_table", Code.WOULD_CREATE_TABLE, {"statement": statement})
    if served is not None:
        yield from drift_findings(plan, shape, served)


def _statements(mart: str, shape: TypedShape) -> list[str]:
    """As for the first set and the first epoch: which ones it will be is known once it runs."""
    names, sheet, name = Names.of(mart), shape.sheet, f"{mart}-000001"
    created = names.create(name, sheet, Note("…", sheet.key), 1)
    return [*created, names.show(names.table, name, sheet.columns)]
