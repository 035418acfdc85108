"""A ring wakes one who waits, or everybody who is busy once they are done; none is lost."""

from threading import Event, Thread

from tests.support import wait_for
from vitrina.runner.waker import Waker


class Waiter:
    """Somebody who waits, and counts how often it was woken."""

    def __init__(self, waker: Waker, wake: Event) -> None:
        self.waker, self.wake, self.woken = waker, wake, 0
        self.thread = Thread(target=self._wait_three_times, daemon=True)
        self.thread.start()

    def _wait_three_times(self) -> None:
        for _ in range(3):
            self.waker.wait(self.wake)
            self.woken += 1


def waiters(waker: Waker) -> list[Waiter]:
    found = [Waiter(waker, wake) for wake in waker.wakes]
    wait_for(lambda: len(waker._waiting) == len(found))
    return found


def test_a_ring_wakes_one() -> None:
    waker = Waker(3)
    found = waiters(waker)
    waker.wake_one()
    wait_for(lambda: sum(waiter.woken for waiter in found) == 1 and len(waker._waiting) == 3)
    waker.wake_all()
    wait_for(lambda: sum(waiter.woken for waiter in found) == 4 and len(waker._waiting) == 3)


def test_a_ring_while_all_are_busy_is_heard_by_each_when_it_is_done() -> None:
    waker = Waker(2)
    waker.wake_one()
    found = [Waiter(waker, wake) for wake in waker.wakes]
    wait_for(lambda: [waiter.woken for waiter in found] == [1, 1])


def test_as_many_rings_as_there_are_waiting_wake_them_all() -> None:
    waker = Waker(3)
    found = waiters(waker)
    for _ in found:
        waker.wake_one()
    wait_for(lambda: all(waiter.woken >= 1 for waiter in found))
