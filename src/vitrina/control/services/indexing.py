"""What can be known about an index before a run, without asking its server: the control plane talks to no sink."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from vitrina.domain.drift import Drift
from vitrina.domain.findings import Code, Finding
from vitrina.domain.pipeline import Plan
from vitrina.domain.policy import split_prefix
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import IndexRepo
from vitrina.meta.repos.state import StateRepo
from vitrina.settings import Settings
from vitrina.sinks.documents.shape import Shape
from vitrina.sinks.registry import resolve_sink
from vitrina.sinks.search.client import SearchClient
from vitrina.sinks.search.shape import IndexShape
from vitrina.sinks.search.sink import SearchSink
from vitrina.sql.describe import Column


@dataclass(frozen=True)
class Served:
    """The index that searches see now, as its pipeline's last run left it."""

    target: str
    shape: str
    columns: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def find(cls, conn: Connection, pipeline_id: UUID) -> "Served | None":
        """By the meta-store; None if no run has finished one."""
        live = next((g for g in IndexRepo(conn, pipeline_id).all() if g.state == "live"), None)
        if live is None:
            return None
        columns = (StateRepo(conn).get(pipeline_id) or {}).get("columns") or {}
        return cls(live.target, live.shape, columns.get("types", {}))


def index_findings(
    plan: Plan, output: Sequence[Column], settings: Settings, served: Served | None
) -> Iterator[Finding]:
    """About the index itself; a ConfigError if the query cannot fill one."""
    sink = resolve_sink(plan.target)
    assert isinstance(sink, SearchSink)
    if not sink.is_there(settings):
        yield Finding("warning", "target_table", sink.client.absent)
    if plan.adopt:
        yield Finding("warning", "adopt", Code.ADOPTS, {"index": _name(plan)})
    shape = IndexShape.of(plan, output)
    yield from _mapping_findings(plan.mapping, sink.client)
    yield from _served_findings(plan, shape, served)


def plugged_findings(
    plan: Plan, output: Sequence[Column], settings: Settings, served: Served | None
) -> Iterator[Finding]:
    """About a mart that a plug-in keeps, which only has to be installed where runners run."""
    del settings
    shape = Shape.of(plan, output)
    fits = served is not None and (served.target, served.shape) == (plan.target, shape.fingerprint)
    data = {"target": plan.target, "fields": [c.name for c in shape.columns]}
    yield Finding("info", "target_table", Code.MART_HAS if fits else Code.WOULD_BE_MADE, data)
    if served is not None and not fits:
        yield from drift_findings(plan, shape, served)


def _name(plan: Plan) -> str:
    return split_prefix(plan.target)[1]


def _mapping_findings(mapping: Mapping[str, dict[str, Any]], engine: type[SearchClient]) -> Iterator[Finding]:
    for name, definition in mapping.items():
        kind = definition.get("type", "object" if "properties" in definition else None)
        if not isinstance(kind, str):
            yield Finding("error", "mapping", Code.MAPPING_WITHOUT_TYPE, {"field": name})
        elif kind not in engine.field_types:
            data = {"field": name, "type": kind, "engine": engine.name}
            yield Finding("warning", "mapping", Code.MAPPING_TYPE_UNKNOWN, data)


def _served_findings(plan: Plan, shape: IndexShape, served: Served | None) -> Iterator[Finding]:
    """What the next run makes of it."""
    fields = [f"{name} {_kind(definition)}" for name, definition in shape.mapping.items()]
    data = {"index": _name(plan), "fields": fields}
    if served is None or served.target != plan.target:
        yield Finding("info", "target_table", Code.WOULD_CREATE_INDEX, data)
    elif served.shape == shape.fingerprint:
        yield Finding("info", "target_table", Code.INDEX_HAS, data)
    else:
        yield Finding("info", "target_table", Code.WOULD_REBUILD_INDEX, data)
        yield from drift_findings(plan, shape, served)


def drift_findings(plan: Plan, shape: Shape, served: Served) -> Iterator[Finding]:
    """What somebody has to agree to first."""
    drift = Drift.between(served.columns, {c.name: c.type for c in shape.columns})
    if drift.is_refused(plan.on_drift):
        yield Finding("warning", "target_table", drift.code, drift.data)


def _kind(definition: Mapping[str, Any]) -> str:
    return str(definition.get("type", "object"))
