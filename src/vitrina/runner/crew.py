"""A crew: one thread and one set of sessions that follow many live marts of a source, each a step at a time."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Event, Lock, Thread
from uuid import UUID

import structlog

from vitrina.capture.log import Tip
from vitrina.domain.errors import ConfigError, DatabaseLost, LeaseLost, RetryableError, VitrinaError
from vitrina.domain.events import Event as Said
from vitrina.engine.job import StepDown
from vitrina.meta.db import Connection, translated
from vitrina.meta.repos.following import FollowingRepo
from vitrina.meta.repos.leases import Claim
from vitrina.runner.control import Interrupted, RunControl
from vitrina.runner.followed import Followed, Slow, Trouble
from vitrina.runner.heartbeat import Heartbeat
from vitrina.runner.identity import Identity
from vitrina.runner.ledger import HourLedger
from vitrina.runner.passing import farthest, pass_over
from vitrina.runner.service import pause_after
from vitrina.runner.sharing import Sessions
from vitrina.sources.connections import Connections

log = structlog.get_logger()
WAKE_SECONDS = 0.25  # in which a crew at rest notices that it is to end
LOOK_SECONDS = 2.0  # between two looks at a log that says nothing
TELL_SECONDS = 15.0  # between two lines of a mart to the history: each is a transaction beside those of its slices
PASS_SECONDS = 30.0  # between two moves of those that nothing concerns
FAR_BEHIND = 50_000  # changes; then they are moved at once, so that the log can be trimmed
SETTLE_SECONDS = 0.05  # for the log to come to where an audit has read
TRIES = 3  # in a row; then it is a run's


class Crew:
    """Marts of one source, in turn by how old their oldest change is."""

    def __init__(
        self,
        connections: Connections,
        source: str,
        identity: Identity,
        heartbeat: Heartbeat,
        stopping: Event,
        troubles: dict[UUID, Trouble],
        slow: Slow,
        ring: Callable[[], None],
        *,
        of_slow: bool,
    ) -> None:
        self.connections, self.source, self.stopping = connections, source, stopping
        self.identity, self.heartbeat, self.troubles = identity, heartbeat, troubles
        self.slow, self.of_slow = slow, of_slow
        self.ring = ring  # there may be something to take
        self._lock, self._rung = Lock(), Event()
        self._arrived: deque[Followed] = deque()
        self._marts: dict[UUID, Followed] = {}
        self._sessions: Sessions | None = None
        self._thread = Thread(target=self.run, name=f"following {source}")
        self._failures = 0
        self._passed_at = self._looked_at = time.monotonic()
        self._place: tuple[str, int] | None = None  # slot and generation of the log

    # ── asked by the desk ────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """On a thread of its own."""
        self._thread.start()

    def join(self) -> None:
        """Until it has let go of all, also of what reached it when its thread was about to end."""
        if self._thread.ident:
            self._thread.join()
        self._end()

    def add(self, claim: Claim, *, is_suspect: bool) -> None:
        """Another mart."""
        one = Followed(claim, RunControl(self.stopping), is_suspect)
        self.heartbeat.watch_follower(claim.pipeline_id, one.control)
        with self._lock:
            self._arrived.append(one)
        self._rung.set()

    def held(self) -> set[UUID]:
        """The marts that it has."""
        return {one.claim.pipeline_id for one in self._all()}

    def is_unproven(self) -> bool:
        """Whether one of them may yet be what runners die of."""
        return any(one.is_suspect for one in self._all())

    def lose(self, pipeline_id: UUID) -> None:
        """It is no longer ours."""
        for one in self._all():
            if one.claim.pipeline_id == pipeline_id:
                one.control.lost.set()

    def _all(self) -> list[Followed]:
        with self._lock:
            return [*self._arrived, *self._marts.values()]

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        """Until the runner stops. Raises nothing: what goes wrong is tried again, with pauses that grow."""
        while not self.stopping.is_set():
            try:
                self._turn()
                self._failures = 0
            except Exception as error:
                self._failures += 1
                level = log.warning if isinstance(error, VitrinaError) else log.exception
                level("marts cannot be followed, trying again", source=self.source, error=str(error))
                self._start_over()
                self.stopping.wait(pause_after(self._failures, self.connections.settings.poll_seconds))
        self._end()

    def catch_up(self) -> None:
        """In this thread: until all of them rest or are given up."""
        try:
            self._admit()
            while self._marts and not self.stopping.is_set():
                if not self._round(self._look()):
                    if not any(one.stay and one.stay.settles for one in self._marts.values()):
                        return
                    self.stopping.wait(SETTLE_SECONDS)
        finally:
            self._end()

    def _turn(self) -> None:
        self._admit()
        if not self._marts:
            self._close()
            self._rung.wait(WAKE_SECONDS)
            return
        tip = self._look()
        if tip is None or not self._round(tip):
            self._look_after(tip)
            self._wait(tip)

    def _admit(self) -> None:
        """Those that have arrived; those that are lost go."""
        self._rung.clear()
        with self._lock:
            while self._arrived:
                one = self._arrived.popleft()
                self._marts[one.claim.pipeline_id] = one
        for one in [one for one in self._marts.values() if one.control.lost.is_set()]:
            self._forget(one)

    def _look(self) -> Tip | None:
        """Where the log stands; None: the source is not captured, and there is nothing to follow."""
        try:
            tip = self._open().feed.look()
        except ConfigError as error:
            if self._place is not None:
                log.warning("nothing to follow", source=self.source, reason=str(error))
            self._place = None
            return None
        place = tip.slot, tip.generation
        if place != self._place:
            self._place = place
            for one in self._marts.values():
                one.is_busy = True  # it will see that changes may be missing
        self._looked_at = time.monotonic()
        return tip

    def _round(self, tip: Tip | None) -> bool:
        """A step of each that has something to do, the one that is behind most first; whether any is to go on."""
        if tip is None:
            return False
        due, now = [], time.monotonic()
        for one in self._marts.values():
            if one.is_due(tip, now):
                due.append(one)
            elif one.stay and not one.stay.waits:
                one.stay.passes(tip.last_id)
        due.sort(key=lambda one: one.stay.at if one.stay else 0)
        goes_on = [self._drive(one) for one in due]
        return any(goes_on)

    # ── one mart ─────────────────────────────────────────────────────────────────────────────────────────────

    def _drive(self, one: Followed) -> bool:
        """One step; False: it rests. What goes wrong with one mart is its own, unless a session is lost, which all of
        them share."""
        if self.stopping.is_set():
            return False
        try:
            one.control.check()
            has_begun, at = one.steps is not None, time.monotonic()
            goes_on = one.advance(self._open(), self.connections, self.identity)
            if not goes_on:
                self._rested(one)
            self._time(one, time.monotonic() - at if has_begun else 0.0)
            return goes_on
        except StepDown as why:
            self._step_down(one, str(why))
        except LeaseLost as error:
            log.info("follows no more", pipeline=one.claim.name, reason=str(error))
            self._forget(one)
        except Interrupted:  # amid a step: the runner is stopping
            one.close()
        except (DatabaseLost, RetryableError) as error:
            self._recover(one, error)
        except VitrinaError as error:
            self._step_down(one, str(error))
        except Exception as error:
            log.exception("unexpected error", pipeline=one.claim.name)
            self._step_down(one, f"{type(error).__name__}: {error}")
        return True

    def _time(self, one: Followed, took: float) -> None:
        """A slow mart goes on among others of its kind, as long as it is slow."""
        self.slow.time(one, took)
        is_misplaced = self.of_slow != (one.claim.pipeline_id in self.slow)
        if is_misplaced and one.may_move and self._thread.ident and len(self._marts) > 1:
            self._hand_over(one)

    def _hand_over(self, one: Followed) -> None:
        """Another crew goes on with it, from what was committed."""
        log.info("goes on among others", pipeline=one.claim.name, slow=not self.of_slow)
        self._wind_up(one)
        one.close()
        self._repo().let_go(one.claim)
        self._forget(one)
        self.ring()

    def _rested(self, one: Followed) -> None:
        self.troubles.pop(one.claim.pipeline_id, None)
        assert one.ledger
        if one.is_suspect:
            self._repo().prove(one.claim)
            one.is_suspect = False
            self.ring()
        if time.monotonic() - one.ledger.told_at > TELL_SECONDS:
            one.ledger.tell()
        self._look_at_mart(one, one.ledger)

    def _look_at_mart(self, one: Followed, ledger: HourLedger) -> None:
        """Now and then, what can only be asked of all of it; it wakes up for that."""
        at = ledger.look_at
        if at is None or one.stay is None or one.stay.waits:
            return
        if at <= time.monotonic():
            ledger.look(one.stay.forward(ledger.position))
        else:
            one.stay.wake_by(at)

    def _step_down(self, one: Followed, why: str) -> None:
        """For a run, which is due at once."""
        log.info(Said.STEPPED_DOWN.text, code=Said.STEPPED_DOWN.value, pipeline=one.claim.name, why=why)
        self._note_trouble(one)
        one.close()
        try:
            if one.ledger:
                one.ledger.tell()
            self._repo().step_down(one.claim)
        except LeaseLost as error:
            log.info("follows no more", pipeline=one.claim.name, reason=str(error))
        self._forget(one)

    def _recover(self, one: Followed, error: RetryableError | DatabaseLost) -> None:
        """Begin again from what was committed, with another epoch; what no trying cures is a run's."""
        if one.control.lost.is_set() or not self._is_mine(one):
            self._forget(one)  # whoever took over has ended its session
            return
        if self._is_broken():
            raise error
        count = self._note_trouble(one)
        if count >= TRIES:
            self._step_down(one, str(error))
            return
        log.warning("cannot follow, trying again", pipeline=one.claim.name, reason=str(error))
        self._forget(one)

    def _is_mine(self, one: Followed) -> bool:
        with self.connections.open_warehouse("following") as conn:
            return bool(self._repo(conn).mine([one.claim.pipeline_id]))

    def _note_trouble(self, one: Followed) -> int:
        trouble = self.troubles.setdefault(one.claim.pipeline_id, Trouble())
        trouble.count, trouble.at = trouble.count + 1, time.monotonic()
        return trouble.count

    def _forget(self, one: Followed) -> None:
        """It is free, or another's; the desk sees whose."""
        one.close()
        with self._lock:
            self._marts.pop(one.claim.pipeline_id, None)
            self._arrived = deque(arrived for arrived in self._arrived if arrived is not one)
        self.heartbeat.forget_follower(one.claim.pipeline_id, one.control)

    # ── all together ─────────────────────────────────────────────────────────────────────────────────────────

    def _look_after(self, tip: Tip | None) -> None:
        """What can wait: the history, and the positions of those that nothing concerns."""
        now = time.monotonic()
        for one in self._marts.values():
            if one.ledger and one.ledger.batches and now - one.ledger.told_at > TELL_SECONDS:
                self._tell(one.ledger)
        marts = self._marts.values()
        if tip and (now - self._passed_at > PASS_SECONDS or farthest(marts, tip) > FAR_BEHIND):
            self._passed_at = now
            pass_over(marts, self._repo())

    def _tell(self, ledger: HourLedger) -> None:
        with suppress(LeaseLost):  # it is noticed elsewhere
            ledger.tell()

    def _wait(self, tip: Tip | None) -> None:
        """Until the log says something, a mart's time has come, or there is a new one."""
        listener = self._open().listener
        deadline = min([self._looked_at + LOOK_SECONDS, *self._wakes()])
        if tip is None:
            deadline = time.monotonic() + LOOK_SECONDS
        while not self.stopping.is_set() and not self._rung.is_set():
            left = deadline - time.monotonic()
            if left <= 0:
                return
            with translated():
                heard = [*listener.notifies(timeout=min(left, WAKE_SECONDS), stop_after=1)]
            if any(note.payload == self.source for note in heard):
                return

    def _wakes(self) -> Iterator[float]:
        return (one.stay.wake_at for one in self._marts.values() if one.rests and one.stay)

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────

    def _open(self) -> Sessions:
        if self._sessions is None:
            self._sessions = Sessions.open(self.connections, self.source)
        return self._sessions

    def _is_broken(self) -> bool:
        """Whether a session is lost that all share."""
        return self._sessions is None or self._sessions.is_broken

    def _start_over(self) -> None:
        """Sessions are lost, or nobody knows: every mart begins again from what was committed, here or elsewhere. No
        runner was lost over it."""
        self._let_go(self._all())
        self._close()

    def _close(self) -> None:
        shared, self._sessions = self._sessions, None
        if shared:
            shared.close()

    def _repo(self, conn: Connection | None = None) -> FollowingRepo:
        seconds = self.connections.settings.lease_seconds
        return FollowingRepo(conn or self._open().meta, self.identity.id, self.identity.name, seconds)

    def _end(self) -> None:
        """What is on its way arrives, and others go on."""
        marts = self._all()
        for one in marts:
            self._wind_up(one)
        if marts:
            self._let_go(marts)
        self._close()

    def _wind_up(self, one: Followed) -> None:
        try:
            one.wind_up()
        except Exception as error:
            log.warning("what was on its way is in doubt", pipeline=one.claim.name, error=str(error))

    def _let_go(self, marts: Sequence[Followed]) -> None:
        """For others to go on, by a session that is sure to be sound."""
        try:
            with self.connections.open_warehouse("following") as conn:
                for one in marts:
                    one.close()
                    self._repo(conn).let_go(one.claim)
        except VitrinaError as error:
            names = [one.claim.name for one in marts]
            log.warning("marts cannot be let go, their leases will expire", pipelines=names, error=str(error))
        for one in marts:
            self._forget(one)
