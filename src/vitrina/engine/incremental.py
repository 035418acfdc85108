"""Mode `incremental`: rows after the checkpoint and before the safe horizon, in cursor order, a batch at a time.

An upsert window: it sees what is new or changed in the cursor column, and cannot see deletes. If the source, or a
clock, has gone back behind the checkpoint, everything is compared once, as in mode `full`, and the cursor begins anew.
"""

import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.events import Event
from vitrina.domain.positions import Candidate, IncrementalPosition, Place
from vitrina.domain.reasons import Reason
from vitrina.domain.run import Counts
from vitrina.engine.filling import copy_across
from vitrina.engine.full import FullMode
from vitrina.engine.job import Found, Job, Mode, Step, StepResult, each, execute, finding
from vitrina.engine.query import Window, reader_scope
from vitrina.engine.windowed import Windowed
from vitrina.engine.work import Work
from vitrina.meta.db import Connection
from vitrina.meta.repos.clock import Clock, ClockRepo
from vitrina.sources.source import Horizon
from vitrina.transforms.running import Transforming

EVERYTHING = 2**63 - 1  # as a LIMIT


class IncrementalMode(Mode):
    """The steps of an incremental run."""

    def __init__(self, job: Job) -> None:
        assert job.plan.cursor is not None
        self.job = job
        self.cursor = job.plan.cursor

    def steps(self) -> Generator[Step, None, None]:
        """Prepare the mart; then the steps of the session."""
        self._check_cursor()
        if not self.job.reader.abilities.speaks_sql:
            yield from Windowed(self.job, self.cursor[0]).steps()
            return
        session = yield from finding(self._prepare)
        yield from session.steps()

    def _check_cursor(self) -> None:
        names = {c.name for c in self.job.columns}
        for name in self.cursor:
            if name not in names:
                raise ConfigError(f"cursor column {name} is not in the query", f"it gives {', '.join(sorted(names))}")

    def _prepare(self, conn: Connection) -> Found["IncrementalSession"]:
        work, position = Work.prepare(self.job, conn), self.job.position
        if not work.stays_inside:
            work.stage.create(conn)
        fields: dict[str, Any] = {"target": self.job.plan.target, "ddl": work.ddl}
        if not isinstance(position, IncrementalPosition):
            position = IncrementalPosition()
        if position.value is not None and (work.ddl or work.is_empty(conn)):
            position = IncrementalPosition()
            fields["checkpoint"] = "dropped: the mart is new, empty or has new columns, so all rows are read again"
        session = IncrementalSession(work, self.cursor, ClockRepo(conn).look(), position)
        known = position if position != IncrementalPosition() else None
        return StepResult(Event.MART_READY, position=known, fields=fields), session


class IncrementalSession:
    """A run whose mart is ready. Position: the cursor reached, and the bound of the window."""

    window: Window | None = None  # what is left of it

    def __init__(self, work: Work, cursor: tuple[str, str], clock: Clock, position: IncrementalPosition) -> None:
        self.work, self.job, self.cursor, self.clock = work, work.job, cursor, clock
        self.position = position
        self.deleted = 0  # by this run
        self.read: int | None = None  # by the last batch

    def steps(self) -> Iterator[Step]:
        """Fix the window, then batch after batch until it is empty; or compare."""
        place = self._place()  # between two steps, which would hold the horizon back
        yield from self._open_window(self._why_compare(place), place)
        while self.window is not None and not self.position.comparing:
            yield self._batch
        if why := self._why_ahead():
            yield from self._open_window(why, self._place())
        if self.position.comparing:
            yield from self._compare()
        yield self._clean_up

    # ── the window ───────────────────────────────────────────────────────────────────────────────────────────

    def _open_window(self, why: str, place: Place) -> Iterator[Step]:
        opened = self._find_window(why, place)
        yield lambda _: opened

    def _find_window(self, why: str, place: Place) -> StepResult:
        if why:  # nothing that is known by the old cursor, bound or clock can be trusted
            self.position = IncrementalPosition(comparing=why)
        self.position = replace(self.position, place=place)
        self.work.refuse_nulls([*self.work.mart.key, *self.cursor], "key or cursor")
        bound, inclusive, horizon = self._bound()
        self.window = Window(self.position.cursor, bound, inclusive) if bound is not None else None
        self.position = replace(self.position, bound=bound)
        fields: dict[str, Any] = {"after": self.position.value, "up_to": bound}
        if horizon.holder:
            fields["held_by"] = horizon.holder
        if why:
            fields["comparing"] = why
        return StepResult(Event.WINDOW, position=self.position, fields=fields)

    def _bound(self) -> tuple[str | None, bool, Horizon]:
        """Up to where rows are final, as text; whether the bound itself is; and who holds it back."""
        kind = next(c.type for c in self.job.columns if c.name == self.cursor[0])
        if kind.startswith("timestamp") or kind == "date":
            horizon = self._horizon()
            return self._time_bound(kind, horizon.at) or self.position.bound, False, horizon
        bound, horizon = self._counted_bound()
        return bound, True, horizon

    def _horizon(self) -> Horizon:
        return self.job.reader.horizon(self.job.limits.horizon_margin)

    def _time_bound(self, kind: str, at: datetime | None) -> str | None:
        if at is None:
            return None
        if kind.endswith("with time zone"):
            return at.isoformat()
        bound = self.job.reader.naive(at)
        return bound[:10] if kind == "date" else bound

    def _counted_bound(self) -> tuple[str | None, Horizon]:
        """For a cursor that is no time: a maximum is final once every transaction open when it was seen has ended.

        What is not final yet is kept in the position, for the next run to try.
        """
        margin = self.job.limits.horizon_margin.total_seconds()
        candidate, kept = self._candidate(), self.position.candidate
        deadline = time.monotonic() + 2 * margin + 0.5
        while True:
            horizon = self._horizon()
            if _is_final(candidate, horizon):
                self.position = replace(self.position, candidate=None)
                return candidate.bound, horizon
            if time.monotonic() > deadline:
                break
            self.job.check()
            time.sleep(0.02)  # until the margin has passed, or the transactions that were open have ended
        if kept and _is_final(kept, horizon):
            self.position = replace(self.position, candidate=candidate)
            return kept.bound, horizon
        self.position = replace(self.position, candidate=kept or candidate)
        return self.position.bound, horizon

    def _candidate(self) -> Candidate:
        name = sql.Identifier(self.cursor[0])
        text = sql.SQL("SELECT q.{0}::text AS bound FROM {1} AS q WHERE q.{0} IS NOT NULL ORDER BY q.{0} DESC LIMIT 1")
        rows = self.job.reader.fetch(text.format(name, self.work.query.source))
        return Candidate(rows[0]["bound"] if rows else None, self.job.reader.now())

    # ── going back ───────────────────────────────────────────────────────────────────────────────────────────

    def _place(self) -> Place:
        return self.job.reader.place(self.clock)

    def _why_compare(self, place: Place) -> str:
        """Why rows may have come before the checkpoint; empty when they cannot have."""
        if self.position.comparing or self.position.value is None:
            return self.position.comparing or ""
        return self.job.reader.why_behind(self.position.place or Place(), place)

    def _why_ahead(self) -> str:
        """The same of a run that found nothing: the checkpoint may be ahead of all that the query gives."""
        value = self.position.value
        if self.read or self.position.comparing or value is None:
            return ""
        if self.job.reader.fetch(self.work.query.from_cursor(self.cursor[0]), [value]):
            return ""
        return Reason.NOTHING_AT_CURSOR.of(value=value)

    def _compare(self) -> Iterator[Step]:
        """One comparison, as mode full; the cursor goes on from the last row that was final before it."""
        if not self.job.reader.fetch(sql.SQL("SELECT 1 AS found FROM {} AS q LIMIT 1").format(self.work.query.source)):
            self.job.tell(Event.COMPARING_LATER, why=self.position.comparing)
            return
        self.job.tell(Event.COMPARING, why=self.position.comparing)
        last = self.job.reader.fetch(*self._last_final()) if self.window else []
        yield from each(FullMode(self.job).run(), self._keep_position)
        self.position = replace(self.position, comparing=None, **last[0] if last else {})

    def _last_final(self) -> tuple[sql.Composed, list[str | None]]:
        assert self.window is not None
        return self.work.query.last_of_cursor(self.cursor, self.window), self.window.args

    def _keep_position(self, step: Step, conn: Connection) -> StepResult:
        return replace(step(conn), position=self.position)

    # ── batches ──────────────────────────────────────────────────────────────────────────────────────────────

    def _batch(self, conn: Connection) -> StepResult:
        assert self.window is not None
        limit, is_inside = self._limit, self.work.stays_inside
        row = self._inside(conn, self.window, limit) if is_inside else self._through(conn, self.window, limit)
        self.read = row["read"]
        if row["read"]:
            value, tie = row["last_position"]
            self.position = replace(self.position, value=value, id=tie)
        if row["read"] < limit:
            self.window = None
        else:
            self.window = Window(tuple(row["last_position"]), self.window.bound, self.window.inclusive)
        deleted = row.get("deleted", 0)
        counts = Counts(row["read"], row["written"], deleted, row["read"] - row["written"] - deleted)
        return StepResult(Event.UPSERTED, counts, self.position, {"cursor": self.position.value}, is_batch=True)

    @property
    def _limit(self) -> int:
        """Rows of a batch; with `publish: atomic` the whole window is one."""
        return EVERYTHING if self.job.plan.publish == "atomic" else self.job.rows_at_once

    def _inside(self, conn: Connection, window: Window, limit: int) -> dict[str, Any]:
        """One statement: read as the reader, compare, write."""
        text = self.work.query.after_cursor(self.cursor, window, limit).as_string(conn)
        scope = reader_scope(self.job.columns, sql.SQL("$1::text[]"), "$2")
        return self._upsert(conn, scope, [window.args, text])

    def _through(self, conn: Connection, window: Window, limit: int) -> dict[str, Any]:
        """From another server: into the stage as bytes, then converge from it."""
        self.work.stage.truncate(conn)
        if self.job.transforming:
            return self._transformed(conn, window, limit, self.job.transforming)
        query = self.work.query.with_args(window.args).after_cursor(self.cursor, window, limit)
        copy_across(self.job.reader, query, self.work.stage, conn)
        return self._upsert(conn, self.work.stage.identifier, [])

    def _upsert(self, conn: Connection, scope: sql.Composable, params: list[Any]) -> dict[str, Any]:
        try:
            with conn.transaction():
                return self.work.upsert(conn, scope, params, self.cursor)
        except psycopg.errors.CardinalityViolation:
            self.work.refuse_duplicates(execute(conn, self.work.statements.duplicates(scope), params).fetchall())
            raise

    def _transformed(self, conn: Connection, window: Window, limit: int, transforming: Transforming) -> dict[str, Any]:
        """Through the transforms. The cursor comes from the rows that were read, never from transformed ones."""
        query = self.work.query.after_cursor(self.cursor, window, limit)
        rows = self.job.reader.fetch(_with_position(query, self.cursor), window.args)
        positions = [(row.pop("vitrina_value"), row.pop("vitrina_id")) for row in rows]
        keys = [[row[name] for name in self.work.mart.key] for row in rows]
        with self.work.stage.copy_in(conn, "text") as copy:
            kept = transforming.write(copy, rows)
        deleted = self._delete_dropped(conn, keys) if kept < len(keys) else 0
        written = self.work.upsert(conn, self.work.stage.identifier)["written"]
        last = positions[-1] if positions else None
        return {"read": len(keys), "written": written, "deleted": deleted, "last_position": last}

    def _delete_dropped(self, conn: Connection, keys: list[list[Any]]) -> int:
        """A row that a transform leaves out leaves the mart too."""
        segment = self.work.new_keys()
        segment.create(conn)
        with segment.copy_in(conn, "text") as copy:
            for key in keys:
                copy.write_row(["u", *key])
        statement = self.work.statements.delete(self.work.stage.identifier, segment.slice(), self.work.shown)
        deleted: int = self.work.apply(conn, statement, [0, len(keys)])["deleted"]
        self.deleted += deleted
        if self.deleted > self.job.limits.max_delete_rows:
            before = self.deleted + self.work.count(conn)
            self.work.guard_deletes(self.deleted, before, len(keys), "this batch was not written")
        return deleted

    def _clean_up(self, conn: Connection) -> StepResult:
        self.work.clean_up(conn)
        return StepResult(Event.FINISHED, position=self.position)


def _is_final(candidate: Candidate, horizon: Horizon) -> bool:
    return horizon.at is not None and horizon.at > candidate.seen_at


def _with_position(query: sql.Composable, cursor: tuple[str, str]) -> sql.Composed:
    """The cursor as text beside each row: exact, whatever Python makes of its type."""
    text = "SELECT w.*, w.{}::text AS vitrina_value, w.{}::text AS vitrina_id FROM ({}) AS w"
    return sql.SQL(text).format(*map(sql.Identifier, cursor), query)
