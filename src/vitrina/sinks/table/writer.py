"""The writer of a table: its statements write the mart itself."""

from typing import Any

from vitrina.engine.converge import MartSql, SealedSql
from vitrina.engine.mart import Mart, Wanted
from vitrina.engine.writer import UNLIMITED, Abilities, Loader
from vitrina.meta.db import Connection
from vitrina.sinks.table.mart import prepare_mart
from vitrina.sql.describe import Column

ABILITIES = Abilities(commits_with_checkpoint=True, is_compared_in_place=True, needs_shadow=False, swaps=False)


class TableWriter:
    """A mart in Postgres: the statement has written it, and nothing is left to do."""

    abilities = ABILITIES
    fields: tuple[Column, ...] = ()
    most_rows = UNLIMITED
    loader: Loader | None = None

    def read(self, select: str, columns: tuple[Column, ...]) -> tuple[str, tuple[Column, ...]]:
        """The user's SELECT as it is."""
        return select, columns

    def prepare(self, conn: Connection, wanted: Wanted) -> tuple[Mart, list[str]]:
        """Create or extend the table."""
        return prepare_mart(conn, wanted)

    def statements(self, mart: Mart) -> MartSql:
        """Over the table itself."""
        return SealedSql(mart) if mart.seal else MartSql(mart)

    def wrote(self, row: dict[str, Any]) -> None:
        """Nothing is left to send: the statement wrote the mart."""
