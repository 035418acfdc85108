"""The dispatcher: claims what is due, retries what a retry can cure, and closes what nothing can.

Who cannot be reached, source, sink or warehouse, is waited for without a slot: the run stays open, and goes on in
another attempt. If the meta-store itself is away, the slot waits for it.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from uuid import UUID

import structlog
from psycopg.errors import IdleInTransactionSessionTimeout

from vitrina.domain.errors import ConfigError, DatabaseLost, LeaseLost, RetryableError, VitrinaError
from vitrina.domain.events import Event
from vitrina.domain.lifecycle import RunStatus
from vitrina.domain.pipeline import WAREHOUSE
from vitrina.domain.wording import Json
from vitrina.meta.repos.leases import Claim, LeaseRepo, error_columns
from vitrina.meta.repos.outages import Pauses, called
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.metrics.events import Meter
from vitrina.runner.control import Interrupted, RunControl
from vitrina.runner.executor import PipelineExecutor
from vitrina.runner.heartbeat import Heartbeat
from vitrina.runner.identity import Identity
from vitrina.runner.runlog import RunLog
from vitrina.runner.schedules import plan_due
from vitrina.runner.service import Session, pause_after
from vitrina.sinks.registry import neighbours_of
from vitrina.sources.connections import Connections
from vitrina.tracing import span

MAX_ATTEMPTS = 3
BLIPS = 1  # so often in a row, a connection that is lost is opened again at once, in this slot
log = structlog.get_logger()


@dataclass
class PipelineDispatcher:
    """One slot: one connection to the meta-store, one run at a time."""

    connections: Connections
    identity: Identity
    heartbeat: Heartbeat
    stopping: threading.Event
    claimed: Callable[[], None] = lambda: None  # told before a run begins: there may be more to do

    def __post_init__(self) -> None:
        self.settings = self.connections.settings
        self.session = Session(lambda: self.connections.open_warehouse("slot"))

    def dispatch_next(self, only: UUID | None = None) -> Claim | None:
        """Claim one due pipeline and see it through; None when nothing is due."""
        leases, neighbours = self._leases(), self.connections.neighbours
        with neighbours.claiming():
            claim = self.claim(leases, only)
            hold = neighbours.take(neighbours_of(claim.config["source"], claim.target)) if claim else None
        if claim and hold:
            try:
                self.claimed()
                self._see_through(claim, leases)
            finally:
                hold.release()
        return claim

    def claim(self, leases: LeaseRepo, only: UUID | None) -> Claim | None:
        """What a lost runner left behind, which has waited longest; then what was asked for or is due. Nobody's whose
        source or sink does not answer, unless just that one is asked for."""
        avoided = [] if only else self.connections.neighbours.avoided(self.settings.slots)
        return self._take_over(leases, only, avoided) or leases.claim(only, avoided)

    def plan(self) -> None:
        """When what is scheduled is due next."""
        plan_due(PipelineRepo(self._leases().conn))

    def close(self) -> None:
        """End the session."""
        self.session.close()

    def _leases(self) -> LeaseRepo:
        return LeaseRepo(self.session.get(), self.identity.id, self.identity.name, self.settings.lease_seconds)

    def _take_over(self, leases: LeaseRepo, only: UUID | None, avoided: Sequence[str]) -> Claim | None:
        lost = leases.expired(only)
        if lost and self.heartbeat.clock.look(leases.conn):
            lost = leases.expired(only)  # the clock had jumped
        for dead in lost:
            leases.expel(dead)
            reason = self._why_bury(dead["status"], dead["enabled"], dead["crashes"] + 1)
            if reason:
                if leases.bury(dead, reason):
                    Meter(dead["name"], dead["target"]).ended(RunStatus.FAILED)
                    log.error("given up", pipeline=dead["name"], runner=dead["runner"], reason=reason)
            elif not {*neighbours_of(dead["source"], dead["target"])} & {*avoided} and (claim := leases.reclaim(dead)):
                Meter(dead["name"], dead["target"]).ended(RunStatus.FAILED)
                log.warning("taken over from a lost runner", pipeline=dead["name"], runner=dead["runner"])
                return claim
        return None

    def _why_bury(self, status: str, enabled: bool, crashes: int) -> str:
        if status == "PAUSE_REQUESTED":
            return "the runner was lost; paused, as was asked for"
        if not enabled:
            return "the runner was lost, and the pipeline is disabled"
        if crashes >= self.settings.max_crashes:
            return f"the runner was lost {crashes} times in a row while running this pipeline"
        return ""

    def _see_through(self, claim: Claim, leases: LeaseRepo) -> None:
        failures, control = 0, RunControl(self.stopping)
        try:
            while True:
                self.heartbeat.watch(claim.run_id, control)
                try:
                    return self._attempt(claim, leases, control)
                except (RetryableError, DatabaseLost) as error:
                    failures = 1 if control.recovered.is_set() else failures + 1
                    if failures > BLIPS and (away := _away(error)):
                        return self._put_off(claim, away, error)
                    self._back_off(failures, control, error)
                    claim = self._next_attempt(claim, error, self._pause(failures))
                    leases = self._leases()
                    self.heartbeat.forget(claim.run_id, control)
                    control = RunControl(self.stopping)  # one per attempt: a late heartbeat may still speak of the last
        except LeaseLost as error:
            _meter(claim).lease_lost()
            log.warning("lease lost", pipeline=claim.name, run=claim.run_id, reason=str(error))
        except DatabaseLost as error:  # of the meta-store: nothing else is asked here
            self._put_off(claim, WAREHOUSE, error)
        except VitrinaError as error:
            self._fail(claim, error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit, CancelledError, … of a transform end its run, not the slot
            log.exception("unexpected error", pipeline=claim.name, run=claim.run_id)
            self._fail(claim, ConfigError(f"{type(error).__name__}: {error}"))
        finally:
            self.heartbeat.forget(claim.run_id, control)

    def _attempt(self, claim: Claim, leases: LeaseRepo, control: RunControl) -> None:
        about = span("vitrina.run", pipeline=claim.name, target=claim.target, run=claim.run_id, attempt=claim.attempt)
        with about, _meter(claim).attempt() as ending:
            executor = PipelineExecutor(self.connections, leases)
            ending.status = executor.execute(claim, control)

    def _back_off(self, failures: int, control: RunControl, error: RetryableError | DatabaseLost) -> None:
        if failures >= MAX_ATTEMPTS:
            raise VitrinaError.like(error) from error
        self._wait(self._pause(failures), control)

    def _pause(self, failures: int) -> float:
        return self.settings.backoff_seconds[min(failures, len(self.settings.backoff_seconds)) - 1]

    def _next_attempt(self, claim: Claim, error: RetryableError | DatabaseLost, seconds: float) -> Claim:
        leases = self._leases()
        RunLog(leases.conn, claim).say("warning", Event.RETRIED, **_why(error), in_seconds=seconds)
        following = leases.begin_attempt(claim, error.message, error.remedy)
        _meter(claim).retry()
        return following

    def _put_off(self, claim: Claim, away: str, error: VitrinaError) -> None:
        """Until they answer. If even the meta-store does not, this slot has nothing else to do but wait for it."""
        for failures in count(1):
            try:
                return self._say_put_off(claim, away, error)
            except LeaseLost:
                log.info("somebody else has it by now", pipeline=claim.name, run=claim.run_id)
                return None
            except DatabaseLost:
                self.session.close()
                if self.stopping.wait(pause_after(failures, self.settings.poll_seconds)):
                    log.warning("cannot go on, the lease will expire", pipeline=claim.name, reason=str(error))
                    raise
        return None

    def _say_put_off(self, claim: Claim, away: str, error: VitrinaError) -> None:
        leases = self._leases()
        pauses = Pauses(self.settings.backoff_seconds[0], self.settings.outage_pause_seconds)
        until = leases.put_off(claim, away, error, pauses)
        if until:
            said: dict[str, Json] = {
                "neighbour": called(away),
                "tries": until.tries,
                "in_seconds": round(until.seconds, 1),
            }
            RunLog(leases.conn, claim).say("warning", Event.WAITS, **_why(error), **said)

    def _wait(self, seconds: float, control: RunControl) -> None:
        """Back off; a pause or the end of the runner cuts it short, and the next attempt notices."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                control.check()
            except Interrupted:
                return
            self.stopping.wait(0.05)

    def _fail(self, claim: Claim, error: VitrinaError) -> None:
        leases = self._leases()
        try:
            RunLog(leases.conn, claim).say("error", Event.FAILED, **_why(error))
            leases.fail(claim, error.message, error.remedy, Pauses(*self.settings.failure_pause_seconds))
        except LeaseLost:
            _meter(claim).lease_lost()
            log.warning("lease lost", pipeline=claim.name, run=claim.run_id)


def _away(error: VitrinaError) -> str:
    """Who cannot be reached, if that is what is wrong; a connection that is nobody else's is the warehouse's.

    One that the server ended for standing still is our own doing.
    """
    if isinstance(error.__cause__, IdleInTransactionSessionTimeout):
        return ""
    return error.neighbour or (WAREHOUSE if isinstance(error, DatabaseLost) else "")


def _why(error: VitrinaError) -> dict[str, str]:
    return {name: text for name, text in error_columns(error.message, error.remedy).items() if text}


def _meter(claim: Claim) -> Meter:
    return Meter(claim.name, claim.target)
