"""A few threads that send batches, in bounded number, and tell in order which have arrived."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

from vitrina.stores import Batch

T = TypeVar("T")
SPARE = 3


@dataclass(frozen=True)
class Sent(Generic[T]):
    """A batch on its way, and what its caller wants to know it by."""

    future: "Future[None]"
    label: T


class Senders(Generic[T]):
    """A few batches more than there are threads are in memory, so that no thread waits for the next one."""

    def __init__(self, send: Callable[[Batch], None], threads: int) -> None:
        self._send = send
        self._limit = threads + SPARE
        self._pool = ThreadPoolExecutor(threads, "sender")
        self._on_their_way: deque[Sent[T]] = deque()

    def submit(self, batch: Batch | None, label: T) -> "Future[None]":
        """Send it when a thread is free; nothing arrives as soon as all before it have."""
        future = self._pool.submit(self._send, batch) if batch else _nothing()
        self._on_their_way.append(Sent(future, label))
        return future

    @property
    def is_busy(self) -> bool:
        """Whether something was submitted that nobody has been told of yet."""
        return bool(self._on_their_way)

    def arrived(self) -> list[T]:
        """Those that have arrived, with all before them; an error of one is raised here."""
        done = []
        while self._on_their_way and self._on_their_way[0].future.done():
            self._on_their_way[0].future.result()
            done.append(self._on_their_way.popleft().label)
        return done

    def wait_for_room(self) -> None:
        """Back-pressure: until another batch may be made."""
        self._wait(lambda: sum(not sent.future.done() for sent in self._on_their_way) < self._limit)

    def drain(self) -> None:
        """Until all have arrived, or one has failed."""
        self._wait(lambda: all(sent.future.done() for sent in self._on_their_way))

    def close(self) -> None:
        """Nothing new is begun; what is being sent is waited for."""
        self._pool.shutdown(cancel_futures=True)

    def _wait(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough() and not self._failed():
            wait([sent.future for sent in self._on_their_way if not sent.future.done()], return_when=FIRST_COMPLETED)
        for sent in self._failed():
            sent.future.result()

    def _failed(self) -> list[Sent[T]]:
        return [sent for sent in self._on_their_way if sent.future.done() and sent.future.exception()]


def _nothing() -> "Future[None]":
    future: Future[None] = Future()
    future.set_result(None)
    return future
