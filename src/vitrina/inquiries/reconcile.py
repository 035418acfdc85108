"""Reconcile: the comparison of a full run, reported instead of written.

Read in place, on the reader's connection, where the data is; otherwise from a stage of the request's own. What
differs is looked at a second time after a moment: changes that were on their way are no differences.
"""

import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.policy import split_table
from vitrina.domain.request import ReconcileParams
from vitrina.engine.filling import copy_across
from vitrina.engine.job import Job, ask, execute, fetch
from vitrina.engine.mart import Mart
from vitrina.engine.query import key_arrays
from vitrina.engine.reading import why_apart
from vitrina.engine.stage import KeySegment, Stage
from vitrina.engine.work import Work
from vitrina.inquiries.documents import DocumentReconciliation
from vitrina.inquiries.inquiry import Inquiry
from vitrina.inquiries.outcome import KINDS, differs, outcome
from vitrina.inquiries.report import ReportSql
from vitrina.meta.db import transaction
from vitrina.sinks.documents.mirror import Mirrored
from vitrina.sinks.registry import open_store
from vitrina.sinks.table.mart import inspect, prepare_mart
from vitrina.transforms import Row

MOMENT_SECONDS = 1.0


def reconcile(inquiry: Inquiry, params: dict[str, Any]) -> dict[str, Any]:
    """The report."""
    wanted = ReconcileParams.parse(params)
    job = inquiry.job()
    store = open_store(job, inquiry.settings, inquiry.conn)
    if store is None:
        return Reconciliation(inquiry, wanted, job).report()
    with closing(store):
        return DocumentReconciliation(inquiry, wanted, job, store).report()


def drop_scratch(inquiry: Inquiry) -> None:
    """The tables that a reconciliation may have left."""
    with inquiry.scratch() as conn:
        for table in (Stage(inquiry.id, ()), KeySegment(inquiry.id, ()), Mirrored(inquiry.id, ())):
            table.drop(conn)


@dataclass
class Reconciliation:
    """One comparison of a mart with its query. Writes to nothing but scratch tables."""

    inquiry: Inquiry
    params: ReconcileParams
    job: Job
    work: Work = field(init=False)
    statements: ReportSql = field(init=False)

    def report(self) -> dict[str, Any]:
        """Prepare, stage if need be, sum up, look again at what differs."""
        started = time.monotonic()
        self._prepare()
        why = why_apart(self.work)
        if why:
            self._fill(why)
        control = self._control()
        summary = self._sum_up(control)
        details = self._look_again() if differs(summary) else []
        lacking = self._lacking()
        told = outcome(self.inquiry, self.job, summary, details, control, why)
        return told | {
            "equal": told["equal"] and not lacking,
            "samples": {kind: self._samples(details, kind) for kind in KINDS},
            "key": list(self.work.mart.key),
            "columns": [c.name for c in self.work.mart.columns],
            "lacking_columns": lacking,
            "seconds": round(time.monotonic() - started, 3),
        }

    # ── what is compared ─────────────────────────────────────────────────────────────────────────────────────

    def _prepare(self) -> None:
        self.work = Work(self.job, self._mart(), [])
        self.statements = ReportSql(self.work.mart)

    def _mart(self) -> Mart:
        """As it is: in a transaction that can change nothing. Columns that it lacks are reported, not refused."""
        target = self.inquiry.plan.target
        wanted = self.job.wanted
        unwritten = [c.name for c in wanted.columns if c.name not in wanted.key]
        with transaction(self.inquiry.conn, self.inquiry.reading, read_only=True) as conn:
            if not inspect(conn, *split_table(target)):
                raise ConfigError(f"{target} does not exist yet", "run the pipeline first")
            return prepare_mart(conn, replace(wanted, on_drift="fail", unwritten=unwritten))[0]

    def _lacking(self) -> list[str]:
        """Columns of the query that the mart should have and has not; a cursor may be read without being written."""
        written = {c.name for c in self.work.mart.columns} | set(self.inquiry.plan.cursor or ())
        return [c.name for c in self.job.output if c.name not in written]

    def _control(self) -> str:
        names = [c.name for c in self.work.mart.columns]
        asked = self.params.control_field
        if asked and asked not in names:
            raise ConfigError(f"control field {asked} is not compared", f"choose one of {', '.join(names)}")
        cursor = self.inquiry.plan.cursor
        return asked or next((name for name in (cursor or ())[:1] if name in names), self.work.mart.key[0])

    # ── comparing ────────────────────────────────────────────────────────────────────────────────────────────

    def _sum_up(self, control: str) -> Row:
        scope = self.work.stage.identifier if self.work.staged else self.work.query.source
        as_text = not self._has_minimum(self.work.mart.types[control])
        summary = self._read(self.statements.summary(scope, control, as_text=as_text))[0]
        if summary["joined"] > summary["mart_rows"]:
            self.work.refuse_duplicates(self._read(self.statements.duplicates(scope)))
        return summary

    def _has_minimum(self, type_: str) -> bool:
        """Not every type has min() in every Postgres: uuid, boolean and bytea are ordered the same as their text."""
        text = sql.SQL("SELECT pg_catalog.min(NULL::{}) AS least").format(sql.SQL(type_))
        try:
            with transaction(self.inquiry.conn, self.inquiry.reading, read_only=True) as conn:
                execute(conn, text)
        except ConfigError:
            return False
        return True

    def _look_again(self) -> list[Row]:
        """Keep the keys that differ, wait for what is on its way, and compare just these."""
        keys = self.work.new_keys()
        with self.inquiry.scratch() as conn:
            found = self.work.find(conn, keys)
            self.work.refuse_null_keys(conn, keys.identifier)
            self.work.refuse_duplicates(execute(conn, self.statements.duplicates(keys.identifier)).fetchall())
        if not found:
            return []
        self._wait_a_moment()
        by_key = self.work.mart.pushable and self.job.reader.abilities.speaks_sql
        few = found <= self.job.batch_size and by_key
        args = self._args(keys, found) if few else []
        if self.work.staged:
            self._fill_again(args)
        source = self.work.stage.identifier if self.work.staged else self.work.query.source
        scope = self.statements.joined(source, keys.identifier)
        if few and not self.work.staged:
            scope = self.work.query.by_keys()
        text = self.statements.details(sql.SQL("({})").format(scope), keys.identifier, self.params.sample)
        return self._read(text, [] if self.work.staged else args)

    def _wait_a_moment(self) -> None:
        deadline = time.monotonic() + MOMENT_SECONDS
        while time.monotonic() < deadline:
            self.inquiry.check()
            time.sleep(0.05)

    def _args(self, keys: KeySegment, found: int) -> list[str | None]:
        with transaction(self.inquiry.conn, self.inquiry.reading, read_only=True) as conn:
            args = fetch(conn, sql.SQL("SELECT {} AS args").format(key_arrays(keys)), [0, found])["args"]
        return list(args)

    # ── the stage ────────────────────────────────────────────────────────────────────────────────────────────

    def _fill(self, why: str) -> None:
        with self.inquiry.scratch() as conn:
            _, self.work = self.work.fill(conn, why)
            self.work.stage.add_key_index(conn, self.work.mart.key)

    def _fill_again(self, args: list[str | None]) -> None:
        """Read the source anew: just the rows of a few keys, or everything when there are many."""
        if not args:
            self._fill("looking again")
            return
        stage = self.work.stage
        with self.inquiry.scratch() as conn:
            stage.truncate(conn)
            if not self.job.transforming:
                copy_across(self.job.reader, self.work.query.with_args(args).by_keys(), stage, conn)
                return
            rows = self.job.reader.fetch(self.work.query.by_keys(), args)
            with stage.copy_in(conn, "text") as copy:
                self.job.transforming.write(copy, rows)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, statement: sql.Composable, args: list[str | None] | None = None) -> list[Row]:
        """Where the data is: as the reader in place, or in the stage."""
        mart, looking = self.work.mart, transaction(self.inquiry.conn, self.inquiry.reading, read_only=True)
        if self.work.staged:
            with self.inquiry.scratch() if mart.seal or mart.watched else looking as conn:
                return ask(conn, mart, statement)
        if not mart.watched:
            return self.job.reader.fetch(statement, args or [])
        with self.inquiry.scratch() as conn, mart.held(conn):
            return self.job.reader.fetch(statement, args or [])

    def _samples(self, details: list[Row], kind: str) -> list[dict[str, Any]]:
        rows = [row for row in details if row["kind"] == kind][: self.params.sample]
        return [self._sample(row) for row in rows]

    def _sample(self, row: Row) -> dict[str, Any]:
        shown: dict[str, Any] = {"key": dict(zip(self.work.mart.key, row["key"], strict=True))}
        if row["kind"] == "different":
            names = [c.name for c in self.work.mart.columns]
            values = zip(names, row["differ"], row["query_values"], row["mart_values"], strict=True)
            shown["columns"] = {name: {"query": q, "mart": m} for name, differs, q, m in values if differs}
        return shown
