"""Comparing a mart with its query, and converging the keys that differ: upserts first, deletes last."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from psycopg import sql

from vitrina.domain.events import Event
from vitrina.domain.positions import FullPosition
from vitrina.domain.run import Counts
from vitrina.domain.wording import Because
from vitrina.engine.filling import copy_across
from vitrina.engine.job import Found, Job, Step, StepResult, execute, fetch, finding
from vitrina.engine.query import key_arrays, reader_scope
from vitrina.engine.stage import KeySegment
from vitrina.engine.work import Work
from vitrina.meta.db import Connection
from vitrina.sql.unique import is_unique_by_grouping


@dataclass(frozen=True)
class Comparison:
    """The steps that find what differs, and then converge it."""

    work: Work

    @property
    def job(self) -> Job:
        """Of the run."""
        return self.work.job

    def steps(self) -> Generator[Step, None, None]:
        """Find; stage the rows that were found if reading them by key would be costly; then batch after batch."""
        found, too_costly = yield from finding(self._find)
        if too_costly:
            found = yield from finding(partial(found.stage, too_costly))
        yield from found.steps()

    def _find(self, conn: Connection) -> Found[tuple["Differing", Because | None]]:
        """Compare, count, and check what was found before anything is written; and why it should be staged."""
        keys = self.work.new_keys()
        if self.work.staged:
            self.work.stage.add_key_index(conn, self.work.mart.key)
        found = self.work.find(conn, keys)
        counts = self._tally(conn, keys)
        self._check_keys(conn, keys, counts)
        self.work.guard_deletes(counts["gone"], counts["mart"], counts["read"])
        differing = Differing(self.work, keys, counts["upserts"], found)
        too_costly = differing.why_costly(conn)
        fields: dict[str, Any] = {name: counts[name] for name in ("missing", "different", "gone", "unchanged")}
        if found:
            fields["read"] = "staged" if self.work.staged or too_costly else "by key"
        read = 0 if self.work.staged else counts["read"]  # staging has counted them
        counted = Counts(read, unchanged=counts["unchanged"])
        return StepResult(Event.COMPARED, counted, differing.position(0), fields), (differing, too_costly)

    def _tally(self, conn: Connection, keys: KeySegment) -> dict[str, int]:
        text = sql.SQL("SELECT vitrina_kind::text AS kind, count(*) AS keys FROM {} GROUP BY 1")
        by_kind = {row["kind"]: row["keys"] for row in execute(conn, text.format(keys.identifier))}
        missing, different, gone = (by_kind.get(kind, 0) for kind in "iud")
        mart = self.work.count(conn)
        return {
            "upserts": missing + different,
            "missing": missing,
            "different": different,
            "gone": gone,
            "mart": mart,
            "unchanged": mart - different - gone,
            "read": mart - gone + missing,
        }

    def _check_keys(self, conn: Connection, keys: KeySegment, counts: dict[str, int]) -> None:
        """Every key once, and none NULL. Duplicates among rows that do not differ show in the count alone."""
        self.work.refuse_null_keys(conn, keys.identifier)
        duplicates = self.work.statements.duplicates
        self.work.refuse_duplicates(execute(conn, duplicates(keys.identifier)).fetchall())
        if self.work.staged_rows not in (None, counts["read"]):
            self.work.refuse_duplicates(execute(conn, duplicates(self.work.stage.identifier)).fetchall())
        elif not self.work.staged and not is_unique_by_grouping(self.job.plan.select, self.work.mart.key):
            text = sql.SQL("SELECT count(*) AS n FROM {} AS q").format(self.work.query.source)
            if self.job.reader.fetch(text)[0]["n"] != counts["read"]:
                self.work.refuse_duplicates(self.job.reader.fetch(duplicates(self.work.query.source)))

    def foretell(self) -> Because | None:
        """Why the rows of the keys found would not be read by key, if every key differed; None when they would."""
        size = self.job.rows_at_once
        [some] = self.job.reader.fetch(self.work.query.some_keys(size))
        if not some["keys"]:
            return None
        _, rows = self.job.reader.cost(self.work.query.whole())
        batches = -(-max(int(rows), some["keys"]) // size)
        return self.work.why_costly(self.work.query.by_keys(), some["args"], batches)


@dataclass(frozen=True)
class Differing:
    """The keys that differ, numbered from 1: upserts, then deletes."""

    work: Work
    keys: KeySegment
    upserts: int
    found: int  # upserts and deletes

    @property
    def job(self) -> Job:
        """Of the run."""
        return self.work.job

    def steps(self) -> Iterator[Step]:
        """Batch after batch; or all at once."""
        if self.job.plan.publish == "atomic":
            if self.found:
                yield self._apply_all
            return
        for start, end in self.job.slices(0, self.upserts):
            yield partial(self._upsert, start, end)
        for start, end in self.job.slices(self.upserts, self.found):
            yield partial(self._delete, start, end)

    def why_costly(self, conn: Connection) -> Because | None:
        """Why the rows of the keys found cannot be read by key; None when they can."""
        if self.work.staged or not self.found:
            return None
        size = min(self.job.rows_at_once, self.found)
        args = fetch(conn, sql.SQL("SELECT {} AS args").format(key_arrays(self.keys)), [0, size])["args"]
        return self.work.why_costly(self.work.query.by_keys(), args, -(-self.found // size))

    def stage(self, why: str, conn: Connection) -> Found["Differing"]:
        """The same, whose rows were read in one go."""
        stage = self.work.stage
        stage.create(conn)
        rows = copy_across(
            self.job.reader, self.work.statements.joined(self.work.query.source, self.keys.identifier), stage, conn
        )
        stage.add_key_index(conn, self.work.mart.key)
        result = StepResult(Event.STAGED, position=self.position(0), fields={"rows": rows, "why": why})
        return result, replace(self, work=replace(self.work, staged_rows=stage.finish(conn)))

    def _upsert(self, start: int, end: int, conn: Connection) -> StepResult:
        scope, text = self._scope(conn)
        row = self.work.upsert(conn, scope, [start, end, *text])
        return self._applied(Event.WRITTEN, Counts(written=row["written"]), end)

    def _delete(self, start: int, end: int, conn: Connection) -> StepResult:
        scope, text = self._scope(conn)
        deletion = self.work.statements.delete(scope, self.keys.slice(), self.work.shown)
        row = self.work.apply(conn, deletion, [start, end, *text])
        return self._applied(Event.DELETED, Counts(deleted=row["deleted"]), end)

    def _apply_all(self, conn: Connection) -> StepResult:
        """`publish: atomic`: readers of the mart see all of it or nothing."""
        scope, _ = self._scope(conn)
        written = self.work.upsert(conn, scope, [0, self.upserts])["written"]
        deletion = self.work.statements.delete(scope, self.keys.slice(), self.work.shown)
        deleted = self.work.apply(conn, deletion, [self.upserts, self.found])["deleted"]
        return self._applied(Event.PUBLISHED, Counts(written=written, deleted=deleted), self.found)

    def _scope(self, conn: Connection) -> tuple[sql.Composed, list[str]]:
        """The rows of a slice of the keys: from the stage, or from the query as the reader."""
        if self.work.staged:
            return self.work.statements.staged_scope(self.work.stage, self.keys), []
        text = self.work.query.by_keys().as_string(conn)
        return reader_scope(self.job.columns, key_arrays(self.keys), "$3"), [text]

    def _applied(self, event: Event, counts: Counts, done: int) -> StepResult:
        return StepResult(event, counts, self.position(done), {"done": done, "of": self.found}, is_batch=True)

    def position(self, done: int) -> FullPosition:
        """So many of them are done."""
        return FullPosition("converge", done, self.found)
