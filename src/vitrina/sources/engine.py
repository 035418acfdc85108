"""What computes where the data is: it finds what differs there and writes it there, and no row passes through a runner.

It sees a mart by a name of its own, and what it commits there counts only once we have moved our pointer to it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from vitrina.domain.wording import Json


class Differs(StrEnum):
    """How a key differs, or why it cannot be compared."""

    MISSING = "missing"
    DIFFERENT = "different"
    GONE = "gone"
    REPEATED = "repeated"  # the mart has it more than once
    TWICE = "twice"  # the query gives it more than once
    NO_KEY = "no_key"  # the query gives NULL in it


WRONG = (Differs.TWICE, Differs.NO_KEY)
UPSERTS = (Differs.MISSING, Differs.DIFFERENT, Differs.REPEATED)


@dataclass(frozen=True)
class Tally:
    """Of one part of a mart, how many keys differ in one way."""

    part: int
    how: Differs
    rows: int


@dataclass(frozen=True)
class Kept:
    """A mart as an engine sees it, and where it keeps what it finds until that is written."""

    table: str
    found: str
    folder: str  # of what is found
    columns: Sequence[str]
    key: Sequence[str]
    parts: int = 1


Progress = Callable[[Mapping[str, Json]], None]


class Engine(Protocol):
    """One run's engine. Each of its calls is one bounded piece of work; `check` ends one by raising."""

    def divide(self, mart: Kept, parts: int) -> None:
        """An empty mart into so many parts by its key, each of which can be written by itself."""
        ...

    def find(self, select: str, mart: Kept) -> Sequence[Tally]:
        """Compare a SELECT with a mart, once; what differs is kept with its rows."""
        ...

    def named(self, mart: Kept, how: Differs, limit: int) -> list[dict[str, str]]:
        """Some of the keys that were found so, for an error."""
        ...

    def converge(self, mart: Kept, part: int, ways: Collection[Differs]) -> None:
        """Write what was found of one part, where keys differ in these ways."""
        ...

    def close(self) -> None:
        """Whatever it still does is ended."""
        ...


@dataclass(frozen=True)
class Errand:
    """For whom an engine works: what its jobs are called, who is told how far they are, and who ends them."""

    name: str
    check: Callable[[], None]
    tell: Progress
    seconds: float  # that one piece of work may take
