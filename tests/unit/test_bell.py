"""A ring wakes one who waits, or everybody who is busy once they are done; none is lost."""

from threading import Event, Thread

from tests.support import wait_for
from vitrina.runner.bell import Bell


class Waiter:
    """Somebody who waits, and counts how often it was woken."""

    def __init__(self, bell: Bell, wake: Event) -> None:
        self.bell, self.wake, self.woken = bell, wake, 0
        self.thread = Thread(target=self._wait_three_times, daemon=True)
        self.thread.start()

    def _wait_three_times(self) -> None:
        for _ in range(3):
            self.bell.wait(self.wake)
            self.woken += 1


def waiters(bell: Bell) -> list[Waiter]:
    found = [Waiter(bell, wake) for wake in bell.wakes]
    wait_for(lambda: len(bell._waiting) == len(found))
    return found


def test_a_ring_wakes_one() -> None:
    bell = Bell(3)
    found = waiters(bell)
    bell.ring()
    wait_for(lambda: sum(waiter.woken for waiter in found) == 1 and len(bell._waiting) == 3)
    bell.ring_for_all()
    wait_for(lambda: sum(waiter.woken for waiter in found) == 4 and len(bell._waiting) == 3)


def test_a_ring_while_all_are_busy_is_heard_by_each_when_it_is_done() -> None:
    bell = Bell(2)
    bell.ring()
    found = [Waiter(bell, wake) for wake in bell.wakes]
    wait_for(lambda: [waiter.woken for waiter in found] == [1, 1])


def test_as_many_rings_as_there_are_waiting_wake_them_all() -> None:
    bell = Bell(3)
    found = waiters(bell)
    for _ in found:
        bell.ring()
    wait_for(lambda: all(waiter.woken >= 1 for waiter in found))
