"""The same work by several ways, alternately, on the same server: rounds, medians, and a check of every result."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from bench.ground import Ground, Spent, Took, fingerprint
from bench.report import Compared, Measured, Report, Target, out
from vitrina.meta.db import Connection

FILL = "first load"
MEMORY = "memory, MB"
SLOW = 60.0  # seconds: a peer that takes longer sits out after two rounds


class Way(Protocol):
    """A way to fill a table."""

    name: str

    @property
    def result(self) -> str:
        """A SELECT of what it has filled."""
        ...

    def prepare(self) -> None:
        """What comes before a round: an empty table."""
        ...

    def do(self, work: str) -> Took:
        """One work; what is measured leaves out the way's own start-up."""
        ...


@dataclass(frozen=True)
class Work:
    """What is measured, what happens at the source before it, and what is wanted of it."""

    name: str
    before: Callable[[], None] = lambda: None
    floor: str = ""  # what the floor does
    most: float = 1.0  # times the floor
    ahead: Mapping[str, float] = field(default_factory=dict)  # of a peer, so many times
    most_of: Mapping[str, float] = field(default_factory=dict)  # of a way of ours, where it is another number


@dataclass
class Contest:
    """Every work by every way; `measured` has all figures by name, in the order of the rounds."""

    ground: Ground
    source: Connection  # where the query is read
    select: str
    works: Sequence[Work]
    ways: Sequence[Way]
    ours: Sequence[str] = ("vitrina",)
    keeps: bool = False  # the tables are filled once, unmeasured, and kept from round to round
    measured: dict[str, list[float]] = field(default_factory=dict)

    def run(self, times: int) -> Measured:
        """Medians: seconds by way and work; and the most memory of each way."""
        for number in range(times):
            self._round(number)
        return {name: _summary(name, values) for name, values in self.measured.items()}

    def targets(self, medians: Measured) -> list[Target]:
        """Ratios within this run: to the floor, and of the peers to ours."""
        return [t for work in self.works for name in self.ours for t in self._targets(work, name, medians)]

    def _targets(self, work: Work, ours: str, medians: Measured) -> Iterator[Target]:
        seconds, floor = medians[f"{ours} {work.name}"], medians[f"floor {work.name}"]
        name = work.name if len(self.ours) == 1 else f"{work.name}, {ours}"
        yield Target.at_most(f"{name} / {work.floor}", seconds / floor, work.most_of.get(ours, work.most))
        for peer, times in work.ahead.items():
            if f"{peer} {work.name}" in medians:
                ratio = medians[f"{peer} {work.name}"] / seconds
                yield Target.at_least(f"{name}, times faster than {peer}", ratio, times)

    def report(self, title: str, times: int, versions: Mapping[str, str], skipped: Sequence[str]) -> Report:
        """Measure, and tell: a row for each work, a column for each way."""
        medians, names = self.run(times), [way.name for way in self.ways]
        rows = [[work.name, *(f"{medians[f'{name} {work.name}']:.2f}" for name in names)] for work in self.works]
        memory = [f"{medians[f'{name} {MEMORY}']:.0f}" if f"{name} {MEMORY}" in medians else "" for name in names]
        return Report(
            title,
            ["work", *(f"{name}, s" for name in names)],
            [*rows, ["most memory of the process, MB", *memory]],
            self.targets(medians),
            medians,
            {"postgres": self.ground.server_version()} | dict(versions),
            skipped,
            {name: len(self.measured[f"{name} {self.works[0].name}"]) for name in names},
            [self._compared(work, medians) for work in self.works],
        )

    def _compared(self, work: Work, medians: Measured) -> Compared:
        seconds = {way.name: round(medians[f"{way.name} {work.name}"], 3) for way in self.ways}
        return Compared(work.name, work.most, seconds)

    def _round(self, number: int) -> None:
        ways = [way for way in self.ways if number < 2 or not self._is_slow(way)]
        if number == 0 or not self.keeps:
            for way in ways:
                way.prepare()
                if self.keeps:
                    way.do(FILL)
        for work in self.works:
            work.before()
            wanted = fingerprint(self.source, self.select)
            for way in ways if number % 2 == 0 else reversed(ways):
                self.ground.execute("CHECKPOINT")
                with self.ground.processor() as spent:
                    took = way.do(work.name)
                assert fingerprint(self.ground.db, way.result) == wanted, f"{way.name}, {work.name}: the table differs"
                self._keep(way, work, took, number, spent)

    def _is_slow(self, way: Way) -> bool:
        return any(max(self.measured[f"{way.name} {work.name}"]) > SLOW for work in self.works)

    def _keep(self, way: Way, work: Work, took: Took, number: int, spent: Spent) -> None:
        said = f"{took.seconds:.2f} s; processor: server {spent.server:.2f} s, beside it {spent.beside:.2f} s"
        out.print(f"round {number + 1}: {way.name}, {work.name} {said}", highlight=False)
        self.measured.setdefault(f"{way.name} {work.name}", []).append(took.seconds)
        if took.memory_mb:
            self.measured.setdefault(f"{way.name} {MEMORY}", []).append(took.memory_mb)


def _summary(name: str, values: Sequence[float]) -> float:
    return max(values) if name.endswith(MEMORY) else statistics.median(values)
