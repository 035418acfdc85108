"""The writer of a mart elsewhere: statements over its shadow, and an outbox of what they wrote ahead."""

from typing import Any

from vitrina.engine.mart import Mart, Wanted
from vitrina.engine.writer import Abilities
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import Edition
from vitrina.sinks.documents.shadow import shadow_mart
from vitrina.sinks.documents.shape import Shape
from vitrina.sinks.documents.statements import ShadowSql
from vitrina.sql.describe import Column
from vitrina.stores import Batch

BATCH_BYTES = 8_000_000  # of a request; a few of them are in memory at a time
FRAME_BYTES = 100  # around each document
WIDER = 1.3  # a row as JSON, with the names of its fields


class ShadowWriter:
    """One run's writer. `edition` and `version` are set by the delivery, `built` by who builds the documents."""

    def __init__(self, abilities: Abilities, shape: Shape, *, built: bool) -> None:
        self.abilities = abilities
        self.shape = shape
        self.built = built
        self.edition: Edition | None = None
        self.version = 0
        self._outbox: list[bytes] = []
        self._count = 0
        self._bytes_per_document = 0.0

    @property
    def fields(self) -> tuple[Column, ...]:
        """Of a document."""
        return self.shape.columns

    @property
    def key_columns(self) -> list[Column]:
        """With their types."""
        by_name = {c.name: c for c in self.shape.columns}
        return [by_name[name] for name in self.shape.key]

    @property
    def most_rows(self) -> int:
        """As many as make a request of a good size, as far as one knows."""
        return max(1, int(BATCH_BYTES / max(self._bytes_per_document, FRAME_BYTES)))

    def expect(self, width: float) -> None:
        """How wide a row is, by the planner's estimate; what is written shows better."""
        self._bytes_per_document = width * WIDER + FRAME_BYTES

    def read(self, select: str, columns: tuple[Column, ...]) -> tuple[str, tuple[Column, ...]]:
        """Documents, built where the data is, with their keys; through transforms, the rows they are built from."""
        return (self.shape.select(select), self.shape.read_columns) if self.built else (select, columns)

    def prepare(self, conn: Connection, wanted: Wanted) -> tuple[Mart, list[str]]:
        """The shadow of the edition that is written; the delivery has made it."""
        del wanted
        assert self.edition is not None
        return shadow_mart(conn, self.edition, self.key_columns), []

    def statements(self, mart: Mart) -> ShadowSql:
        """Over the shadow."""
        return ShadowSql(mart, self.shape, self.built, lambda: self.version)

    def wrote(self, row: dict[str, Any]) -> None:
        """Keep what a statement wrote ahead, to be sent once it is committed."""
        documents, deletes = row.pop("lines", None), row.pop("deletes", None)
        if documents:
            self._keep(documents, row["written"])
            self._bytes_per_document = len(documents) / row["written"] + FRAME_BYTES
        if deletes:
            self._keep(deletes, row["deleted"])

    def _keep(self, lines: bytes, count: int) -> None:
        self._outbox.append(lines)
        self._count += count

    def take_outbox(self) -> Batch | None:
        """What is to be sent now, if anything."""
        if not self._count:
            return None
        batch = Batch(self.version, b"".join(self._outbox), self._count)
        self._outbox, self._count = [], 0
        return batch
