"""The runner process: start-up checks, recovery, ticks; woken by NOTIFY, with polling as the fallback."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from uuid import UUID

import structlog

from vitrina.adapters.connections import Connections
from vitrina.adapters.transformers import load_transforms
from vitrina.domain.errors import ConfigError, DatabaseLost
from vitrina.meta.db import Connection
from vitrina.meta.migrate import is_current
from vitrina.runner.dispatcher import PipelineDispatcher
from vitrina.runner.heartbeat import Heartbeat
from vitrina.runner.identity import Identity
from vitrina.runner.manager import PipelineManager, work_off

log = structlog.get_logger()
TIDY_EVERY = 300  # ticks


@dataclass
class Runner:
    """A process with several slots, each of which runs one pipeline at a time."""

    connections: Connections
    identity: Identity = field(default_factory=Identity)
    stopping: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        settings = self.connections.settings
        self.settings = settings
        self.heartbeat = Heartbeat(self.connections, self.identity, settings.lease_seconds, settings.slots)
        self._wakes = [Event() for _ in range(settings.slots)]

    def main_loop(self) -> None:
        """Until told to stop. A lost database ends the tick; the next one tries again."""
        self.check()
        with self._beating():
            slots = [Thread(target=self._slot, args=(wake,), name=f"slot {n}") for n, wake in enumerate(self._wakes)]
            for slot in slots:
                slot.start()
            while not self.stopping.is_set():
                try:
                    self._listen_and_tick()
                except DatabaseLost as error:
                    log.warning("database lost, trying again", error=str(error))
                    self.stopping.wait(self.settings.poll_seconds)
            for wake in self._wakes:
                wake.set()
            for slot in slots:
                slot.join()
        log.info("runner stopped", runner=self.identity.name)

    def run_once(self, only: UUID | None = None) -> int:
        """Work off what is due now, in this thread, and return: for outside orchestrators."""
        self.check()
        with self._beating():
            dispatcher = self._dispatcher()
            try:
                with self.connections.open_warehouse("manager") as conn:
                    self._manager(conn).tick()
                return work_off(dispatcher, self.stopping, only)
            finally:
                dispatcher.close()

    def check(self) -> None:
        """What must be right before anything runs."""
        load_transforms(self.settings.transform_modules)
        if not is_current(self.connections.listen):
            raise ConfigError("the meta-store is not up to date", "run: vitrina migrate")

    def stop_on_signals(self) -> None:
        """SIGTERM and SIGINT end the current batches, release the leases and exit."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stopping.set())

    def _listen_and_tick(self) -> None:
        with self.connections.open_listener() as listener, self.connections.open_warehouse("manager") as conn:
            listener.execute("LISTEN vitrina_wake")
            manager = self._manager(conn)
            log.info("runner ready", runner=self.identity.name, slots=self.settings.slots)
            ticks = 0
            while not self.stopping.is_set():
                if ticks % TIDY_EVERY == 0:
                    manager.tidy()
                ticks += 1
                manager.tick()
                for wake in self._wakes:
                    wake.set()
                self._wait_for_wake(listener)

    def _wait_for_wake(self, listener: Connection) -> None:
        """Until a NOTIFY or the poll interval; in short waits, so that a signal is noticed."""
        for _ in range(max(1, round(self.settings.poll_seconds / 0.25))):
            if self.stopping.is_set() or any(listener.notifies(timeout=0.25, stop_after=1)):
                return

    def _slot(self, wake: Event) -> None:
        dispatcher = self._dispatcher()
        while not self.stopping.is_set():
            wake.wait()
            wake.clear()
            try:
                work_off(dispatcher, self.stopping)
            except DatabaseLost as error:
                log.warning("database lost during a run", error=str(error))
            except Exception:
                log.exception("a slot failed; it goes on")
        dispatcher.close()

    def _dispatcher(self) -> PipelineDispatcher:
        return PipelineDispatcher(self.connections, self.identity, self.heartbeat, self.stopping)

    def _manager(self, conn: Connection) -> PipelineManager:
        return PipelineManager(conn, self.settings.event_days * 86400)

    @contextmanager
    def _beating(self) -> Iterator[None]:
        self.heartbeat.start()
        try:
            yield
        finally:
            self.heartbeat.end()
