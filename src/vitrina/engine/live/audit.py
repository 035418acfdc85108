"""The audit of a live mart: range after range is read again, while nothing else is to be done.

It is a part of the follower, the mart's only writer, between two of its slices. What differs becomes a suspect; the
follower goes on with its changes, and what none of them explains is put right and told. A range counts as read once it
is settled: whatever interrupts it, it is read again. docs/adr/0003-the-follower-audits.md says why that is right.
"""

import time
from collections.abc import Callable, Iterator

from psycopg import sql

from vitrina.capture.moments import Moment
from vitrina.domain.errors import ConfigError
from vitrina.domain.events import Event
from vitrina.domain.reasons import Reason
from vitrina.domain.run import NOTHING, Counts
from vitrina.engine.job import Beyond, Step, StepResult
from vitrina.engine.live.feed import Feed
from vitrina.engine.live.ranges import KeyRange, about, next_range
from vitrina.engine.live.sampling import Sampling
from vitrina.engine.live.shrinking import Shrinking
from vitrina.engine.live.suspects import Suspects, as_keys
from vitrina.engine.stage import KeySegment
from vitrina.engine.touched import Touched
from vitrina.engine.work import Work
from vitrina.failpoints import reach
from vitrina.meta.db import Connection
from vitrina.meta.repos.audits import AuditRepo
from vitrina.settings import Settings

BURST_SECONDS = 1.0  # of reading at a time; a change that comes waits for one range at most
QUICK_SECONDS, LONG_SECONDS = 0.1, 0.25  # a range that takes less grows, one that takes more shrinks
LEAST_ROWS, MOST_ROWS, MOST_DOCUMENTS = 100, 50_000, 2_000
STEADY = 1.5  # where twice the rows take no longer, a range grows however long it takes
PAUSE_SECONDS = 0.05  # between two looks whether the log has come to a moment


class Audit:
    """Of one mart, for the length of a run."""

    def __init__(
        self,
        work: Work,
        touched: Touched,
        shrinking: Shrinking,
        feed: Feed,
        settings: Settings,
        began: float,
        *,
        is_alone: bool,  # the run has done nothing else
        is_steady: bool,  # the query gives the same rows however it is read
        is_understood: Callable[[], bool],  # whether it still means what it did
    ) -> None:
        self.work, self.touched, self.shrinking, self.feed = work, touched, shrinking, feed
        self.share, self.rest = settings.audit_share, settings.audit_rest_seconds
        self.sampling = Sampling(work)
        self.began, self.spent = began, 0.0
        self.is_alone, self.is_steady, self.is_understood = is_alone, is_steady, is_understood
        self.suspects: Suspects | None = None
        self.too_many = ""  # why everything has to be compared instead
        state = AuditRepo(feed.conn, work.job.pipeline_id).find(self.rest)
        self.bound = state.bound if state.key_types == self._key_types else None
        self.size, self.rate, self.marts = state.size, state.rate, state.marts
        self.next_at = time.monotonic() + state.wait if self.share else float("inf")
        self.was_switched = state.runs != bool(self.share)  # off or on, since somebody wrote down when it goes on

    def renew(self, touched: Touched) -> None:
        """Everything has been compared meanwhile, or is understood anew: what was suspected is settled."""
        self.touched, self.suspects = touched, None

    def has_company(self) -> None:
        """The run does something else too: only what the audit itself takes is paid for."""
        self.is_alone = False

    def arrange(self, conn: Connection) -> None:
        """At the end of a run: there is a next time, unless it is switched off."""
        if self.share:
            self._repo(conn).begin(self.rest)
        else:
            self._repo(conn).switch_off()

    @property
    def goes_on(self) -> bool:
        """Whether there is something to read, or to settle."""
        return self.suspects is not None or time.monotonic() >= self.next_at

    @property
    def may_go_on(self) -> bool:
        """Whether it can do something at once: to settle, it may have to wait for the log."""
        return self.suspects is None and self.goes_on

    @property
    def next_look(self) -> float:
        """When it wants to go on."""
        return time.monotonic() + PAUSE_SECONDS if self.suspects else self.next_at

    def steps(self, position: int) -> Iterator[Step]:
        """One range at most; or a look at what is suspected, given the last change that the mart has."""
        if self.suspects:
            yield from self._settle(self.suspects, position)
        elif self.goes_on:
            if self.work.job.beyond:
                yield self._look_beyond
            if not self.too_many:
                yield self._look

    def explain(self, conn: Connection, args: list[str | None] | None = None, keys: KeySegment | None = None) -> None:
        """The follower converges these keys for a change, in arrays or in a segment."""
        if self.suspects and (args or keys):
            self.suspects.explain(conn, keys.identifier if keys else as_keys(self.work.mart, args or []))

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    def _look_beyond(self, conn: Connection) -> StepResult:
        """Where the mart really is: what was sent, is it there? And, once a lap, nothing else?"""
        began, beyond = time.monotonic(), self.work.job.beyond
        assert beyond is not None
        if beyond.is_emptied(conn):
            return self._send_all_again(beyond, conn)
        strangers = beyond.weed(conn) if self.bound is None else 0
        range_, _ = next_range(conn, self.work.mart, self.bound, self.size)
        beyond.doubt(conn, range_.condition("m"))
        self.spent += time.monotonic() - began
        if not strangers:
            return StepResult(Event.AUDIT_BEYOND, quiet=True)
        self._repo(conn).found(strangers, [], tell=True)
        return StepResult(Event.AUDIT_FOUND, Counts(deleted=strangers), fields={"rows": strangers}, is_batch=True)

    def _send_all_again(self, beyond: Beyond, conn: Connection) -> StepResult:
        """Somebody has emptied it. A comparison sends what is not there as it was sent, and that is everything."""
        self.too_many = Reason.MART_EMPTIED.of()
        beyond.doubt(conn, sql.SQL("true"))
        return StepResult(Event.AUDIT_READ, quiet=True)

    def _look(self, conn: Connection) -> StepResult:
        """Read a range at both sides."""
        began, repo = time.monotonic(), self._repo(conn)
        if self.bound is None:
            repo.begin(0)
            repo.start_lap(self._key_types, about(conn, self.work.mart))
        range_, rows = next_range(conn, self.work.mart, self.bound, self.size)
        reach("audit")
        try:
            args, count = self.sampling.differing(range_, conn)
        except ConfigError as error:  # the follower has to do with what it reads itself, and no more
            return self._give_up(conn, str(error))
        moment = Moment.take(self.work.job.reader.catalogue.conn) if count else None
        took = time.monotonic() - began
        self.spent += took
        self._resize(rows, took)
        if not count:
            return self._done(range_, rows, conn)
        if moment is None:
            return self._give_up(conn, "the source is a standby, which does not tell what is captured")
        self.suspects = Suspects(range_, rows, args, count, moment)
        return StepResult(Event.AUDIT_READ, quiet=True)

    def _resize(self, rows: int, took: float) -> None:
        """For the next one: small ranges, unless they take as long as large ones."""
        rate = rows / max(took, 0.001)
        if took < QUICK_SECONDS or rate > STEADY * self.rate:
            self.size = min(self.size * 2, MOST_DOCUMENTS if self.work.job.beyond else MOST_ROWS)
        elif took > LONG_SECONDS:
            self.size = max(self.size // 2, LEAST_ROWS)
        self.rate = rate

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────

    def _settle(self, suspects: Suspects, position: int) -> Iterator[Step]:
        suspects.look_at(self.feed.capture())
        if not suspects.count:
            yield lambda conn: self._done(suspects.range, suspects.rows, conn)
        elif suspects.until is not None and position >= suspects.until:
            if self.is_understood():  # else it is judged anew, and everything compared
                yield lambda conn: self._put_right(suspects, conn)
        elif time.monotonic() > suspects.deadline:
            yield lambda conn: self._give_up(conn, "the log did not come to where the range was read")
        elif self.work.job.stay is None:
            time.sleep(PAUSE_SECONDS)

    def _put_right(self, suspects: Suspects, conn: Connection) -> StepResult:
        """No change explains them. Rows that are right after all, read another way, were not wrong.

        Very many are left to a comparison, which thinks twice before it deletes.
        """
        named, counts, wrong = suspects.named(conn), NOTHING, suspects.count
        if wrong >= self.sampling.most:
            self.too_many = Reason.AUDIT_FOUND_MANY.of(rows=wrong)
        else:
            counts = self.touched.converge(suspects.args, suspects.count, conn)
            self.shrinking.guard(counts.deleted, conn)
            wrong = counts.written + counts.deleted
        if wrong:
            self._repo(conn).found(wrong, named, tell=self.is_steady)
        reach("audit repair")
        self._done(suspects.range, suspects.rows, conn)
        if not wrong:
            return StepResult(Event.AUDIT_READ, counts, quiet=True)
        return StepResult(Event.AUDIT_FOUND, counts, fields={"rows": wrong, "keys": named}, is_batch=True)

    def _done(self, range_: KeyRange, rows: int, conn: Connection) -> StepResult:
        """This range is settled, and the next one begins where it ends."""
        self.suspects, self.bound = None, range_.upper
        self._repo(conn).read(rows, range_.upper, self.size, self.rate)
        self._pay(conn, is_last=range_.upper is None or self.spent > BURST_SECONDS)
        return StepResult(Event.AUDIT_READ, quiet=True)

    def _give_up(self, conn: Connection, why: str) -> StepResult:
        """For now: the range is read again another time."""
        self.suspects = None
        self._pay(conn, is_last=True)
        return StepResult(Event.AUDIT_PUT_OFF, NOTHING, fields={"why": why})

    def _pay(self, conn: Connection, *, is_last: bool) -> None:
        """Time spent is paid for by a pause: all live marts together take no more than the share that is allowed."""
        if not is_last:
            return
        spent = time.monotonic() - self.began if self.is_alone else self.spent
        pause = max(self.rest, spent / self.share * self.marts)
        self.spent, self.is_alone, self.next_at = 0.0, False, time.monotonic() + pause
        self._repo(conn).spend(spent, pause)

    def _repo(self, conn: Connection) -> AuditRepo:
        return AuditRepo(conn, self.work.job.pipeline_id)

    @property
    def _key_types(self) -> str:
        return ", ".join(f"{name} {self.work.mart.types[name]}" for name in self.work.mart.key)
