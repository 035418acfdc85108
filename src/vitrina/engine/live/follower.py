"""The follower of a live mart: it goes live if it has to, then applies slice after slice of what its tables change."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from vitrina.capture import log
from vitrina.domain.errors import RetryableError
from vitrina.domain.events import Event
from vitrina.domain.positions import Gap, LivePosition
from vitrina.domain.reasons import Reason
from vitrina.domain.run import NOTHING, Counts
from vitrina.engine.full import FullMode
from vitrina.engine.job import Found, Step, StepDown, StepResult, each, finding, rest
from vitrina.engine.live import pacing
from vitrina.engine.live.audit import Audit
from vitrina.engine.live.entrance import Entrance
from vitrina.engine.live.feed import Feed, Slice
from vitrina.engine.live.impact import Impact, Keys
from vitrina.engine.live.presence import LOOK_SECONDS, Presence
from vitrina.engine.live.shrinking import Shrinking
from vitrina.engine.live.staying import Staying
from vitrina.engine.live.watch import Dependence, Watch
from vitrina.engine.stage import KeySegment
from vitrina.engine.touched import Touched
from vitrina.engine.work import Work
from vitrina.failpoints import reach
from vitrina.meta.db import Connection
from vitrina.meta.repos.waits import WaitRepo
from vitrina.sources.connections import Connections

SLICE = 10_000  # changes that are mapped to keys at once
EXTENDED = Reason.EXTENDED.of()


class Follower:
    """Over the log, for a mart that is ready. Position: the last change that the mart has."""

    def __init__(self, work: Work, feed: Feed, connections: Connections, started: float) -> None:
        self.work, self.job, self.feed, self.connections = work, work.job, feed, connections
        self.started = self.began = started
        self.stay = self.job.stay if isinstance(self.job.stay, Staying) else None
        self.dependence = Dependence(self.job.pipeline_id, feed.conn, self.job.reader)
        self.shrinking, self.presence = Shrinking(work), Presence(work)
        found = self.job.position if isinstance(self.job.position, LivePosition) else LivePosition()
        self.position = replace(found, not_before=None)
        self.compared = False
        self.routine = True  # whatever it does, it does because rows have changed
        self.audit: Audit | None = None
        self.spent = self.effort = 0.0  # on the last comparison; and before the first step

    def steps(self) -> Iterator[Step]:
        """Go live, then follow."""
        self._understand()
        why = self._why_compare()
        if why and self.stay:
            raise StepDown(why)
        self.effort = time.monotonic() - self.started
        if why:
            yield from self._go_live(why)
        elif self.dependence.is_news:
            yield self._keep_judgement
        yield from self._follow()

    def clean_up(self, conn: Connection) -> StepResult:
        """Between two steps, wherever it is: nothing goes on from scratch tables."""
        self.work.clean_up(conn)
        return replace(self._say(Event.FOLLOWED, {}, conn), quiet=True)

    def _understand(self) -> None:
        self.impact = self.dependence.judge(lambda: Impact.of(self.work, self.feed.capture(), self.feed.conn))
        self.touched = Touched(self.work, self.impact.reading)
        if self.audit:
            self.audit.renew(self.touched)
        if self.stay:
            self.stay.tables = self.impact.tables
        if self.position.is_known:
            self.position = replace(self.position, columns=self.impact.columns)

    def _why_compare(self) -> str:
        """Why the mart has to be compared in full before changes can be followed; empty when it has not."""
        if not self.position.is_known:
            return Gap.NOT_LIVE.said()
        if self.position.comparing:
            return self.position.comparing
        if self.work.ddl:
            return EXTENDED
        self.position = self.presence.look(self.feed.conn, self.position)
        return self.position.comparing or self._why_otherwise() or self._why_lost(self.feed.tip())

    def _why_otherwise(self) -> str:
        """Why the query may give other rows though none has changed; empty when it gives the same."""
        if why := self.dependence.why_compare(self.position):
            return why
        if self.position.source != self.job.plan.source or set(self.position.tables) != set(self.impact.tables):
            return Gap.OTHER_SOURCE.said()
        if self.position.meaning != self.impact.meaning:
            return Reason.OTHER_MEANING.of()
        return ""

    def _keep_judgement(self, conn: Connection) -> StepResult:
        """What has changed can make no row of the mart wrong; or nobody has kept what it depends on yet."""
        news = self._keep_dependence(conn)
        return replace(self._say(Event.JUDGED_ANEW, {"why": news}, conn), quiet=not news)

    def _keep_dependence(self, conn: Connection) -> str:
        news = self.dependence.keep(conn)
        self.position = replace(self.position, depends=self.dependence.watch.digest)
        return news

    def _why_lost(self, tip: log.Tip) -> str:
        """Why changes after the position may be missing; empty when they are all in the log."""
        gap = tip.gap(self.position)
        return gap.said(tip.generation_reason) if gap else ""

    # ── going live ───────────────────────────────────────────────────────────────────────────────────────────

    def _go_live(self, why: str) -> Iterator[Step]:
        """The tables are captured; then whoever wrote before they were has ended; then the log is noted, and all is
        compared."""
        self.routine = False
        self._require_same_columns(why)
        entrance = Entrance(self.job, self.connections, self.feed, self.impact.tables)
        entrance.check_capture()
        yield partial(self._say, Event.BARRIER_SET, {"why": why})
        entrance.wait_for_columns(self.impact.columns)
        if entrance.is_barred():
            yield partial(self._note_wait, entrance)
            entrance.wait()
        self._move(self.feed.tip(), why)
        yield partial(self._begin_comparison, why)
        yield from self._compare()
        yield partial(self._say, Event.LIVE, {"tables": list(self.impact.tables)})

    def _note_wait(self, entrance: Entrance, conn: Connection) -> StepResult:
        """Whoever goes on with it waits for the same transactions, and for none that is newer."""
        entrance.note(conn)
        return self._say(Event.BARRED, {"holder": entrance.said}, conn)

    def _begin_comparison(self, why: str, conn: Connection) -> StepResult:
        WaitRepo(conn).forget(self.job.pipeline_id)
        self._keep_dependence(conn)
        return self._say(Event.COMPARING, {"why": why}, conn)

    def _compare(self) -> Iterator[Step]:
        """One comparison, as mode full; the log is followed from where it stood before."""
        reach("before comparison")
        self.spent = 0.0 if self.compared else self.effort
        self.compared, watch = True, self.dependence.watch
        loaded = yield from each(FullMode(self.job).run(), self._keep_position)
        self.position = pacing.compared(self.position, self.spent, self.feed.now(), loaded=loaded)
        self.position = self.presence.note(self.feed.conn, self.position)
        self._understand()  # anew: the mart may have been empty before, and the stage is gone
        self.position = replace(self.position, comparing=None)
        self._distrust(watch)

    def _keep_position(self, step: Step, conn: Connection) -> StepResult:
        started = time.monotonic()
        result = step(conn)
        self.spent += time.monotonic() - started
        return replace(result, position=self.position)

    # ── following ────────────────────────────────────────────────────────────────────────────────────────────

    def _follow(self) -> Iterator[Step]:
        """Slice after slice; a run ends where the log stood when it began, unless the next run has to compare."""
        audit, slices, applied = self._begin_audit(), 0, 0
        until = self.feed.tip().last_id
        if self.stay and audit.was_switched:
            yield self._arrange_audit
        while not self.position.comparing:
            if not self.dependence.watch.has_held():
                yield from self._judge_anew()
                continue
            self.position = self.presence.look(self.feed.conn, self.position, LOOK_SECONDS)
            if self.position.comparing:
                break
            tip, self.began = self.feed.tip(), time.monotonic()
            found = None if self._why_lost(tip) else self._read()
            if found is None:
                break
            if found.changes:
                keys, why = self.impact.keys_of(found, self.job.rows_at_once)
                if why and not self._may_compare():
                    self.position = pacing.rest(self.position, self.feed.now(), self._newest())
                    if self.stay is None:
                        break
                    yield from self._wait_to_compare(self.stay)
                    continue
                if why and self.stay:
                    break
                yield from self._refresh(found, why) if why else self._apply(found, keys)
                slices, applied = slices + 1, applied + found.changes
                audit.has_company()
            elif found.last_id > self.position.id:
                self.position = replace(self.position, id=found.last_id)
            for step in audit.steps(self.position.id):
                yield partial(self._keep_position, step)
            if audit.too_many:
                self.position = replace(self.position, comparing=audit.too_many)
            elif self.stay and not self.position.comparing and found.last_id >= tip.last_id:
                yield from self._rest(self.stay)
            elif self.stay is None and self.position.id >= until and not audit.goes_on:
                break
        fields = {"changes": applied, "slices": slices, "lag_ms": self.position.lag_ms}
        yield partial(self._leave, {name: value for name, value in fields.items() if value is not None})

    def _rest(self, stay: Staying) -> Iterator[Step]:
        """Until a change of its tables comes, or it is time to audit."""
        assert self.audit is not None
        if self.audit.may_go_on:
            return
        stay.rest(self.position.id, self.audit.next_look, settles=self.audit.suspects is not None)
        yield rest
        self._awake(stay)

    def _wait_to_compare(self, stay: Staying) -> Iterator[Step]:
        """Until it may have become quiet, or the pause is over; whoever looks is told by when that is."""
        yield self._keep_waiting
        assert self.position.not_before is not None
        seconds = (self.position.not_before - self.feed.now()).total_seconds()
        stay.wait(self.position.id, time.monotonic() + max(seconds, 0.0))
        yield rest
        self._awake(stay)
        self.position = replace(self.position, not_before=None)

    def _awake(self, stay: Staying) -> None:
        moved = stay.forward(self.position)
        assert isinstance(moved, LivePosition)
        self.position = moved

    def _keep_waiting(self, conn: Connection) -> StepResult:
        return replace(self._say(Event.COMPARING_WAITS, {}, conn), quiet=True)

    def _begin_audit(self) -> Audit:
        self.audit = self._audit()
        return self.audit

    def _arrange_audit(self, conn: Connection) -> StepResult:
        assert self.audit is not None
        self.audit.arrange(conn)
        return replace(self._say(Event.FOLLOWED, {}, conn), quiet=True)

    def _audit(self) -> Audit:
        return Audit(
            self.work,
            self.touched,
            self.shrinking,
            self.feed,
            self.connections.settings,
            self.started,
            is_alone=not self.compared,
            is_steady=not self.impact.view.warnings,
            is_understood=lambda: self.dependence.watch.has_held(0),
        )

    def _read(self) -> Slice | None:
        return self.feed.read(self.position.id, self.impact.columns, SLICE, self.impact.key_in_row)

    def _may_compare(self) -> bool:
        """Comparisons are kept apart while changes come, unless somebody has asked for the run."""
        return self.job.was_asked_for or pacing.may_compare(self.position, self.feed.now(), self._newest())

    def _newest(self) -> int:
        return self.feed.newest(self.impact.tables)

    def _refresh(self, found: Slice, why: str) -> Iterator[Step]:
        """A change that may touch any key: everything is compared, and what was logged before is done with."""
        if found.upheaval():
            yield from self._begin_anew(why)
            return
        yield partial(self._say, Event.COMPARING, {"why": why})
        tip = self.feed.tip()
        yield from self._compare()
        self._note(found, tip.last_id if not self._why_lost(tip) else found.last_id)

    def _begin_anew(self, why: str) -> Iterator[Step]:
        """A table is not what it was, or was not captured for a while: nothing is as it was understood."""
        self._require_same_columns(why)
        self._understand()
        yield from self._go_live(why)

    def _require_same_columns(self, why: str) -> None:
        if tuple(self.job.reader.describe(self.job.plan.select)) != self.job.described:
            raise RetryableError(f"{why}: the query gives other columns now")

    def _judge_anew(self) -> Iterator[Step]:
        """The catalogue has changed under a follower. If that may concern rows, the next run compares: it has the guard
        look at the query first. If not, it goes on."""
        self._understand()
        if why := self._why_otherwise():
            self.position = replace(self.position, comparing=why)
        elif self.dependence.is_news:
            yield self._keep_judgement

    def _distrust(self, watch: Watch | None = None) -> None:
        """After rows were read, before they are committed: if the catalogue is not what the verdict was derived from,
        or was not all the while, nobody knows which of them are right, and the next run compares."""
        watch = watch or self.dependence.watch
        if not watch.holds():
            self.position = replace(self.position, comparing=watch.why_broken())

    def _apply(self, found: Slice, keys: Keys) -> Iterator[Step]:
        """The keys that a slice touches, converged; the position moves with the last of them."""
        args, count = keys
        if count <= self.job.rows_at_once:
            yield partial(self._converge, found, args, count)
            return
        segment, total = yield from finding(partial(self._find_keys, found))
        atomic = self.job.plan.publish == "atomic"
        for start, end in [(0, total)] if atomic else self.job.slices(0, total):
            if not self.position.comparing:
                yield partial(self._converge_slice, found, segment, total, start, end)

    def _converge(self, found: Slice, args: list[str | None], count: int, conn: Connection) -> StepResult:
        counts = self.touched.converge(args, count, conn) if count else NOTHING
        if self.audit and count:
            self.audit.explain(conn, args)
        self._guard(counts, conn)
        self._note(found, found.last_id)
        self._distrust()
        reach("live slice")
        fields = {"keys": count, "changes": found.changes}
        return StepResult(Event.APPLIED, counts, self.position, fields, is_batch=True, quiet=True)

    def _find_keys(self, found: Slice, conn: Connection) -> Found[tuple[KeySegment, int]]:
        """Many keys, or only parts of keys: kept in the database, never row by row in Python."""
        keys = self.work.new_keys()
        keys.create(conn)
        self.impact.keep_keys(found, keys, conn)
        total = keys.finish(conn)
        if self.audit:
            self.audit.explain(conn, keys=keys)
        if not total:  # only parts of keys, which nothing carries
            self._finish(found, keys, conn)
        self._distrust()
        fields = {"keys": total, "changes": found.changes}
        return StepResult(Event.TOUCHED_FOUND, position=self.position, fields=fields), (keys, total)

    def _converge_slice(
        self, found: Slice, keys: KeySegment, total: int, start: int, end: int, conn: Connection
    ) -> StepResult:
        counts = self.touched.converge_slice(keys, start, end, conn)
        self._guard(counts, conn)
        if end >= total:
            self._finish(found, keys, conn)
        self._distrust()
        reach("live slice")
        position = replace(self.position, done=end, of=total)
        return StepResult(Event.APPLIED, counts, position, {"done": end, "of": total}, is_batch=True)

    def _guard(self, counts: Counts, conn: Connection) -> None:
        self.shrinking.guard(counts.deleted, conn)
        self.position = self.presence.wrote(counts, conn, self.position)

    def _finish(self, found: Slice, keys: KeySegment, conn: Connection) -> None:
        self._note(found, found.last_id)
        keys.drop(conn)

    # ── the position ─────────────────────────────────────────────────────────────────────────────────────────

    def _move(self, tip: log.Tip, why: str) -> None:
        """To here, once it has been compared."""
        tables, columns, meaning = self.impact.tables, self.impact.columns, self.impact.meaning
        there = LivePosition(tip.source, tip.slot, tip.generation, tip.last_id, tables, columns, meaning)
        self.position = replace(there, comparing=why)

    def _note(self, found: Slice, last_id: int) -> None:
        """The mart has everything up to here: this late."""
        now = self.feed.now()
        before = pacing.moved(self.position, last_id - self.position.id, time.monotonic() - self.began)
        self.position = replace(before, id=last_id, applied_at=now)
        if found.committed_at:
            late = round(max((now - found.committed_at).total_seconds(), 0.0) * 1000, 1)
            self.position = replace(self.position, committed_at=found.committed_at, lag_ms=late)

    def _leave(self, fields: dict[str, Any], conn: Connection) -> StepResult:
        self.touched.clean_up(conn)
        if self.position.comparing:  # amid a slice, perhaps
            self.work.clean_up(conn)
        if self.audit:
            self.audit.arrange(conn)
        return replace(self._say(Event.FOLLOWED, fields, conn), quiet=self.stay is not None)

    def _say(self, event: Event, fields: dict[str, Any], conn: Connection) -> StepResult:
        del conn
        return StepResult(event, position=self.position if self.position.is_known else None, fields=fields)
