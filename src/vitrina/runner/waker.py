"""What wakes the slots of a runner: one at a time, since a request that one takes would wake all in vain."""

from threading import Event, Lock


class Waker:
    """A ring is heard by one of those that wait; if all are busy, by each of them when it is done."""

    def __init__(self, listeners: int) -> None:
        self.wakes = [Event() for _ in range(listeners)]
        self._waiting: list[Event] = []
        self._lock = Lock()

    def wake_one(self) -> None:
        """There may be work. Whoever takes some rings again: there may be more."""
        with self._lock:
            heard = [self._waiting.pop()] if self._waiting else self.wakes
        for wake in heard:
            wake.set()

    def wake_all(self) -> None:
        """To see that it is time to go."""
        for wake in self.wakes:
            wake.set()

    def wait(self, wake: Event) -> None:
        """Until it rings for this one."""
        with self._lock:
            self._waiting.append(wake)
        wake.wait()
        with self._lock:
            if wake in self._waiting:  # it rang for all, or while this one was busy
                self._waiting.remove(wake)
            wake.clear()
