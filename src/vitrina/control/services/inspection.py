"""Questions that need no pipeline service: runs and what they say, runners, captures, lineage, health."""

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from vitrina.capture.status import report
from vitrina.control.plane import ControlPlane
from vitrina.control.problems import NotFound
from vitrina.domain.errors import VitrinaError
from vitrina.domain.events import Said
from vitrina.domain.findings import refused
from vitrina.domain.lifecycle import Status
from vitrina.domain.pipeline import WAREHOUSE, Pipeline, Plan, resolve
from vitrina.log import log
from vitrina.meta.compatibility import find, misfit
from vitrina.meta.db import fetch_all, queries
from vitrina.meta.repos.captures import CaptureRepo
from vitrina.meta.repos.pipelines import PipelineRepo, StoredPipeline
from vitrina.meta.repos.runs import RunRepo
from vitrina.planning import check_plan, kind_named, tables_named
from vitrina.settings import Settings
from vitrina.sources.connections import Connections
from vitrina.sources.source import Kind, Source
from vitrina.sql.lineage import Catalog, trace
from vitrina.transforms.chain import resolve_transformer

RUNNERS = queries("runners")
LINEAGE, PIPELINES = queries("lineage"), queries("pipelines")


@dataclass(frozen=True)
class Flow:
    """One pipeline, from the tables that it reads to where it writes."""

    id: UUID
    pipeline: str
    status: Status
    tables: tuple[str, ...]
    target: str | None
    age: float | None = None  # of the mart, in seconds: it has everything that was committed before; None: never filled


@dataclass(frozen=True)
class Inspection:
    """Reads, and changes nothing."""

    plane: ControlPlane

    def run(self, run_id: int) -> DictRow:
        """One run."""
        with self.plane.session() as conn:
            row = RunRepo(conn).get(run_id)
        if row is None:
            raise NotFound(f"there is no run {run_id}")
        return row

    def has_pipeline(self, pipeline_id: UUID) -> bool:
        """Whether it is still stored."""
        with self.plane.session() as conn:
            return bool(fetch_all(conn, PIPELINES["find"], {"which": str(pipeline_id)}))

    def attempts(self, run_id: int) -> list[DictRow]:
        """The attempts of a run, in order."""
        with self.plane.session() as conn:
            return RunRepo(conn).attempts(run_id)

    def events(self, run_id: int, after: int, limit: int = 500) -> list[Said]:
        """What it said after an event."""
        with self.plane.session() as conn:
            return RunRepo(conn).events(run_id, after, limit)

    def runners(self) -> list[DictRow]:
        """Who has been seen within a day."""
        with self.plane.session() as conn:
            return fetch_all(conn, RUNNERS["list"], {"seconds": self.plane.settings.lease_seconds})

    def captures(self) -> list[dict[str, Any]]:
        """How the changes of each source are captured."""
        with self.plane.snapshot() as conn:
            return [report(conn, capture) for capture in CaptureRepo(conn).all()]

    def health(self) -> dict[str, str]:
        """What this process depends on, and whether it answers; for anybody, so without the reason."""
        try:
            with self.plane.session() as conn:
                fetch_all(conn, RUNNERS["any"])
                wrong = misfit(find(conn))
        except VitrinaError as error:
            log.warning("not ready", error=str(error))
            return {"meta-store": "does not answer"}
        if wrong:
            log.warning("not ready", error=str(wrong))
        return {"meta-store": "does not fit this program" if wrong else "ok"}

    def horizon(self, stored: StoredPipeline) -> dict[str, Any] | None:
        """For an incremental pipeline: up to where rows are final, and who holds it back."""
        if stored.config.get("mode") != "incremental":
            return None
        try:
            with self.plane.connections.resolve_reader(stored.config["source"]) as reader:
                horizon = reader.horizon(self.plane.settings.horizon_margin)
        except VitrinaError as error:
            return {"error": str(error), "finding": refused("incremental_key", error)}
        return {"at": horizon.at, "now": horizon.now, "held_by": horizon.holder}

    def lineage(self) -> list[dict[str, Any]]:
        """From tables and columns to every mart."""
        with self.plane.session() as conn:
            stored = [each for each in PipelineRepo(conn).all() if not each.members]
        with ExitStack() as stack:
            readers = Readers(self.plane.connections, stack)
            return [self._lineage_of(pipeline, readers) for pipeline in stored]

    def lineage_of(self, stored: StoredPipeline) -> dict[str, Any]:
        """From tables and columns to one mart."""
        with ExitStack() as stack:
            return self._lineage_of(stored, Readers(self.plane.connections, stack))

    def flows(self) -> list[Flow]:
        """From tables to every mart, by the text of the queries and what was resolved before: no source is asked."""
        with self.plane.session() as conn:
            known = {row["id"]: row for row in fetch_all(conn, LINEAGE["flows"])}
            marts = [each for each in PipelineRepo(conn).all() if not each.members]
            return [_flow(stored, self.plane.settings, known.get(stored.id)) for stored in marts]

    def _lineage_of(self, stored: StoredPipeline, readers: "Readers") -> dict[str, Any]:
        known: dict[str, Any] = {"pipeline": stored.name, "target": stored.target, "tables": [], "columns": []}
        try:
            plan = check_plan(Pipeline.parse(stored.config), self.plane.settings, reads_only=True)
            known["tables"] = tables_named(plan, self.plane.settings)
            reader = readers.of(plan.source)
            sources = trace(plan.select, _catalog(reader, known["tables"])) if reader.abilities.has_catalogue else {}
            columns = reader.describe(plan.select)
            output = resolve_transformer(plan.transforms, columns, plan.key).columns
            known["columns"] = [
                {"name": c.name, "type": c.type, "sources": sorted(sources.get(c.name, ()))} for c in output
            ]
        except VitrinaError as error:
            known |= {"error": str(error), "finding": refused("source_query", error)}
        return known


@dataclass
class Readers:
    """One reader a source, opened when it is first asked for."""

    connections: Connections
    stack: ExitStack
    opened: dict[str, Source] = field(default_factory=dict)

    def of(self, source: str) -> Source:
        """The reader of a source."""
        if source not in self.opened:
            self.opened[source] = self.stack.enter_context(self.connections.resolve_reader(source))
        return self.opened[source]


def _flow(stored: StoredPipeline, settings: Settings, known: DictRow | None) -> Flow:
    """A row written by hand may hold no plan: then it reads nothing that we know of."""
    try:
        plan = resolve(Pipeline.parse(stored.config))
        tables, source = _tables(plan, settings), plan.source
    except VitrinaError:
        tables, source = (), WAREHOUSE
    prefix = "" if source == WAREHOUSE else f"{source}: "
    behind = tuple(mart for mart in known["marts"] if mart not in tables) if known else ()  # views
    reads = tuple(prefix + table for table in tables) + behind
    return Flow(stored.id, stored.name, stored.status, reads, stored.target, known["age"] if known else None)


def _tables(plan: Plan, settings: Settings) -> tuple[str, ...]:
    return _tables_of(kind_named(plan.source, settings), plan.select, tuple(settings.allowed_source_schemas))


@lru_cache(maxsize=10_000)
def _tables_of(kind: Kind, select: str, schemas: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(kind.tables(kind.check(select, schemas)))


def _catalog(reader: Source, tables: list[str]) -> Catalog:
    """The columns of the tables that a query reads."""
    columns = defaultdict[tuple[str, str], list[str]](list)
    for row in fetch_all(reader.catalogue.conn, LINEAGE["columns"], {"tables": tables}):
        columns[row["schema"], row["table"]].append(row["column"])
    return lambda schema, table: columns[schema, table]
