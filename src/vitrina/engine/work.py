"""What the steps of a run share: the mart, its statements, the query, and the stage if there is one."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from psycopg import sql

from vitrina.domain.errors import ConfigError, FatalError
from vitrina.domain.events import Event
from vitrina.domain.positions import FullPosition
from vitrina.domain.reasons import Reason
from vitrina.domain.run import Counts
from vitrina.domain.wording import Because, Data
from vitrina.engine.converge import MartSql
from vitrina.engine.filling import Target, copy_across, copy_blocks, write_across
from vitrina.engine.job import Found, Job, StepResult, ask, execute, write
from vitrina.engine.mart import Mart
from vitrina.engine.query import QueryText
from vitrina.engine.stage import KeySegment, Stage
from vitrina.meta.db import Connection
from vitrina.sql.describe import Column

# When is reading by key, batch after batch, costlier than reading everything once into a stage? The planner's costs
# decide: a staged row costs about this much, and index lookups are overestimated by about this factor.
STAGED_ROW_COST = 0.3
LENIENCY = 8.0
SHOWN_COLUMNS, SHOWN_LENGTH = 5, 80  # of a row that is named by more than its key
NO_NULLS = "filter it out, or choose another column"
ONCE = "make the key unique in the query"


@dataclass
class Work:
    """One run's view of its mart and its query."""

    job: Job
    mart: Mart
    ddl: list[str]
    staged_rows: int | None = None  # None: nothing is staged, the query is read in place
    mostly_same: bool = False  # of the last batch, most rows were in the mart already
    statements: MartSql = field(init=False)
    query: QueryText = field(init=False)
    stage: Stage = field(init=False)

    def __post_init__(self) -> None:
        self.statements = self.job.writer.statements(self.mart)
        self.query = QueryText(self.job.select, self.job.columns, self.mart.key)
        self.stage = Stage(self.job.pipeline_id, self.job.output)

    @classmethod
    def prepare(cls, job: Job, conn: Connection) -> "Work":
        """Create or check the mart. A cursor that an existing mart does not have is read and not written."""
        mart, ddl = job.writer.prepare(conn, job.wanted)
        mart = replace(mart, is_asked_by_row=bool(job.checks and job.checks.by_row))
        if job.transformer:
            job = replace(job, transformer=job.transformer.with_key(mart.key, job.columns))
        work = cls(job, mart, ddl)
        if job.changes:
            job.changes.key = mart.key
        if job.checks:
            job.checks.about(work.statements.asked(), work.statements.all_rows())
        return work

    @property
    def stays_inside(self) -> bool:
        """Whether one statement can read the query and write the mart. One that runs code of somebody's own must not:
        the code could read the source as the query does."""
        return self.job.stays_inside and self.mart.seal is None

    @property
    def streams(self) -> bool:
        """Whether an empty mart takes all rows as they come: not in batches that somebody has asked for, and on their
        way nobody changes them or asks about them."""
        job, asked = self.job, any(check.is_by_row for check in self.job.plan.checks)
        return job.writer.abilities.streams and job.has_usual_batches and self.stays_inside and not asked

    @property
    def staged(self) -> bool:
        """Whether rows come from the stage."""
        return self.staged_rows is not None

    def is_empty(self, conn: Connection) -> bool:
        """Whether the mart has no rows."""
        return bool(ask(conn, self.mart, self.statements.is_empty())[0]["empty"])

    def count(self, conn: Connection) -> int:
        """How many rows the mart has."""
        return int(ask(conn, self.mart, self.statements.count())[0]["rows"])

    def apply(self, conn: Connection, statement: sql.Composable, params: list[Any] | None = None) -> dict[str, Any]:
        """Run a statement that writes; what it counted, or how many rows it wrote."""
        if self.mart.seal:
            [row] = self.mart.seal.ask(conn, statement, params)
        else:
            with self.mart.held(conn):
                cursor = execute(conn, statement, params, binary=True)
            row = (cursor.fetchone() or {}) if cursor.description else {"written": cursor.rowcount}
        if self.job.checks and (written := self.statements.written(row)):
            self.job.checks.of_rows(conn, *written)
        if self.job.changes:
            self.job.changes.add(row)
        self.job.writer.wrote(row)
        return row

    @property
    def shown(self) -> int:
        """Of how many rows a statement is to tell what was and what is."""
        return self.job.changes.left if self.job.changes else 0

    @property
    def untold(self) -> MartSql:
        """Statements that tell no keys: of so many rows that all of the mart is asked instead, by `check_all`."""
        return self.job.writer.statements(replace(self.mart, is_asked_by_row=False))

    def check_all(self, conn: Connection) -> None:
        """Every row of a mart that was empty before this transaction."""
        if self.job.checks and (rows := self.statements.all_rows()):
            self.job.checks.of_rows(conn, rows, [])

    def upsert(
        self,
        conn: Connection,
        scope: sql.Composable,
        params: list[Any] | None = None,
        cursor: tuple[str, str] | None = None,
        keys: sql.Composable | None = None,
        at_most: int | None = None,
    ) -> dict[str, Any]:
        """Write what a scope gives, as far as the mart has it otherwise.

        What was found was found because it changed, so it is written without looking first; if that was wrong for most
        of a batch, the next one is compared before it is written.
        """
        how: Any = {"at_most": at_most, "compare_first": self.mostly_same, "shown": self.shown}
        statement = self.statements.upsert(scope, cursor, keys, **how)
        row = self.apply(conn, statement, params)
        self.mostly_same = row["written"] * 2 < row["read"]
        return row

    def fill(self, conn: Connection, why: str | None) -> Found["Work"]:
        """Stage everything the query gives, once; the same work, whose rows come from the stage."""
        self.stage.create(conn)
        fields: Data = {}
        if self.job.sharing:
            read, was_read = self.job.sharing.fill(self.stage, self.job, self.pour, conn)
            fields = {"read_for_all": was_read}
        else:
            read, _ = self.pour(self.stage, conn)
        rows = self.stage.finish(conn)
        self.refuse_null_keys(conn, self.stage.identifier)
        if self.job.sharing:
            self.job.sharing.leave(conn)
        told: Data = {"rows": rows, "why": why, **fields}
        result = StepResult(Event.STAGED, Counts(read=read), FullPosition("stage"), told)
        return result, replace(self, staged_rows=rows)

    def pour(self, target: Target, conn: Connection) -> tuple[int, int]:
        """Everything the query gives, through the transforms, and in key order if its source can be told to; how many
        rows were read and written."""
        job, reader = self.job, self.job.reader
        if reader.abilities.gives_blocks and job.transformer is None:
            rows = copy_blocks(job, target, conn)
            return rows, rows
        if not reader.abilities.speaks_sql:
            return write_across(job, reader.rows(job.select, job.batch_size), target, conn)
        ordered = self.query.whole() + sql.SQL(" ORDER BY ") + self.key_columns("q")
        if job.transformer:
            return write_across(job, reader.text_batches(ordered, job.batch_size), target, conn)
        rows = copy_across(reader, ordered, target, conn)
        return rows, rows

    def new_keys(self) -> KeySegment:
        """A segment for keys in the mart's types."""
        return KeySegment(self.job.pipeline_id, tuple(Column(name, self.mart.types[name]) for name in self.mart.key))

    def find(self, conn: Connection, keys: KeySegment) -> int:
        """One read-only comparison of both sides, of which only the keys that differ are kept; how many."""
        keys.create(conn)
        if self.staged:
            names = sql.SQL(", ").join(map(sql.Identifier, keys.copied))
            into = sql.SQL("INSERT INTO {} ({}) ").format(keys.identifier, names)
            write(conn, self.mart, into + self.statements.compare(self.stage.identifier))
        else:
            query = sql.SQL("({})").format(self.query.whole())
            with self.mart.held(conn):
                copy_across(self.job.reader, self.statements.compare(query), keys, conn)
        return keys.finish(conn)

    def why_costly(self, one_batch: sql.Composable, args: list[str | None], batches: int) -> Because | None:
        """Why reading the query batch by batch would cost too much; None when it does not."""
        by_batch, _ = self.job.reader.cost(one_batch, args)
        whole, rows = self.job.reader.cost(self.query.whole())
        staged = min(rows, batches * self.job.rows_at_once)  # the planner may think of far more rows than there are
        if by_batch * batches <= LENIENCY * (whole + staged * STAGED_ROW_COST):
            return None
        return Reason.KEY_NOT_PUSHED.of(batches=batches, by_batch=by_batch, whole=whole)

    def key_columns(self, alias: str) -> sql.Composed:
        """The key columns of an alias, in order."""
        return sql.SQL(", ").join(sql.SQL("{}.{}").format(sql.SQL(alias), sql.Identifier(k)) for k in self.mart.key)

    def refuse_null_keys(self, conn: Connection, table: sql.Identifier) -> None:
        """A ConfigError that shows the row: as the query gives it, or by its key if a transform made that NULL."""
        keys = [sql.Identifier(name) for name in self.mart.key]
        nulls = sql.SQL(" OR ").join(sql.SQL("{} IS NULL").format(key) for key in keys)
        shown = sql.SQL(", ").join(sql.SQL("{0}::text AS {0}").format(key) for key in keys)
        for row in execute(conn, sql.SQL("SELECT {} FROM {} WHERE {} LIMIT 1").format(shown, table, nulls)).fetchall():
            self.refuse_nulls(self.mart.key, "key")
            raise ConfigError(f"the query gives a row with NULL in its key: {self._named(row)}", NO_NULLS)

    def refuse_nulls(self, names: Sequence[str], what: str) -> None:
        """A ConfigError that shows a row of the query with NULL in one of these columns, so that it can be found; of a
        source that can be asked for it."""
        if not self.job.reader.abilities.speaks_sql:
            return
        others = [c.name for c in self.job.columns if c.name not in names]
        shown = [*dict.fromkeys(names), *others[:SHOWN_COLUMNS]]
        values = sql.SQL(", ").join(
            sql.SQL("left(q.{0}::text, {1}) AS {0}").format(sql.Identifier(name), SHOWN_LENGTH) for name in shown
        )
        nulls = sql.SQL(" OR ").join(sql.SQL("q.{} IS NULL").format(sql.Identifier(name)) for name in names)
        text = sql.SQL("SELECT {} FROM {} AS q WHERE {} LIMIT 1").format(values, self.query.source, nulls)
        for row in self.job.reader.fetch(text):
            named = ", ".join(f"{name} = {row[name]}" for name in shown)
            raise ConfigError(f"the query gives a row with NULL in its {what}: {named}", NO_NULLS)

    def refuse_duplicates(self, rows: list[dict[str, Any]]) -> None:
        """A ConfigError that names the keys, if there are any."""
        if rows:
            named = "; ".join(map(self._named, rows))
            raise ConfigError(f"the query gives a key twice: {named}", ONCE)

    def guard_deletes(self, gone: int, mart: int, read: int, kept: str = "nothing was written") -> None:
        """The mass-delete guard, asked before anything is committed."""
        why = self.job.limits.why_refused(gone, mart, read)
        if why and not self.job.options.allow_deletes:
            raise FatalError(
                f"this would delete {gone:,} of {mart:,} rows of {self.job.plan.target} ({why}); {kept}",
                "look at the source; if it is right, run once with allow_deletes",
            )

    def clean_up(self, conn: Connection) -> None:
        """Drop the scratch tables."""
        self.stage.drop(conn)
        KeySegment(self.job.pipeline_id, ()).drop(conn)

    def _named(self, row: dict[str, Any]) -> str:
        return ", ".join(f"{name} = {row[name]}" for name in self.mart.key)
