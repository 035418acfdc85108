"""What keeps a mart: prepares it, gives the statements that compare and write, and takes note of what was written."""

from dataclasses import dataclass
from typing import Any, Protocol

from vitrina.engine.converge import MartSql
from vitrina.engine.mart import Mart, Wanted
from vitrina.meta.db import Connection
from vitrina.sql.describe import Column

UNLIMITED = 2**31


@dataclass(frozen=True)
class Abilities:
    """What a kind of mart can do."""

    commits_with_checkpoint: bool  # its rows and the position move in one transaction
    is_compared_in_place: bool  # statements of the warehouse see the mart itself
    needs_shadow: bool  # what was sent is kept beside it: compared by that, and confirmed later
    swaps: bool  # a rebuild fills another one beside it, which takes its place in one move
    formats: tuple[str, ...] = ()  # of its files, for who reads them
    is_mapped: bool = False  # its pipeline may say how fields are kept: mapping, settings


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
