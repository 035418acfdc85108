"""Background work, all of one shape: a thread with duties, each by a clock of its own; what fails is tried again."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Thread

import structlog

from vitrina.meta.db import Connection

log = structlog.get_logger()
FIRST_PAUSE = 0.25  # seconds after a failure; each in a row doubles it
PARTING_SECONDS = 1.0  # for whoever may be waiting for a neighbour, and holds nothing


def pause_after(failures: int, longest: float) -> float:
    """How long to wait after so many failures in a row."""
    return min(FIRST_PAUSE * 2.0 ** min(failures - 1, 30), longest)


@dataclass
class Session:
    """A session that is opened when it is needed, and again once it is lost."""

    open: Callable[[], Connection]
    conn: Connection | None = None

    def get(self) -> Connection:
        """One that works, as far as we know."""
        if self.conn is None or self.conn.closed or self.conn.broken:
            self.conn = self.open()
        return self.conn

    def close(self) -> None:
        """End it, if there is one."""
        if self.conn:
            self.conn.close()
        self.conn = None


@dataclass
class Duty:
    """What is done again `every` so many seconds after it was done; at once, if it waits for its work itself.

    After a failure it is tried again sooner than that, with pauses that grow up to it, or to `longest`.
    """

    work: Callable[[], object]
    complaint: str
    every: float = 0.0
    longest: float = 0.0
    due: float = field(default=0.0, init=False)
    failures: int = field(default=0, init=False)

    def complain(self, error: Exception) -> None:
        """To the log."""
        log.warning(self.complaint, error=str(error))


@dataclass
class Service:
    """A thread that sees to its duties until it is told to stop, and is waited for then.

    Sessions end with it, and after a failure: others may find another server. Whoever may hang on a neighbour holds
    nothing between two turns, and is left behind after `PARTING_SECONDS`.
    """

    name: str
    stopping: Event
    duties: Sequence[Duty]
    sessions: Sequence[Session] = ()
    end: Callable[[], object] = lambda: None
    may_hang: bool = False
    forgives: type[Exception] = Exception
    now: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._thread = Thread(target=self.run, name=self.name, daemon=self.may_hang)

    def start(self) -> None:
        """Begin, on a thread of its own."""
        self._thread.start()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join(PARTING_SECONDS if self.may_hang else None)

    def stop(self) -> None:
        """Tell it to end, and wait for that."""
        self.stopping.set()
        self.join()

    def run(self) -> None:
        """On this thread, until told to stop."""
        try:
            while not self.stopping.is_set():
                for duty in self.duties:
                    if duty.due <= self.now() and not self.stopping.is_set():
                        duty.due = self._attempt(duty) + self.now()
                self.stopping.wait(max(min(duty.due for duty in self.duties) - self.now(), 0.0))
        finally:
            self.end()
            self._close()

    def _attempt(self, duty: Duty) -> float:
        """Do it; how long it has time now."""
        try:
            duty.work()
        except self.forgives as error:
            duty.complain(error)
            duty.failures += 1
            self._close()
            return pause_after(duty.failures, max(duty.every, duty.longest))
        duty.failures = 0
        if self.may_hang:
            self._close()
        return duty.every

    def _close(self) -> None:
        for session in self.sessions:
            session.close()
