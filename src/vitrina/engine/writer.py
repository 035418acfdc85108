"""What keeps a mart: prepares it, gives the statements that compare and write, and takes note of what was written."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from vitrina.domain.pipeline import BATCH_SIZE
from vitrina.engine.converge import MartSql
from vitrina.engine.mart import Mart, Wanted
from vitrina.engine.query import QueryText
from vitrina.meta.db import Connection
from vitrina.sources.source import Source
from vitrina.sql.describe import Column

UNLIMITED = 2**31


@dataclass(frozen=True)
class Abilities:
    """What a kind of mart can do."""

    commits_with_checkpoint: bool  # its rows and the position move in one transaction
    is_compared_in_place: bool  # statements of the warehouse see the mart itself
    needs_shadow: bool  # what was sent is kept beside it: compared by that, and confirmed later
    swaps: bool  # a rebuild fills another one beside it, which takes its place in one move
    takes_files: bool = False  # an engine may write its files; what counts is what a pointer of ours says
    formats: tuple[str, ...] = ()  # of its files, for who reads them
    divides: bool = False  # its pipeline may say which rows are kept together: partition_by
    streams: bool = False  # an empty one takes all rows as they come from the reader
    usual_batch: int = BATCH_SIZE  # rows in a transaction, where the pipeline says no other number than the default
    is_mapped: bool = False  # its pipeline may say how fields are kept: mapping, settings


class Loader(Protocol):
    """Takes all rows of a query into an empty mart, as they come from the reader."""

    def load(self, reader: Source, query: QueryText, mart: Mart, conn: Connection, check: Callable[[], None]) -> int:
        """In one transaction; how many. `check` raises when the run should stop."""
        ...


class Writer(Protocol):
    """One run's writer. All its statements run inside fenced transactions."""

    @property
    def abilities(self) -> Abilities:
        """Of the mart."""
        ...

    @property
    def fields(self) -> tuple[Column, ...]:
        """What the mart is made of, where that is not what is read; else nothing."""
        ...

    @property
    def most_rows(self) -> int:
        """How many rows a transaction may take."""
        ...

    @property
    def loader(self) -> Loader | None:
        """What loads it in a way of its own; None where statements do."""
        ...

    def read(self, select: str, columns: tuple[Column, ...]) -> tuple[str, tuple[Column, ...]]:
        """What to read instead of the user's SELECT, and its columns."""
        ...

    def prepare(self, conn: Connection, wanted: Wanted) -> tuple[Mart, list[str]]:
        """The mart to compare with, created or extended if need be, and the statements that did it."""
        ...

    def statements(self, mart: Mart) -> MartSql:
        """The statements over that mart."""
        ...

    def wrote(self, row: dict[str, Any]) -> None:
        """What a statement that writes has told."""
        ...
