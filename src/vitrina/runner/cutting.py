"""Cutting a run short: its statements are cancelled where they run, by the driver, which needs no rights for it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event, Lock, Thread

AGAIN_SECONDS = 0.2  # the run may begin another statement before it notices


@dataclass
class Cut:
    """The sessions of one attempt. Once it has begun, whatever they do is cancelled until it is ended."""

    was_made: bool = False
    _sessions: list[Callable[[], None]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _ended: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def add(self, cancel: Callable[[], None]) -> None:
        """Another session of the run, by how what it does is cancelled."""
        with self._lock:
            self._sessions.append(cancel)

    def begin(self) -> None:
        """From another thread, which is not kept waiting; once is enough."""
        with self._lock:
            if self.was_made or self._ended.is_set():
                return
            self.was_made = True
            self._thread = Thread(target=self._cancel_until_ended, name="cut", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """What comes now is not cancelled; nor can it begin any more."""
        with self._lock:
            self._ended.set()
        if self._thread:
            self._thread.join()

    def _cancel_until_ended(self) -> None:
        while not self._ended.is_set():
            with self._lock:
                sessions = list(self._sessions)
            for cancel in sessions:
                cancel()
            self._ended.wait(AGAIN_SECONDS)
