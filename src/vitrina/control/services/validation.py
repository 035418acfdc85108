"""Validation: everything that can be known about a pipeline before it runs, as findings with a remedy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from psycopg import sql

from vitrina.control.services.columnar import TYPED
from vitrina.control.services.following import live_findings, with_own_impact
from vitrina.control.services.indexing import Served, index_findings, plugged_findings
from vitrina.control.services.targets import as_stored, each_found
from vitrina.domain.errors import RetryableError, VitrinaError
from vitrina.domain.findings import Code, Finding, Level, place_of, refused
from vitrina.domain.pipeline import Pipeline, Plan
from vitrina.domain.policy import is_allowed_target, require_allowed_target, split_table
from vitrina.domain.wording import NESTED, Json
from vitrina.engine.converge import MartSql
from vitrina.engine.forecast import foretell_full
from vitrina.engine.mart import Wanted
from vitrina.engine.query import QueryText, Window
from vitrina.engine.reading import How, Reading
from vitrina.engine.sealing import has_writer
from vitrina.engine.shared import Company, may_be_shared
from vitrina.engine.work import Work
from vitrina.meta.db import Connection
from vitrina.meta.repos.captures import Capture
from vitrina.meta.repos.pipelines import Member
from vitrina.meta.repos.upstream import Writer, naming_writers, require_no_circle
from vitrina.planning import check_query, judge_check, make_job, reads_of, resolve_key, tables_named
from vitrina.sinks.registry import abilities_of, require_used, resolve_asked, settle
from vitrina.sinks.table.mart import Foreseen, foresee_mart
from vitrina.sources.connections import Connections
from vitrina.sources.source import Source
from vitrina.sql.describe import Column
from vitrina.sql.live import understand
from vitrina.sql.owned import foreign_code, foreign_owner
from vitrina.sql.unique import is_unique_by_grouping
from vitrina.transforms.chain import resolve_transformer

AT_ANY_TIME = datetime.min.replace(tzinfo=UTC)
LOOK_SECONDS = 3  # for what has to read rows
READ = {
    How.BY_KEY: Code.READ_BY_KEY,
    How.BY_RANGE: Code.READ_BY_RANGE,
    How.AT_ONCE: Code.READ_AT_ONCE,
    How.STAGED: Code.READ_STAGED,
}


@dataclass
class Validation:
    """Collects findings; an error in one place does not hide those in others, where they can be looked for."""

    connections: Connections
    served: Callable[[UUID], Served | None] = lambda _: None  # the index that a stored pipeline has
    captured: Callable[[str], Capture | None] = lambda _: None  # how a source's changes are captured
    written: Callable[[UUID, str], Mapping[str, str]] = lambda *_: {}  # the columns that runs have written to a target
    above: Callable[[Sequence[str]], Sequence[Writer]] = lambda _: ()  # who writes some relations, and upstream of them
    members: Callable[[UUID], Sequence[Member]] = lambda _: ()  # the targets of a stored pipeline of several
    reads: bool = True  # rows, and what the planner knows of them: not for somebody who may not see the source's data
    findings: list[Finding] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)  # that reach the mart, once they are known
    reading: Reading | None = None  # how the next run reads the query, once that is known
    relations: Sequence[str] = ()  # of the warehouse that the query reads

    def of(self, pipeline: Pipeline) -> list[Finding]:
        """All findings about a pipeline; of several targets about each of them."""
        if not pipeline.targets:
            return self._of_one(pipeline)
        try:
            require_used(pipeline)
            known = self.members(pipeline.id)
            self.findings = each_found(pipeline, lambda member: self._of_one(as_stored(member, known)))
        except VitrinaError as error:
            self.findings = [refused("targets", error)]
        return self.findings

    def _of_one(self, pipeline: Pipeline) -> list[Finding]:
        self.findings, self.columns, self.reading, self.relations = [], [], None, ()
        with self._found("configuration"):
            plan = settle(pipeline)
            self._check_target(plan)
            with self._found("source_query", pipeline.source_query or ""):
                plan = plan.model_copy(update={"select": check_query(plan, self.connections.settings)})
                makers = naming_writers(self.above, tables_named(plan, self.connections.settings))
                with makers, self.connections.resolve_reader(plan.source) as reader:
                    begins = (pipeline.source_query or "").find(plan.select)
                    with _placed(lambda at: at + begins):
                        may_run = self._may_run(plan.select, reader)
                        columns = reader.describe(plan.select) if may_run else []
                    with _placed(lambda _: 0):  # in statements that are composed around it
                        if may_run:
                            self._look_at(pipeline, plan, columns, reader.within(LOOK_SECONDS))
        return self.findings

    def _may_run(self, select: str, reader: Source) -> bool:
        """The guard's word on what the query calls; before that, nothing of it is executed."""
        settings = self.connections.settings
        schemas, functions = settings.allowed_source_schemas, settings.allowed_functions
        found = reader.judge(select, schemas=schemas, functions=functions)
        self.findings += [replace(finding, where="source_query") for finding in found]
        return not any(finding.level == "error" for finding in found)

    def _look_at(self, pipeline: Pipeline, plan: Plan, columns: list[Column], reader: Source) -> None:
        self._say("info", "source_query", Code.GIVES, columns=[f"{c.name} {c.type}" for c in columns])
        self._check_upstream(pipeline, plan, reader)
        output = self._check_transforms(plan, columns)
        self.columns = output or columns
        if output is None:
            return
        mart = None
        if abilities_of(plan.target).needs_shadow:
            self._check_index(pipeline, plan, output)
        else:
            mart = self._check_mart(pipeline, plan, output)
        if plan.checks:
            self._check_checks(plan, output, mart)
        key = [name for name in plan.key if name in {c.name for c in columns}]
        if not self.reads:
            self._say("info", "source_query", Code.ROWS_NOT_READ)
        elif not reader.abilities.speaks_sql:
            guess = reader.estimate(plan.select)
            code = Code.READ_WHOLE if guess else Code.READ_UNCOUNTED
            self._say("info", "source_query", code, **({"rows": guess.rows} if guess else {}))
            self._check_given(plan, columns)
        elif key:
            query = QueryText(plan.select, tuple(columns), tuple(key))
            self._check_unique(reader, query)
            cost, rows = reader.cost(query.whole())
            self._say("info", "source_query", Code.ESTIMATED, rows=rows, cost=cost)
            if mart and plan.mode != "incremental":
                self._foretell(pipeline, plan, reader, mart)
            if plan.cursor:
                self._check_cursor(pipeline, plan, reader, query)
        is_served = self._is_served(plan, reader)
        if plan.mode == "live" and is_served:
            self._check_live(plan, reader)
        elif plan.mode != "live" and plan.impact:
            self._say("warning", "impact", Code.IMPACT_NOT_USED)

    def _check_upstream(self, pipeline: Pipeline, plan: Plan, reader: Source) -> None:
        """Whose marts it reads; never its own in the end."""
        self.relations = reads_of(reader, plan)
        above = self.above(self.relations)
        with self._found("source_query"):
            require_no_circle(plan.target, self.relations, above)
        read = [writer for writer in above if writer.mart in self.relations and writer.id != pipeline.id]
        if read:
            marts = [f"{writer.mart} ({writer.name})" for writer in read]
            self._say("info", "source_query", Code.READS_MARTS, marts=marts)
        if not pipeline.after:
            return
        followed = [writer.mart for writer in read if writer.mode == "live"]
        if plan.mode == "live":
            self._say("warning", "after", Code.AFTER_NOT_USED)
        elif not read:
            self._say("warning", "after", Code.AFTER_NOTHING)
        elif followed:
            self._say("warning", "after", Code.AFTER_LIVE, marts=followed)

    def _is_served(self, plan: Plan, reader: Source) -> bool:
        """Whether its source can do what its mode needs."""
        with self._found("mode"):
            reader.require(plan.mode)
            return True
        return False

    def _check_live(self, plan: Plan, reader: Source) -> None:
        with self._found("mode"):
            with self.connections.read_warehouse() as warehouse:
                key = resolve_key(warehouse.conn, plan)
            view = understand(*reader.catalogue, plan.select, key)
            with self._found("impact"):
                view = with_own_impact(reader, plan, key, view, self.connections.settings)
            self.findings += live_findings(reader, plan.source, view, self.captured(plan.source))

    def _check_target(self, plan: Plan) -> None:
        with self._found("target_table"):
            require_allowed_target(plan.target, self.connections.settings.whitelist)

    def _check_transforms(self, plan: Plan, columns: list[Column]) -> list[Column] | None:
        with self._found("tasks"):
            return list(resolve_transformer(plan.transforms, columns, plan.key).columns)
        return None

    def _check_mart(self, pipeline: Pipeline, plan: Plan, output: list[Column]) -> Foreseen | None:
        """The mart as the next run will have it, if it can be had."""
        if not is_allowed_target(plan.target, self.connections.settings.whitelist):
            return None
        with self._found("target_table"), self.connections.read_warehouse() as reader:
            trusted, before = self.connections.settings.trusted_owners, self.written(pipeline.id, plan.target)
            wanted = Wanted(plan.target, output, plan.key, plan.on_drift, plan.cursor or (), before, trusted)
            self._check_owner(reader.conn, wanted)
            found = foresee_mart(reader.conn, wanted)
            for statement in found.ddl:
                code = Code.WOULD_ALTER_TABLE if found.exists else Code.WOULD_CREATE_TABLE
                self._say("info", "target_table", code, statement=statement)
            return found
        return None

    def _check_owner(self, conn: Connection, wanted: Wanted) -> None:
        """Whoever owns a mart can add a trigger to it at any time, which would run with the runner's rights."""
        target, table = wanted.target, split_table(wanted.target)
        if owner := foreign_owner(conn, *table, wanted.trusted):
            self._say("warning", "target_table", Code.FOREIGN_OWNER, table=target, owner=owner)
        code = foreign_code(conn, *table)
        if code and not has_writer(conn):
            named = {"function": code[0].function, "owner": code[0].owner}
            self._say("warning", "target_table", Code.FOREIGN_CODE, **named)

    def _check_index(self, pipeline: Pipeline, plan: Plan, output: list[Column]) -> None:
        unknown = set(plan.mapping) - {c.name for c in output}
        with self._found("mapping" if unknown else "target_table"):
            kept = index_findings if abilities_of(plan.target).is_mapped else plugged_findings
            findings = TYPED.get(plan.target.partition(":")[0], kept)
            self.findings += findings(plan, output, self.connections.settings, self.served(pipeline.id))

    def _check_checks(self, plan: Plan, output: list[Column], mart: Foreseen | None) -> None:
        """One by one; where they will be asked."""
        settings = self.connections.settings
        with self._found("checks"), self.connections.read_warehouse() as warehouse:
            asked = MartSql(mart.mart).asked() if mart else resolve_asked(plan, output)
            for check in plan.checks:
                with self._found("checks"):
                    found = judge_check(warehouse.within(LOOK_SECONDS), plan, check, asked, settings)
                    self.findings += [replace(finding, where="checks") for finding in found]

    def _check_unique(self, reader: Source, query: QueryText) -> None:
        if is_unique_by_grouping(query.select, query.key):
            return
        rows = []
        with self._in_time("key", Code.UNIQUENESS_NOT_SEEN):
            rows = reader.fetch(_duplicates(query))
        if rows:
            keys = [{name: str(row[name]) for name in query.key} for row in rows]
            self._say("error", "key", Code.KEY_NOT_UNIQUE, keys=keys)

    def _foretell(self, pipeline: Pipeline, plan: Plan, reader: Source, found: Foreseen) -> None:
        """How the next run reads the query, by asking what it will ask."""
        mart = found.mart
        job = make_job(pipeline.id, pipeline, plan, reader, mart.key, self.connections.settings, lambda: None)
        if pipeline.part_of and plan.mode == "full":
            company = Company(pipeline.part_of, pipeline.id, AT_ANY_TIME)
            job = replace(job, sharing=company if may_be_shared(job) else None)
        with self._in_time("source_query", Code.READING_NOT_SEEN):
            self.reading = foretell_full(Work(job, mart, []), is_empty=self._is_empty(found))
            self._say("info", "source_query", _how_read(self.reading), **{NESTED: self.reading.why})

    def _is_empty(self, found: Foreseen) -> bool:
        """A mart that brings code of somebody's own along is not looked at: its rows are staged in any case."""
        if found.mart.seal or not found.exists:
            return not found.mart.seal
        with self.connections.read_warehouse() as reader:
            return bool(reader.fetch(MartSql(found.mart).is_empty())[0]["empty"])

    def _check_cursor(self, pipeline: Pipeline, plan: Plan, reader: Source, query: QueryText) -> None:
        assert plan.cursor is not None
        missing = [name for name in plan.cursor if name not in {c.name for c in query.columns}]
        if missing:
            self._say("error", "incremental_key", Code.CURSOR_NOT_GIVEN, columns=missing)
            return
        with self._found("incremental_key"):
            reader.horizon(self.connections.settings.horizon_margin)
        self._say("info", "mode", Code.INCREMENTAL_SEES)
        with self._in_time("incremental_key", Code.CURSOR_INDEX_NOT_SEEN):
            if not _is_served_by_index(reader, query, plan.cursor, pipeline.batch_size):
                self._say("warning", "incremental_key", Code.CURSOR_NOT_INDEXED, columns=plan.cursor)

    def _check_given(self, plan: Plan, columns: list[Column]) -> None:
        """The cursor of a source that gives windows."""
        missing = [name for name in plan.cursor or () if name not in {c.name for c in columns}]
        if missing:
            self._say("error", "incremental_key", Code.CURSOR_NOT_GIVEN, columns=missing)
        elif plan.cursor:
            self._say("info", "mode", Code.INCREMENTAL_SEES)

    @contextmanager
    def _in_time(self, where: str, code: Code) -> Iterator[None]:
        """What takes too long to find out is a warning."""
        try:
            yield
        except RetryableError:
            self._say("warning", where, code, seconds=LOOK_SECONDS)

    @contextmanager
    def _found(self, where: str, text: str = "") -> Iterator[None]:
        """An error of ours is a finding; with its place, if it has one in this text."""
        try:
            yield
        except VitrinaError as error:
            self.findings.append(refused(where, error, place_of(text, error.at)))

    def _say(self, level: Level, where: str, code: Code, **data: Json) -> None:
        self.findings.append(Finding(level, where, code, data))


@contextmanager
def _placed(moved: Callable[[int], int]) -> Iterator[None]:
    """Errors have their place in the text that the statement was taken from."""
    try:
        yield
    except VitrinaError as error:
        error.at = moved(error.at) if error.at else 0
        raise


def _how_read(reading: Reading) -> Code:
    return Code.READ_BY_KEY_OR_STAGED if reading.how is How.BY_KEY and reading.why else READ[reading.how]


def _duplicates(query: QueryText) -> sql.Composed:
    keys = sql.SQL(", ").join(sql.SQL("q.{}").format(sql.Identifier(name)) for name in query.key)
    return sql.SQL("SELECT {0} FROM {1} AS q GROUP BY {0} HAVING count(*) > 1 LIMIT 3").format(keys, query.source)


def _is_served_by_index(reader: Source, query: QueryText, cursor: tuple[str, str], batch_size: int) -> bool:
    rows = reader.fetch(sql.SQL("SELECT {}::text AS v, {}::text AS t FROM {} AS q LIMIT 1").format(
        sql.Identifier(cursor[0]), sql.Identifier(cursor[1]), query.source))  # fmt: skip
    if not rows:
        return True
    window = Window((rows[0]["v"], rows[0]["t"]), rows[0]["v"], inclusive=True)
    plan = reader.plan(query.after_cursor(cursor, window, batch_size), window.args)
    return not any(node["Node Type"] == "Sort" for node in _nodes(plan))


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)
