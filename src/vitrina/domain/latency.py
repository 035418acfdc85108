"""How late changes come to live marts: counted by how late, so that many can be summed up in little room."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import TypeAlias
from uuid import UUID

BOUNDS = (0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)  # seconds, each the most of its bucket
MOST_TALLIES = 10_000  # that wait to be written down: pipelines times minutes without a meta-store

Slot: TypeAlias = tuple[UUID, datetime]
"""A pipeline and a minute."""


@dataclass
class Tally:
    """What came within a minute."""

    arrivals: int = 0
    ms_sum: float = 0.0
    ms_max: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))

    def count(self, seconds: float) -> None:
        """One more, so late."""
        self.arrivals += 1
        self.ms_sum += seconds * 1000
        self.ms_max = max(self.ms_max, seconds * 1000)
        self.buckets[bisect_left(BOUNDS, seconds)] += 1

    def add(self, other: "Tally") -> None:
        """All of another."""
        self.arrivals += other.arrivals
        self.ms_sum += other.ms_sum
        self.ms_max = max(self.ms_max, other.ms_max)
        self.buckets = [mine + its for mine, its in zip(self.buckets, other.buckets, strict=True)]


class Latencies:
    """What has come to the marts of this process since it was last written down."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tallies: dict[Slot, Tally] = {}

    def __reduce__(self) -> tuple[type["Latencies"], tuple[()]]:
        """Another process has counted nothing yet."""
        return Latencies, ()

    def count(self, pipeline_id: UUID, at: datetime, seconds: float) -> None:
        """A slice has come to a mart, so late."""
        with self._lock:
            self._tally((pipeline_id, at.replace(second=0, microsecond=0))).count(seconds)

    def take(self) -> dict[Slot, Tally]:
        """All of it, to be written down."""
        with self._lock:
            taken, self._tallies = self._tallies, {}
        return taken

    def put_back(self, taken: dict[Slot, Tally]) -> None:
        """What could not be written down; the oldest are dropped when it becomes too much."""
        with self._lock:
            for slot, tally in taken.items():
                self._tally(slot).add(tally)
            for slot in sorted(self._tallies, key=lambda slot: slot[1])[:-MOST_TALLIES]:
                del self._tallies[slot]

    def _tally(self, slot: Slot) -> Tally:
        return self._tallies.setdefault(slot, Tally())


def quantile(buckets: Sequence[int], share: float, ms_max: float) -> float | None:
    """How many milliseconds late that share of all was at most, as far as the buckets tell; None if there was none."""
    left = share * sum(buckets)
    if not left:
        return None
    lower = 0.0
    for count, upper in zip(buckets, (*(bound * 1000 for bound in BOUNDS), ms_max), strict=True):
        if left <= count:
            return round(min(lower + (upper - lower) * left / count, ms_max), 1)
        left, lower = left - count, upper
    return ms_max


def step(span: timedelta, points: int) -> timedelta:
    """How many whole minutes a point stands for, so that a span has no more points than that."""
    minutes = max(1, -(-span // timedelta(minutes=points)))
    return timedelta(minutes=minutes)
