"""The runner process: start-up checks, recovery, ticks; woken by NOTIFY, with polling as the fallback."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from uuid import UUID

import structlog

from vitrina.domain.errors import DatabaseLost, VitrinaError
from vitrina.meta import compatibility
from vitrina.meta.db import Connection, translated
from vitrina.meta.repos.retention import Ages
from vitrina.metrics import server as metrics
from vitrina.runner.alerting import AlertDesk
from vitrina.runner.capturing import CaptureDesk
from vitrina.runner.clock import ClockWatch
from vitrina.runner.dependencies import DependencyDesk
from vitrina.runner.destinations import find_destinations
from vitrina.runner.dispatcher import PipelineDispatcher
from vitrina.runner.following import FollowingDesk
from vitrina.runner.heartbeat import Heartbeat
from vitrina.runner.housekeeping import Housekeeper
from vitrina.runner.identity import Identity
from vitrina.runner.latency import LatencyDesk
from vitrina.runner.manager import PipelineManager, work_off
from vitrina.runner.probing import Prober
from vitrina.runner.requests import LANES, RequestDesk
from vitrina.runner.service import Duty, Service, Session
from vitrina.runner.upstream import UpstreamDesk
from vitrina.runner.waiting import WaitingDesk
from vitrina.runner.waker import Waker
from vitrina.sources.connections import Connections
from vitrina.sql import grammar
from vitrina.tracing import tracing
from vitrina.transforms.chain import load_transforms
from vitrina.transforms.running import begin_worker

log = structlog.get_logger()
WAKE = "vitrina_wake"


class Turn(Duty):
    """A turn of a slot or a lane."""

    def complain(self, error: Exception) -> None:
        """A lost database is no fault of ours."""
        if isinstance(error, DatabaseLost):
            log.warning("database lost during a run", error=str(error))
        else:
            log.exception(self.complaint)


@dataclass
class Runner:
    """A process with several slots, each of which runs one pipeline at a time."""

    connections: Connections
    identity: Identity = field(default_factory=Identity)
    stopping: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        settings = self.connections.settings
        self.settings = settings
        self.clock = ClockWatch()
        self.heartbeat = Heartbeat(self.connections, self.identity, settings.lease_seconds, settings.slots, self.clock)
        self.metrics_port: int | None = None  # once it works, where it tells what it does
        self._waiting = WaitingDesk(self.connections, self.stopping)
        self._waker = Waker(settings.slots)
        self._lanes = [Waker(1) for _ in LANES]
        self._following = Waker(1)
        self._managing = Session(lambda: self.connections.open_warehouse("manager"))
        self._listening = Session(self._listen)

    def main_loop(self) -> None:
        """Until told to stop. A lost database ends the tick; the next one tries again."""
        self.check()
        with tracing(), metrics.serving(self.settings) as port, self._beating(), self._probing():
            self.metrics_port = port
            services = self._services()
            for service in services:
                service.start()
            try:
                self._ticking().run()
            finally:  # also when something unforeseen ends this thread: a runner works or is gone, never half
                self.stopping.set()
                for waker in (self._waker, *self._lanes, self._following, self._waiting.waker):
                    waker.wake_all()
                for service in services:
                    service.join()
        log.info("runner stopped", runner=self.identity.name)

    def run_once(self, only: UUID | None = None) -> int:
        """Work off what is due now, in this thread, and return: for outside orchestrators."""
        self.check()
        with tracing(), self._beating():
            dispatcher = self._dispatcher()
            try:
                with self.connections.open_warehouse("manager") as conn:
                    self._manager(conn).tick()
                    DependencyDesk(self.connections, self.stopping).look(conn)
                    UpstreamDesk(self.connections, self.stopping).look(conn)
                    self._waiting.look(conn)
                if only is None:
                    self.answer()
                done = work_off(dispatcher, self.stopping, only)
                with self.connections.open_warehouse("following") as conn:
                    done += self._followers().catch_up(conn, only)
                    done += work_off(dispatcher, self.stopping, only)  # what a follower stepped down for
                    LatencyDesk(self.connections, self.stopping).write(conn)
                self._alert()
                return done
            finally:
                dispatcher.close()

    def _alert(self) -> None:
        """Nobody may be here to deliver later; what is due stays so, whatever goes wrong here."""
        if not find_destinations(self.settings):
            return
        try:
            with self.connections.open_warehouse("alerts") as conn:
                AlertDesk(self.connections, self.stopping).look(conn)
        except VitrinaError as error:
            log.warning("alerts could not be looked after", error=str(error))

    def answer(self) -> int:
        """Answer the requests there are, in this thread."""
        desk = self._desk([kind for lane in LANES for kind in lane])
        try:
            return desk.work_off()
        finally:
            desk.close()

    def check(self) -> None:
        """What must be right before anything runs."""
        if self.settings.transform_modules:
            begin_worker(self.settings)  # somebody will want it, and it loads them while this process does
        grammar.load()
        self.connections.load()
        load_transforms(self.settings.transform_modules)
        find_destinations(self.settings)
        compatibility.require(self.connections.listen)

    def stop_on_signals(self) -> None:
        """SIGTERM and SIGINT end the current batches, release the leases and exit."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stopping.set())

    def _ticking(self) -> Service:
        """What starts every run. What cannot be foreseen ends it, and the runner."""
        duty = Duty(self._tick, "tick failed, trying again", longest=self.settings.poll_seconds)
        return Service("ticks", self.stopping, [duty], [self._managing, self._listening], forgives=VitrinaError)

    def _tick(self) -> None:
        """Nothing here waits for anybody but the meta-store, nor for a lock in it."""
        with translated():
            manager, listener = self._manager(self._managing.get()), self._listening.get()
            manager.tick()
            if manager.has_waits():
                self._waiting.waker.wake_one()
            for waker in (self._waker, *self._lanes, self._following):
                waker.wake_one()
            self._wait_for_wake(listener)

    def _listen(self) -> Connection:
        listener = self.connections.open_listener()
        listener.execute(f"LISTEN {WAKE}")
        ready = {"runner": self.identity.name, "slots": self.settings.slots, "metrics_port": self.metrics_port}
        log.info("runner ready", **ready)
        return listener

    def _wait_for_wake(self, listener: Connection) -> None:
        """Until something is asked for or the poll interval is over; in short waits, so that a signal is noticed."""
        deadline = time.monotonic() + self.settings.poll_seconds
        while not self.stopping.is_set() and time.monotonic() < deadline:
            for _ in listener.notifies(timeout=0.25, stop_after=1):
                return

    def _services(self) -> list[Service]:
        """The slots, a lane for each sort of request, and whoever looks after captures, alerts, catalogues and more."""
        return [
            *(self._slot(number, wake) for number, wake in enumerate(self._waker.wakes)),
            *(self._lane(waker, kinds) for waker, kinds in zip(self._lanes, LANES, strict=True)),
            self._desk_of_followers(),
            CaptureDesk(self.connections, self.identity, self.stopping, clock=self.clock).service(),
            AlertDesk(self.connections, self.stopping).service(),
            Housekeeper(self.connections, self.identity, self.stopping, self._manager).service(),
            DependencyDesk(self.connections, self.stopping).service(),
            UpstreamDesk(self.connections, self.stopping).service(),
            LatencyDesk(self.connections, self.stopping).service(),
            self._waiting.service(),
        ]

    def _slot(self, number: int, wake: Event) -> Service:
        dispatcher = self._dispatcher()
        dispatcher.claimed = self._waker.wake_one
        return self._whenever(
            f"slot {number}", self._waker, wake, lambda: self._work_off(dispatcher), dispatcher.session
        )

    def _work_off(self, dispatcher: PipelineDispatcher) -> None:
        """What is due; then it is planned anew, here, so that nobody has to be woken for it."""
        if work_off(dispatcher, self.stopping):
            dispatcher.plan()

    def _lane(self, waker: Waker, kinds: Sequence[str]) -> Service:
        desk = self._desk(kinds)
        return self._whenever(f"requests {kinds[0]}", waker, waker.wakes[0], desk.work_off, desk.session)

    def _desk_of_followers(self) -> Service:
        desk = self._followers()
        service = self._whenever("following", self._following, self._following.wakes[0], desk.work, desk.session)
        service.end = desk.stop
        return service

    def _followers(self) -> FollowingDesk:
        ring = self._following.wake_one
        return FollowingDesk(self.connections, self.identity, self.heartbeat, self.stopping, self.clock, ring)

    def _whenever(self, name: str, waker: Waker, wake: Event, work: Callable[[], object], session: Session) -> Service:
        """Work when woken, until the runner stops; a failure ends this turn only."""

        def turn() -> None:
            waker.wait(wake)
            work()

        duty = Turn(turn, "a slot failed; it goes on", longest=self.settings.poll_seconds)
        return Service(name, self.stopping, [duty], [session])

    def _desk(self, kinds: Sequence[str]) -> RequestDesk:
        return RequestDesk(self.connections, self.identity, self.heartbeat, self.stopping, kinds)

    def _dispatcher(self) -> PipelineDispatcher:
        return PipelineDispatcher(self.connections, self.identity, self.heartbeat, self.stopping)

    def _manager(self, conn: Connection) -> PipelineManager:
        settings = self.settings
        days = settings.event_days, settings.run_days, settings.audit_days, settings.version_days, settings.latency_days
        ages = Ages(*days)
        return PipelineManager(conn, ages, settings.max_crashes, self.clock)

    @contextmanager
    def _probing(self) -> Iterator[None]:
        """Whoever does not answer is asked again by somebody who holds no slot; who answers wakes one."""
        neighbours, prober = self.connections.neighbours, Prober(self.connections, self.stopping)
        for name in [*neighbours.outages]:
            prober.begin(name)
        with neighbours.telling(self._waker.wake_one, prober.begin, self._waiting.hear):
            yield

    @contextmanager
    def _beating(self) -> Iterator[None]:
        self.heartbeat.service.start()
        try:
            yield
        finally:
            self.heartbeat.service.stop()
