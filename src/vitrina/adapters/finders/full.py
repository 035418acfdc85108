"""Mode `full`: compare query and mart, then converge the keys that differ. An empty mart is loaded.

The mart itself is the checkpoint: a run that was paused or killed finds again, and what is done no longer differs.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from vitrina.adapters.filling import copy_across, transform_across
from vitrina.adapters.job import Job, Step, StepResult, execute, fetch
from vitrina.adapters.stage import KeySegment, Stage
from vitrina.adapters.writers.converge import (
    MartSql,
    QueryText,
    duplicates,
    key_arrays,
    reader_scope,
)
from vitrina.adapters.writers.postgres import prepare_mart
from vitrina.domain.errors import ConfigError, FatalError, RetryableError
from vitrina.domain.run import Counts
from vitrina.meta.db import Connection
from vitrina.sql.describe import Column

# When is reading by key, batch after batch, dearer than reading everything once into a stage? The planner's costs
# decide: a staged row costs about this much, and index lookups are overestimated by about this factor.
STAGED_ROW_COST = 0.3
LENIENCY = 8.0


class FullMode:
    """The steps of a full run. Each is one fenced transaction; a pause or a crash falls between two."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.stage = Stage(job.pipeline_id, job.output)
        self.staged = False

    def steps(self) -> Iterator[Step]:
        """Prepare the mart, stage if need be, then load it or compare and converge."""
        yield self._prepare
        if not self._reads_in_place():
            yield self._fill
        if self.mart_is_empty:
            yield from self._load()
        else:
            yield from self._converge()
        yield self._clean_up

    def _prepare(self, conn: Connection) -> StepResult:
        plan = self.job.plan
        self.mart, ddl = prepare_mart(
            conn,
            plan.target,
            self.job.output,
            key=plan.key,
            on_drift=plan.on_drift,
            written_before=self.job.written_before,
        )
        self.sql = MartSql(self.mart)
        self.query = QueryText(self.job.plan.select, self.job.columns, self.mart.key)
        self.mart_is_empty = fetch(conn, self.sql.is_empty())["empty"]
        return StepResult(
            "mart is ready", fields={"target": plan.target, "ddl": ddl} if ddl else {"target": plan.target}
        )

    def _reads_in_place(self) -> bool:
        return self.job.stays_inside and self.mart.pushable and self.job.plan.publish == "batches"

    # ── staging ──────────────────────────────────────────────────────────────────────────────────────────────

    def _fill(self, conn: Connection, why: str = "") -> StepResult:
        """Everything the query gives, in key order, once."""
        self.stage.create(conn)
        order = sql.SQL(", ").join(sql.SQL("q.{}").format(sql.Identifier(name)) for name in self.mart.key)
        if self.job.transformer:
            query = self.query.by_range(lower=False, upper=False) + sql.SQL(" ORDER BY ") + order
            read = transform_across(self.job, query, self.stage, conn, [None, ""])
        else:
            query = self.query.whole() + sql.SQL(" ORDER BY ") + order
            read = copy_across(self.job.reader, query, self.stage, conn)
        self.staged_rows = fetch(conn, sql.SQL("SELECT count(*) AS n FROM {}").format(self.stage.identifier))["n"]
        if not self.mart_is_empty:
            self.stage.add_key_index(conn, self.mart.key)
        self.stage.analyze(conn)
        self.staged = True
        return StepResult(
            "staged",
            position={"phase": "stage", "rows": read},
            fields={"rows": read, "why": why or self._why_staged()},
        )

    def _why_staged(self) -> str:
        if not self.job.reader.is_local:
            return f"source {self.job.plan.source} is another server"
        if self.job.transformer:
            return "rows go through Python"
        if self.job.plan.publish == "atomic":
            return "publish is atomic"
        return "the mart compares keys in its own way"

    # ── an empty mart ────────────────────────────────────────────────────────────────────────────────────────

    def _load(self) -> Iterator[Step]:
        if not self.staged:
            yield self._find_bounds
            if self.range_is_dear:
                yield partial(self._fill, why=self.range_is_dear)
        if self.staged:
            size = self.staged_rows if self.job.plan.publish == "atomic" else self.job.batch_size
            for start in range(0, self.staged_rows, max(size, 1)):
                yield partial(self._load_slice, start, start + size)
        else:
            for number in range(self.bound_count + 1):
                yield partial(self._load_range, number)

    def _find_bounds(self, conn: Connection) -> StepResult:
        self.bounds = KeySegment(self.job.pipeline_id, tuple(self._query_key()))
        self.bounds.create(conn)
        copy_across(self.job.reader, self.query.bounds(self.job.batch_size), self.bounds, conn)
        self._refuse_null_keys(conn, self.bounds)
        self.bound_count = fetch(conn, sql.SQL("SELECT count(*) AS n FROM {}").format(self.bounds.identifier))["n"]
        self.range_is_dear = self._range_is_dear(conn)
        return StepResult(
            "found what to load",
            position={"phase": "load", "batch": 0, "batches": self.bound_count + 1},
            fields={
                "batches": self.bound_count + 1,
                "read": "staged" if self.range_is_dear else "by key range",
            },
        )

    def _range_is_dear(self, conn: Connection) -> str:
        """Why ranges cannot be read cheaply; empty when they can."""
        if self.bound_count == 0:
            return ""
        middle = self.bound_count // 2 + 1
        lower = middle > 1
        open_end: list[str | None] = [None] * len(self.mart.key)
        args = self._bound(conn, middle - 1) if lower else open_end
        one = self.query.by_range(lower=lower, upper=True)
        return self._is_dear(one, args + self._bound(conn, middle), self.bound_count + 1)

    def _bound(self, conn: Connection, number: int) -> list[str | None]:
        names = sql.SQL(", ").join(sql.SQL("{}::text").format(c.identifier) for c in self.bounds.columns)
        text = sql.SQL("SELECT ARRAY[{}] AS bound FROM {} WHERE vitrina_n = $1")
        found: list[str | None] = fetch(conn, text.format(names, self.bounds.identifier), [number])["bound"]
        return found

    def _load_range(self, number: int, conn: Connection) -> StepResult:
        lower, upper = number > 0, number < self.bound_count
        open_end: list[str | None] = [None] * len(self.mart.key)
        args = (self._bound(conn, number) if lower else open_end) + (
            self._bound(conn, number + 1) if upper else open_end
        )
        text = self.query.by_range(lower=lower, upper=upper).as_string(conn)
        scope = reader_scope(self.job.columns, sql.SQL("$1::text[]"), "$2")
        return self._insert(conn, scope, self._key_order(), [args, text], number + 1, self.bound_count + 1)

    def _load_slice(self, start: int, end: int, conn: Connection) -> StepResult:
        last = min(end, self.staged_rows)
        return self._insert(conn, self.stage.slice(), sql.SQL("t.vitrina_n"), [start, end], last, self.staged_rows)

    def _insert(
        self,
        conn: Connection,
        scope: sql.Composable,
        order: sql.Composable,
        params: list[Any],
        done: int,
        total: int,
    ) -> StepResult:
        try:
            rows = execute(conn, self.sql.insert(scope, order), params).rowcount
        except psycopg.errors.UniqueViolation as error:
            raise self._conflict(error) from error
        return StepResult(
            "loaded",
            Counts(read=rows, written=rows),
            {"phase": "load", "done": done, "of": total},
            {"done": done, "of": total},
            is_batch=True,
        )

    def _conflict(self, error: psycopg.errors.UniqueViolation) -> Exception:
        """A load met a key that is there already: the query gave it twice, or somebody else writes to the mart."""
        if not self.staged:
            self._refuse_duplicates(self.job.reader.fetch(duplicates(self.query.source, self.mart.key)))
        detail = error.diag.message_detail or ""
        if self.staged:
            return ConfigError(f"the query gives a key twice: {detail}", "make the key unique in the query")
        return RetryableError(f"somebody else wrote to {self.job.plan.target}: {detail}")

    # ── a mart with rows ─────────────────────────────────────────────────────────────────────────────────────

    def _converge(self) -> Iterator[Step]:
        yield self._find
        if not self.staged and self.found and self.key_is_dear:
            yield self._stage_found
        if self.job.plan.publish == "atomic":
            if self.found:
                yield self._apply_all
            return
        for start in range(self.first, self.first_delete, self.job.batch_size):
            yield partial(self._upsert, start, min(start + self.job.batch_size, self.first_delete))
        for start in range(self.first_delete, self.last, self.job.batch_size):
            yield partial(self._delete, start, min(start + self.job.batch_size, self.last))

    def _find(self, conn: Connection) -> StepResult:
        """One read-only comparison; its keys are kept in the order in which they will be converged."""
        self.keys = KeySegment(self.job.pipeline_id, tuple(Column(k, self.mart.types[k], False) for k in self.mart.key))
        self.keys.create(conn)
        if self.staged:
            self._compare_here(conn)
        else:
            copy_across(self.job.reader, self.sql.compare(self.query.source), self.keys, conn)
        counts = self._tally(conn)
        self.keys.analyze(conn)
        self._check_keys(conn, counts)
        self._guard_deletes(counts)
        self.key_is_dear = "" if self.staged or not self.found else self._key_is_dear(conn)
        fields = {name: counts[name] for name in ("missing", "different", "gone", "unchanged")}
        return StepResult(
            "compared",
            Counts(read=counts["read"], unchanged=counts["unchanged"]),
            {"phase": "converge", "done": 0, "of": self.found},
            fields | ({"read": "staged" if self.staged or self.key_is_dear else "by key"} if self.found else {}),
        )

    def _compare_here(self, conn: Connection) -> None:
        names = sql.SQL(", ").join(map(sql.Identifier, self.keys.copied))
        into = sql.SQL("INSERT INTO {} ({}) ").format(self.keys.identifier, names)
        execute(conn, into + self.sql.compare(self.stage.identifier))

    def _tally(self, conn: Connection) -> dict[str, int]:
        """Count what was found, and let the segment keep only keys."""
        text = sql.SQL(
            "SELECT vitrina_kind::text AS kind, count(*) AS keys, sum(vitrina_copies)::bigint AS rows"
            " FROM {} GROUP BY 1"
        ).format(self.keys.identifier)
        by_kind = {row["kind"]: row for row in execute(conn, text).fetchall()}
        execute(conn, sql.SQL("DELETE FROM {} WHERE vitrina_kind = '='").format(self.keys.identifier))
        missing, different, gone, same = (by_kind.get(kind, {"keys": 0, "rows": 0}) for kind in ("i", "u", "d", "="))
        self.found = missing["keys"] + different["keys"] + gone["keys"]
        # The keys are numbered from 1, or from 2 when the row that counts the unchanged came first.
        self.first = same["keys"]
        self.first_delete = self.first + missing["keys"] + different["keys"]
        self.last = self.first_delete + gone["keys"]
        return {
            "missing": missing["keys"],
            "different": different["keys"],
            "gone": gone["keys"],
            "unchanged": same["rows"],
            "read": missing["rows"] + different["rows"] + same["rows"],
            "mart": same["rows"] + different["keys"] + gone["keys"],
        }

    def _check_keys(self, conn: Connection, counts: dict[str, int]) -> None:
        self._refuse_null_keys(conn, self.keys)
        names = sql.SQL(", ").join(c.identifier for c in self.keys.columns)
        text = sql.SQL("SELECT {} FROM {} WHERE vitrina_copies > 1 LIMIT 3").format(names, self.keys.identifier)
        self._refuse_duplicates(execute(conn, text).fetchall())
        if counts["mart"] != fetch(conn, self.sql.count())["rows"]:  # unchanged rows, counted twice
            if self.staged:
                self._refuse_duplicates(execute(conn, duplicates(self.stage.identifier, self.mart.key)).fetchall())
            else:
                self._refuse_duplicates(self.job.reader.fetch(duplicates(self.query.source, self.mart.key)))

    def _guard_deletes(self, counts: dict[str, int]) -> None:
        """Deletes are counted before anything is written."""
        limits, gone, mart = self.job.limits, counts["gone"], counts["mart"]
        emptied = counts["read"] == 0 and gone > 0
        many = gone > limits.max_delete_rows and gone > limits.max_delete_share * mart
        if (emptied or many) and not self.job.options.allow_deletes:
            said = "the query gives no rows at all" if emptied else f"more than {limits.max_delete_share:.0%} of it"
            raise FatalError(
                f"this would delete {gone:,} of {mart:,} rows of {self.job.plan.target}, {said}; nothing was written",
                "look at the source; if it is right, run once with allow_deletes",
            )

    def _key_is_dear(self, conn: Connection) -> str:
        size = min(self.job.batch_size, self.found)
        args = fetch(conn, sql.SQL("SELECT {} AS args").format(key_arrays(self.keys)), [self.first, self.first + size])
        return self._is_dear(self.query.by_keys(), args["args"], -(-self.found // size))

    def _is_dear(self, one_batch: sql.Composable, args: list[str | None], batches: int) -> str:
        by_batch, _ = self.job.reader.cost(one_batch, args)
        whole, rows = self.job.reader.cost(self.query.whole())
        staged = whole + rows * STAGED_ROW_COST
        if by_batch * batches <= LENIENCY * staged:
            return ""
        return (
            f"the key cannot be pushed into the query: {batches} batches at cost {by_batch:,.0f} "
            f"against {whole:,.0f} for reading it once"
        )

    def _stage_found(self, conn: Connection) -> StepResult:
        """The rows of the keys that were found, read in one go."""
        self.stage.create(conn)
        query = self.sql.joined(self.query.source, self.keys.identifier)
        rows = copy_across(self.job.reader, query, self.stage, conn)
        self.stage.add_key_index(conn, self.mart.key)
        self.stage.analyze(conn)
        self.staged = True
        return StepResult(
            "staged",
            position={"phase": "converge", "done": 0, "of": self.found},
            fields={"rows": rows, "why": self.key_is_dear},
        )

    def _scope(self, conn: Connection) -> tuple[sql.Composed, list[Any]]:
        """The rows of a slice of the keys: from the stage, or from the query as the reader."""
        if self.staged:
            return self.sql.staged_scope(self.stage, self.keys), []
        return reader_scope(self.job.columns, key_arrays(self.keys), "$3"), [self.query.by_keys().as_string(conn)]

    def _upsert(self, start: int, end: int, conn: Connection) -> StepResult:
        scope, text = self._scope(conn)
        row = fetch(conn, self.sql.upsert(scope), [start, end, *text])
        return self._applied("written", Counts(written=row["written"]), end)

    def _delete(self, start: int, end: int, conn: Connection) -> StepResult:
        scope, text = self._scope(conn)
        row = fetch(conn, self.sql.delete(scope, self.keys.slice()), [start, end, *text])
        return self._applied("deleted", Counts(deleted=row["deleted"]), end)

    def _apply_all(self, conn: Connection) -> StepResult:
        """`publish: atomic`: readers of the mart see all of it or nothing."""
        scope, _ = self._scope(conn)
        written = fetch(conn, self.sql.upsert(scope), [self.first, self.first_delete])["written"]
        deleted = fetch(conn, self.sql.delete(scope, self.keys.slice()), [self.first_delete, self.last])["deleted"]
        return self._applied("published", Counts(written=written, deleted=deleted), self.last)

    def _applied(self, event: str, counts: Counts, end: int) -> StepResult:
        progress = {"done": end - self.first, "of": self.found}
        return StepResult(event, counts, {"phase": "converge", **progress}, progress, is_batch=True)

    # ── both ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _clean_up(self, conn: Connection) -> StepResult:
        self.stage.drop(conn)
        KeySegment(self.job.pipeline_id, ()).drop(conn)
        return StepResult("finished")

    def _query_key(self) -> list[Column]:
        return [next(c for c in self.job.columns if c.name == name) for name in self.mart.key]

    def _key_order(self) -> sql.Composed:
        return sql.SQL(", ").join(sql.SQL("t.{}").format(sql.Identifier(name)) for name in self.mart.key)

    def _refuse_null_keys(self, conn: Connection, segment: KeySegment) -> None:
        nulls = sql.SQL(" OR ").join(sql.SQL("{} IS NULL").format(c.identifier) for c in segment.columns)
        row = execute(conn, sql.SQL("SELECT * FROM {} WHERE {} LIMIT 1").format(segment.identifier, nulls)).fetchone()
        if row:
            named = ", ".join(f"{name} = {row[name]}" for name in segment.key)
            raise ConfigError(
                f"the query gives a row with NULL in its key: {named}", "filter it out, or choose another key"
            )

    def _refuse_duplicates(self, rows: list[dict[str, Any]]) -> None:
        if rows:
            named = "; ".join(", ".join(f"{name} = {row[name]}" for name in self.mart.key) for row in rows)
            raise ConfigError(f"the query gives a key twice: {named}", "make the key unique in the query")
