"""Which kind of mart a target is, by its prefix: the one table of kinds, and what is asked of all of them alike."""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

from vitrina.domain.checks import Check
from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.pipeline import WAREHOUSE, Pipeline, Plan, resolve
from vitrina.engine.asking import Asked
from vitrina.engine.job import Job, Mode
from vitrina.engine.modes import make_mode
from vitrina.engine.writer import Abilities, Writer
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import expired
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.clickhouse.sink import ClickHouseSink
from vitrina.sinks.documents.sink import DocumentSink
from vitrina.sinks.documents.tidying import drop_orphans
from vitrina.sinks.elasticsearch.sink import ElasticSink
from vitrina.sinks.files.sink import FilesSink
from vitrina.sinks.lake.sink import LakeSink
from vitrina.sinks.opensearch.sink import OpenSearchSink
from vitrina.sinks.plugin.sink import PluginSink
from vitrina.sinks.sink import Sink
from vitrina.sinks.table.sink import TableSink
from vitrina.sources.connections import Connections
from vitrina.sql.describe import Column
from vitrina.stores import Store

TABLE = ""  # has no prefix
KINDS: dict[str, Sink] = {
    TABLE: TableSink(),
    "lake": LakeSink(),
    "s3": FilesSink("s3"),
    "file": FilesSink("file"),
    "es": ElasticSink(),
    "ch": ClickHouseSink(),
    "os": OpenSearchSink(),
}


def resolve_sink(target: str) -> Sink:
    """One of ours, else whatever a plug-in may have registered."""
    prefix, is_prefixed, _ = target.partition(":")
    prefix = prefix if is_prefixed else TABLE
    return KINDS.get(prefix) or PluginSink(prefix)


def abilities_of(target: str) -> Abilities:
    """What its kind can do."""
    return resolve_sink(target).abilities


def settle(pipeline: Pipeline) -> Plan:
    """The plan, or a ConfigError for what the pipeline says and its kind of mart cannot do.

    Of several targets each takes what is for its kind, and leaves what is for another's.
    """
    plan = resolve(pipeline)
    if pipeline.part_of:
        plan = plan.model_copy(update=_without(abilities_of(plan.target)))
    check_fields(plan)
    return plan


def require_used(pipeline: Pipeline) -> None:
    """A ConfigError for what a pipeline of several targets says and none of them takes."""
    left = [_without(abilities_of(target)).keys() for target in pipeline.targets]
    unused = sorted(name for name in set[str].intersection(*map(set, left)) if getattr(pipeline, name)) if left else []
    if unused:
        raise ConfigError.of(MartRefusal.FOR_ANOTHER_KIND, fields=unused)


def _without(can: Abilities) -> dict[str, Any]:
    """What a kind of mart does not understand, put back to nothing."""
    left = dict[str, Any]()
    if not can.is_mapped:
        left |= {"mapping": {}, "settings": {}}
    if not can.swaps:
        left |= {"adopt": False}
    if not can.is_compared_in_place:
        left |= {"keep_changes": 0}
    if not can.formats:
        left |= {"format": None}
    if not can.divides:
        left |= {"partition_by": ()}
    return left


def check_fields(plan: Plan) -> None:
    """A ConfigError for what the pipeline says and its kind of mart cannot do."""
    target, can = plan.target, abilities_of(plan.target)
    given = [name for name in ("mapping", "settings") if getattr(plan, name) and not can.is_mapped]
    given += ["adopt"] if plan.adopt and not can.swaps else []
    if given:
        raise ConfigError.of(MartRefusal.FOR_AN_INDEX, fields=given, target=target)
    if plan.format and plan.format not in can.formats:
        raise ConfigError.of(MartRefusal.FOR_FILES, target=target)
    if plan.partition_by and not can.divides:
        raise ConfigError.of(MartRefusal.FOR_A_LAKE, target=target)
    if can.needs_shadow and not plan.key:
        raise ConfigError.of(MartRefusal.NEEDS_KEY, target=target)
    if plan.publish == "atomic" and not can.commits_with_checkpoint:
        raise ConfigError.of(MartRefusal.ATOMIC_IS_FOR_TABLES)
    if plan.keep_changes and not can.is_compared_in_place:
        raise ConfigError.of(MartRefusal.CHANGES_OF_TABLES)
    for check in plan.checks:
        if not check.is_by_row:
            _require_whole(check, plan, can)


def _require_whole(check: Check, plan: Plan, can: Abilities) -> None:
    """A check of all of the mart needs somebody who sees all of it; and blocks only what is published at once."""
    name, kind = check.name, check.kind
    if not can.is_compared_in_place:
        raise ConfigError.of(MartRefusal.CHECK_NOT_REACHED, check=name, kind=kind, target=plan.target)
    if check.blocks and plan.mode == "live" and check.unique:
        raise ConfigError.of(
            MartRefusal.UNIQUE_OF_LIVE, check=name, kind=kind, target=plan.target, columns=check.unique
        )
    if check.blocks and plan.mode == "live":
        raise ConfigError.of(MartRefusal.CHECK_OF_LIVE, check=name, kind=kind)
    if check.blocks and plan.publish != "atomic":
        raise ConfigError.of(MartRefusal.CHECK_OF_BATCHES, check=name, kind=kind)


def resolve_writer(plan: Plan, output: Sequence[Column], *, builds: bool) -> Writer:
    """For the target, over what the query or the last transform gives; documents are built by the source, if it can."""
    return resolve_sink(plan.target).writer(plan, output, builds=builds)


def resolve_asked(plan: Plan, output: Sequence[Column]) -> Asked:
    """The mart as its checks see it, before it is there."""
    return resolve_sink(plan.target).asked(plan, output)


def resolve_mode(job: Job, connections: Connections, epoch: int) -> Mode:
    """The steps for a job's mode and target."""
    return resolve_sink(job.plan.target).mode(job, partial(make_mode, connections=connections), connections, epoch)


def open_store(job: Job, settings: Settings, conn: Connection) -> Store | None:
    """For somebody who only reads; None where statements see the mart itself."""
    sink = resolve_sink(job.plan.target)
    return sink.open_for(job, settings, conn=conn) if isinstance(sink, DocumentSink) else None


# ── asked of all kinds ───────────────────────────────────────────────────────────────────────────────────────────────


def neighbours_of(source: str, target: str) -> list[str]:
    """Whom a pipeline needs beside the warehouse."""
    return [name for name in (source, resolve_sink(target).neighbour) if name not in (WAREHOUSE, "")]


def look_at_sinks(settings: Settings, neighbours: Neighbours) -> dict[str, Any]:
    """How they answer, by name, for people."""
    return {name: seen for sink in KINDS.values() for name, seen in sink.look(settings, neighbours).items()}


def probe(name: str, settings: Settings, neighbours: Neighbours) -> bool:
    """Ask the sink that is known to the neighbours by this name; whether there is one."""
    sink = next((sink for sink in KINDS.values() if name and sink.neighbour == name), None)
    if sink:
        sink.probe(settings, neighbours)
    return sink is not None


def tidy(conn: Connection, settings: Settings) -> None:
    """Remove what no run comes back to, each kind by itself: one that does not answer keeps nobody from the others."""
    drop_orphans(conn)
    retired = sorted(expired(conn, settings.es_grace_seconds), key=lambda edition: edition.target)
    for prefix, editions in groupby(retired, lambda edition: edition.target.partition(":")[0]):
        resolve_sink(f"{prefix}:").tidy(conn, settings, [*editions])


def keep_up(conn: Connection, settings: Settings) -> None:
    """Look after marts that no run writes just now."""
    for sink in KINDS.values():
        sink.keep_up(conn, settings)
